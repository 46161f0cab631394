package formats

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/blocks"
)

// RecordIO walks the records of an MXNet .rec file (dmlc-core, include/dmlc/recordio.h and src/recordio.cc) by the
// heads of their frames:
//
//	uint32 magic | uint32 flag and length | data | padding to 4 bytes
//
// A record is one frame, unless it contains the magic at a multiple of 4 bytes: there it is split, and the magic is
// left out. The format has no checksums.
type RecordIO struct {
	r        io.ReaderAt
	size, at int64
}

// IORecord is a record. Its bytes follow the head of its only frame, or are those of several frames.
type IORecord struct {
	Offset int64 // of the first frame
	Stored int64 // size of all frames, without the padding after the last
	Length int64 // of the record's data
}

// Split is true for a record of several frames.
func (r *IORecord) Split() bool { return r.Stored != r.Length+blocks.RecordIOHead }

// magicOfRecords is what was left out between two parts of a record.
var magicOfRecords = binary.LittleEndian.AppendUint32(nil, blocks.RecordIOMagic)

// oldRecordIO is the magic of dmlc-core before 2015, which had 30 bits for the length.
const oldRecordIO = 0x3ed7230a

// These are the flags of frames; the flag of a whole record is 0.
const recordFirst, recordMiddle, recordLast = 1, 2, 3

// IsRecordIO recognises the magic of the first frame, also the old one.
func IsRecordIO(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	// The old magic is recognised so that such a file is refused by its name, and not as something unknown.
	magic := binary.LittleEndian.Uint32(head)
	return magic == blocks.RecordIOMagic || magic == oldRecordIO
}

// NewRecordIO begins at the start of a file.
func NewRecordIO(r io.ReaderAt, size int64) *RecordIO { return &RecordIO{r: r, size: size} }

// Next returns the next record, io.EOF after the last.
func (w *RecordIO) Next() (IORecord, error) {
	if w.at >= w.size {
		return IORecord{}, io.EOF
	}
	r := IORecord{Offset: w.at}
	// A record ends with a frame of flag 0 or 3, and only the frames before it say where that is.
	for at := w.at; ; {
		flag, length, err := w.frame(at)
		if err != nil {
			return r, err
		}
		first := at == w.at
		if first != (flag == 0 || flag == recordFirst) {
			return r, &WalkError{at, fmt.Errorf("%w: a frame of flag %d where a record %s", ErrBad, flag, map[bool]string{true: "begins", false: "goes on"}[first])}
		}
		if !first {
			r.Length += 4 // the magic between two parts
		}
		end := at + blocks.RecordIOHead + length
		r.Length, r.Stored = r.Length+length, end-r.Offset
		at = min((end+3)&^3, w.size)
		if flag == 0 || flag == recordLast {
			w.at = at
			return r, nil
		}
	}
}

// frame reads the head of a frame, and checks that the frame lies inside the file.
func (w *RecordIO) frame(at int64) (flag uint32, length int64, err error) {
	if w.size-at < blocks.RecordIOHead {
		return 0, 0, &WalkError{at, fmt.Errorf("%w: a frame's head of %d bytes (expected %d)", ErrTruncated, w.size-at, blocks.RecordIOHead)}
	}
	var head [blocks.RecordIOHead]byte
	if err := readAt(w.r, head[:], at); err != nil {
		return 0, 0, &WalkError{at, err}
	}
	switch magic := binary.LittleEndian.Uint32(head[:]); magic {
	case blocks.RecordIOMagic:
	case oldRecordIO:
		return 0, 0, &WalkError{at, fmt.Errorf("%w: RecordIO of dmlc-core before 2015, with the magic %#x (expected %#x)", ErrUnsupported, magic, uint32(blocks.RecordIOMagic))}
	default:
		return 0, 0, &WalkError{at, fmt.Errorf("%w: no frame begins here: the magic is %#x (expected %#x)", ErrBad, magic, uint32(blocks.RecordIOMagic))}
	}
	flag, length = blocks.ParseRecordIO(binary.LittleEndian.Uint32(head[4:]))
	left := w.size - at - blocks.RecordIOHead
	if flag > recordLast { // the field has three bits, but only four values are flags
		return 0, 0, &WalkError{at, fmt.Errorf("%w: a part of flag %d and %d bytes, %d are left of the file", ErrBad, flag, length, left)}
	}
	if length > left {
		return 0, 0, &WalkError{at, fmt.Errorf("%w: a part of flag %d and %d bytes, %d are left of the file", ErrTruncated, flag, length, left)}
	}
	return flag, length, nil
}

// IRHeader is what mxnet.recordio.pack writes before an image (python/mxnet/recordio.py): a label or, if Labels is not
// 0, that many labels after the header.
type IRHeader struct {
	Labels  int64 // number of labels in the vector
	Label   float32
	ID, ID2 uint64
}

// IRHeaderBytes is the size of the header alone; each label of a vector is a float32 after it.
const IRHeaderBytes = 24

// Bytes is the size of header and labels.
func (h *IRHeader) Bytes() int64 { return IRHeaderBytes + 4*h.Labels }

// Header reads the header of a record. If one label follows it, that one is the label.
func (w *RecordIO) Header(r *IORecord) (h IRHeader, err error) {
	le := binary.LittleEndian
	// b has the header, and the one label that may follow it.
	b := make([]byte, min(r.Length, IRHeaderBytes+4))
	if err := w.read(r, b); err != nil {
		return h, err
	}
	wrong := func(format string, a ...any) (IRHeader, error) {
		return h, &WalkError{r.Offset, fmt.Errorf("%w: "+format, append([]any{ErrBad}, a...)...)}
	}
	if len(b) < IRHeaderBytes {
		return wrong("a record of %d bytes (expected at least the %d of the header that mxnet.recordio.pack writes)", r.Length, IRHeaderBytes)
	}
	h = IRHeader{Labels: int64(le.Uint32(b)), Label: math.Float32frombits(le.Uint32(b[4:])), ID: le.Uint64(b[8:]), ID2: le.Uint64(b[16:])}
	if h.Bytes() > r.Length {
		return wrong("a record of %d bytes whose header says that %d labels follow", r.Length, h.Labels)
	}
	if h.Labels == 1 {
		h.Label = math.Float32frombits(le.Uint32(b[IRHeaderBytes:]))
	}
	return h, nil
}

// Labels reads the vector of labels after a header. Header has compared its length with the record's.
func (w *RecordIO) Labels(r *IORecord, h *IRHeader) ([]byte, error) {
	b := make([]byte, h.Bytes())
	err := w.read(r, b)
	return b[IRHeaderBytes:], err
}

// read fills b with the first bytes of a record.
func (w *RecordIO) read(r *IORecord, b []byte) error {
	for at := r.Offset; len(b) > 0; {
		_, length, err := w.frame(at)
		if err != nil {
			return err
		}
		// The magic was left out where the record was split, and belongs to the record (RecordIOReader::NextRecord).
		if at > r.Offset { // the magic between two parts
			n := copy(b, magicOfRecords)
			b = b[n:]
		}
		n := min(length, int64(len(b)))
		if err := readAt(w.r, b[:n], at+blocks.RecordIOHead); err != nil {
			return &WalkError{at, err}
		}
		b = b[n:]
		at = (at + blocks.RecordIOHead + length + 3) &^ 3
	}
	return nil
}

// RecordKey is a line of an .idx file: a key, and the offset of its record's first frame.
type RecordKey struct {
	Offset int64
	Key    string
}

// maxRecordKeys limits the lines of an .idx file; that many take a gigabyte.
const maxRecordKeys = 1 << 24

// ReadRecordKeys reads an .idx file (mxnet.recordio.MXIndexedRecordIO), whose lines are KEY TAB OFFSET in any order.
// It returns the keys sorted by offset.
func ReadRecordKeys(r io.Reader) ([]RecordKey, error) {
	var keys []RecordKey
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 2*MaxNameBytes)
	number := 1 // line number, counting empty lines as an editor does
	for ; lines.Scan(); number++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" {
			continue
		}
		key, place, ok := strings.Cut(line, "\t")
		offset, err := strconv.ParseInt(place, 10, 64)
		switch {
		case !ok || err != nil || offset < 0 || strings.IndexByte(key, 0) >= 0:
			return nil, fmt.Errorf("%w: line %d is %.80q (expected a key, a tab and an offset)", ErrBad, number, line)
		case len(keys) == maxRecordKeys:
			return nil, fmt.Errorf("%w: more than %d lines", ErrLimit, maxRecordKeys)
		}
		keys = append(keys, RecordKey{offset, TextName(key)})
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%w: line %d has more than %d bytes", ErrBad, number, 2*MaxNameBytes)
	} else if err != nil {
		return nil, err
	}
	slices.SortStableFunc(keys, func(a, b RecordKey) int { return cmp.Compare(a.Offset, b.Offset) })
	return keys, nil
}
