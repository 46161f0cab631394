package formats

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxMessageFields limits the fields of one message.
const maxMessageFields = 1 << 16

// errEnough is returned by a callback of eachField that has seen enough of a message: the walk ends, and eachField
// returns it unchanged.
var errEnough = fmt.Errorf("%w: enough", ErrBad)

// wireField is a field of a message in a file. Bytes are from at to end; a varint is value.
type wireField struct {
	number  protowire.Number
	typ     protowire.Type
	at, end int64
	value   uint64
}

// wireReader reads messages of a file. It has its memory for all of them, because a slice that is read into through an
// interface lies on the heap, and an Example of two features has eight messages.
type wireReader struct {
	r     io.ReaderAt
	space [20]byte // a tag and a length, or a varint
}

// eachField calls each for the fields of the message from at to end. It reads only tags, lengths and varints.
// Each may read from w too, because a field is parsed before the call.
func (w *wireReader) eachField(at, end int64, each func(wireField) error) error {
	for count := 0; at < end; count++ {
		if count == maxMessageFields {
			return &WalkError{at, fmt.Errorf("%w: a message of more than %d fields", ErrLimit, maxMessageFields)}
		}
		b := w.space[:min(int64(len(w.space)), end-at)]
		if err := readAt(w.r, b, at); err != nil {
			return &WalkError{at, err}
		}
		f, next := parseField(b, at)
		// A field must end inside its message, so that no inner length leads out of the record.
		if next < 0 || next > end-at {
			return &WalkError{at, fmt.Errorf("%w: a protobuf field that is none, or ends behind its message", ErrBad)}
		}
		if err := each(f); err != nil {
			if _, placed := err.(*WalkError); placed || err == errEnough {
				return err
			}
			return &WalkError{at, err}
		}
		at += next
	}
	return nil
}

// parseField reads a tag and what follows it. It returns the size of the whole field, or -1 if the bytes are no field,
// or a group, which no Example has.
func parseField(b []byte, at int64) (f wireField, size int64) {
	var n int
	if f.number, f.typ, n = protowire.ConsumeTag(b); n < 0 {
		return f, -1
	}
	f.at = at + int64(n)
	switch f.typ {
	case protowire.VarintType:
		value, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return f, -1
		}
		f.value, f.end = value, f.at+int64(m)
	case protowire.Fixed32Type:
		f.end = f.at + 4
	case protowire.Fixed64Type:
		f.end = f.at + 8
	case protowire.BytesType:
		length, m := protowire.ConsumeVarint(b[n:])
		// Added to a place in a file, this stays below 2^63.
		if m < 0 || length > 1<<62 {
			return f, -1
		}
		f.at += int64(m)
		if f.end = f.at + int64(length); f.end < f.at {
			return f, -1
		}
	default:
		return f, -1
	}
	return f, f.end - at
}
