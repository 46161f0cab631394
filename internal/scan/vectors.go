package scan

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/formats"
)

// Vectors of numbers are no classes. In a label's column they become the field "label", and the label is -1. Vectors in
// other columns are fields only if they were asked for: most programs do not use them, and each costs 16 bytes a
// sample.

// wantsVector is true for a column whose vectors are kept.
func (p *part) wantsVector(name string) bool {
	return slices.Contains(p.label.names, name) || slices.Contains(p.fields, name)
}

// widths has the size of an element, by NumPy's name of its type.
// A type that is not here is not read.
var widths = map[string]int64{"bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "uint32": 4, "int32": 4,
	"float32": 4, "uint64": 8, "int64": 8, "float64": 8}

// vectorCell makes a cell of a vector whose elements follow each other in the container.
// The caller has checked that the length is a whole number of elements.
func vectorCell(name, dtype string, offset, length int64) cell {
	return cell{name: name, kind: arrayCell, dtype: dtype, shape: []int64{length / widths[dtype]}, offset: offset, length: length}
}

// heldCell makes a cell of a vector whose elements have no place in the container. data has them, little-endian.
// The index holds the bytes themselves.
func heldCell(name, dtype string, data []byte) cell {
	c := vectorCell(name, dtype, 0, int64(len(data)))
	c.data, c.held = data, true
	return c
}

// exampleVector makes a cell of a feature of several numbers in a tf.train.Example.
// Packed floats follow each other in the message (protocol buffers, "Packed Repeated Fields"), so they have a place.
// Varints and unpacked floats have none; they are decoded and held.
func (p *part) exampleVector(f *formats.Feature) (cell, error) {
	switch {
	case f.Kind == formats.BytesFeature:
		return cell{name: f.Name, kind: listCell, holds: "several texts or images"}, nil
	case !p.wantsVector(f.Name):
		return cell{name: f.Name, kind: listCell}, nil
	}
	if f.Packed && f.Kind == formats.FloatFeature {
		return vectorCell(f.Name, "float32", f.Offset, f.Length), nil
	}
	dtype := "int64"
	if f.Kind == formats.FloatFeature {
		dtype = "float32"
	}
	data, err := formats.ReadNumbers(p.file, f, maxHeldValue)
	if errors.Is(err, formats.ErrLimit) { // the vector is too long for an index; mergeLabels warns of it
		return cell{name: f.Name, kind: listCell}, nil
	}
	return heldCell(f.Name, dtype, data), err
}

// jsonVector makes a cell of a member of a JSON object that is an array of numbers; ok is false for anything else. The
// vector is of float64, because JSON has only one type of numbers.
// Whole numbers above 2^53 are rounded to a float64, as by many readers of JSON (RFC 8259, 6).
func jsonVector(name string, raw json.RawMessage) (cell, bool) {
	// These are pointers, because null is no number but would become 0.
	var values []*float64
	if len(raw) > maxHeldValue || json.Unmarshal(raw, &values) != nil || slices.Contains(values, nil) || len(values) == 0 {
		return cell{}, false
	}
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(*v))
	}
	return heldCell(name, "float64", data), true
}

// mdsDTypes has the types of MDS's arrays by number (streaming/base/format/mds/encodings.py, NDArray).
var mdsDTypes = map[byte]string{8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
	64: "uint64", 65: "int64", 66: "float64"}

// mdsArray reads a value of the encoding ndarray[:dtype[:shape]]. What the encoding leaves out precedes the elements: a
// byte for the type; a byte for the number of axes and the width of a side, followed by the sides.
func (p *part) mdsArray(c *cell, encoding string) error {
	parts := strings.Split(encoding, ":")
	if parts[0] != "ndarray" || len(parts) > 3 || !p.wantsVector(c.name) && !p.isImage(c.name) {
		c.kind = listCell
		return nil
	}
	// The longest head has two bytes, and 63 sides of 8 bytes.
	var space [2 + 63*8]byte
	head, err := p.head(c, space[:])
	if err != nil {
		return err
	}
	wrong := fmt.Errorf("%w: %d bytes are no array of %.80q", formats.ErrBad, c.length, encoding)
	dtype, at := "", 0
	if len(parts) > 1 {
		dtype = parts[1]
	} else if len(head) > 0 {
		dtype, at = mdsDTypes[head[0]], 1
	}
	var shape []int64
	switch {
	case widths[dtype] == 0:
		return wrong
	case len(parts) == 3:
		for _, side := range strings.Split(parts[2], ",") {
			n, err := strconv.ParseInt(side, 10, 32)
			if err != nil {
				return wrong
			}
			shape = append(shape, n)
		}
	default:
		if at >= len(head) {
			return wrong
		}
		// Six bits are the number of axes, and two the size of a side.
		axes, width := int(head[at]>>2), 1<<(head[at]&3)
		if at++; at+axes*width > len(head) {
			return wrong
		}
		for range axes {
			var side [8]byte
			copy(side[:], head[at:at+width])
			shape = append(shape, int64(binary.LittleEndian.Uint64(side[:])))
			at += width
		}
	}
	c.offset, c.length = c.offset+int64(at), c.length-int64(at)
	c.kind, c.dtype, c.shape = arrayCell, dtype, shape
	if n, ok := arrayBytes(shape, widths[dtype]); !ok || n != c.length {
		return wrong
	}
	return p.imageOfArray(c)
}

// arrayBytes returns the number of bytes of an array; false if the shape is none that a container's array has.
// An array with an axis of 0 has no bytes, and is refused with the others.
func arrayBytes(shape []int64, width int64) (int64, bool) {
	n := width
	for _, side := range shape {
		// This divides instead of multiplying, because the sides come from the file.
		if side < 1 || side > maxLength/n {
			return 0, false
		}
		n *= side
	}
	return n, len(shape) > 0
}

// npyCell makes an array of a member that is an .npy file, if it is image or label or was asked for.
// The file's head has type and shape (numpy/lib/format.py). An array of objects is a pickle, whose type is not read.
func (p *part) npyCell(c *cell) error {
	if last := c.name[strings.LastIndexByte(c.name, '.')+1:]; last != "npy" || !p.wantsVector(c.name) && !p.isImage(c.name) {
		return nil
	}
	head, err := formats.ReadNPY(p.file, c.offset, c.length)
	if err != nil {
		return fmt.Errorf("the member %.80q: %w", c.name, err)
	}
	c.offset, c.length, c.dtype, c.shape = c.offset+head.Data, c.length-head.Data, head.DType, head.Shape
	c.kind = arrayCell
	if n, ok := arrayBytes(c.shape, widths[c.dtype]); len(c.shape) > 0 && (!ok || n != c.length) {
		return fmt.Errorf("%w: the member %.80q: %d bytes are no array of %s and shape %v", formats.ErrBad, c.name, c.length, c.dtype, c.shape)
	}
	if len(c.shape) == 0 { // a single number
		return p.number(c)
	}
	return p.imageOfArray(c)
}

// number makes a number of an array's only element.
// As the label it is then a class, and no vector.
func (p *part) number(c *cell) error {
	_, take := numberOf(c.dtype)
	if take == nil || c.length != widths[c.dtype] {
		return fmt.Errorf("%w: %d bytes are no number of %s", formats.ErrBad, c.length, c.dtype)
	}
	data, err := p.bytes(c, 8)
	if err != nil {
		return err
	}
	take(c, data)
	c.dtype = ""
	return nil
}
