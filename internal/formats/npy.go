package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// NPY is the header of an .npy file (numpy.lib.format, versions 1 to 3).
type NPY struct {
	DType string // NumPy's name
	Shape []int64
	Data  int64 // offset of the elements
}

const (
	npyMagic  = "\x93NUMPY"
	maxNPY    = 64 << 10 // largest size of a header; NumPy's own have 118
	maxNPYDim = 32
)

// npyWords finds the three entries of the header's dict, which is a literal of Python.
// NumPy writes them sorted by name (numpy.lib.format.write_array_header).
var npyWords = regexp.MustCompile(`'descr':\s*'([<>|=])([a-zA-Z])(\d*)'.*'fortran_order':\s*(True|False).*'shape':\s*\(([0-9, ]*)\)`)

var npyTypes = map[string]string{"b1": "bool", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "f2": "float16", "u4": "uint32",
	"i4": "int32", "f4": "float32", "u8": "uint64", "i8": "int64", "f8": "float64"}

// ReadNPY reads the header of an .npy file that lies inside another file.
func ReadNPY(r io.ReaderAt, offset, length int64) (n NPY, err error) {
	var head [12]byte
	if length < int64(len(head)) {
		return n, fmt.Errorf("%w: an .npy file of %d bytes", ErrTruncated, length)
	}
	if err := readAt(r, head[:], offset); err != nil {
		return n, err
	}
	first, size := int64(10), int64(binary.LittleEndian.Uint16(head[8:]))
	// Version 1 has the header's size in two bytes, 2 and 3 in four; 3 has UTF-8 where the others have Latin-1.
	if head[6] > 1 {
		first, size = 12, int64(binary.LittleEndian.Uint32(head[8:]))
	}
	switch {
	case !bytes.HasPrefix(head[:], []byte(npyMagic)) || head[6] < 1 || head[6] > 3:
		return n, fmt.Errorf("%w: no .npy file", ErrBad)
	case size > maxNPY:
		return n, fmt.Errorf("%w: an .npy header of %d bytes (expected at most %d)", ErrLimit, size, maxNPY)
	case size > length-first:
		return n, fmt.Errorf("%w: an .npy header of %d bytes in a file of %d", ErrTruncated, size, length)
	}
	text := make([]byte, size)
	if err := readAt(r, text, offset+first); err != nil {
		return n, err
	}
	found := npyWords.FindSubmatch(text)
	if found == nil {
		return n, fmt.Errorf("%w: an .npy file of the type %.80q", ErrUnsupported, text)
	}
	n.Data, n.DType = first+size, npyTypes[string(found[2])+string(found[3])]
	switch {
	// This comes before the check of the type, which has no name here either, because the reason for refusing it says
	// more.
	case string(found[2]) == "O":
		return n, fmt.Errorf("%w: an .npy file of objects, which is a pickle and can run any code when it is read", ErrUnsupported)
	case n.DType == "" || string(found[1]) == ">":
		return n, fmt.Errorf("%w: an .npy file of the type %s", ErrUnsupported, bytes.Join(found[1:4], nil))
	}
	for _, side := range strings.Split(string(found[5]), ",") {
		if side = strings.TrimSpace(side); side == "" {
			continue
		}
		v, err := strconv.ParseInt(side, 10, 64)
		if err != nil || len(n.Shape) == maxNPYDim {
			return n, fmt.Errorf("%w: an .npy file of the shape (%.80s)", ErrBad, found[5])
		}
		n.Shape = append(n.Shape, v)
	}
	// With one axis both orders are the same.
	if string(found[4]) == "True" && len(n.Shape) > 1 {
		return n, fmt.Errorf("%w: an .npy file in Fortran's order", ErrUnsupported)
	}
	return n, nil
}
