package formats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// TFRecord is one record of a file of TFRecords. The framing is that of tensorflow/core/lib/io/record_writer.h:
//
//	uint64 length | uint32 masked CRC-32C of the length | data | uint32 masked CRC-32C of the data
type TFRecord struct {
	Offset int64 // of the data
	Length int64
}

// TFRecordWalker lists the records of a file by reading their frames alone. The checksum of each length is
// compared, for a wrong length leads anywhere; that of the data is for who reads them.
type TFRecordWalker struct {
	r        io.ReaderAt
	size, at int64
}

const (
	tfHeadBytes = 12
	tfTailBytes = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewTFRecordWalker begins at the start of a file.
func NewTFRecordWalker(r io.ReaderAt, size int64) *TFRecordWalker {
	return &TFRecordWalker{r: r, size: size}
}

// unmask undoes what TensorFlow does to a checksum that is stored beside its bytes.
func unmask(crc uint32) uint32 {
	// Masked so that the sum of bytes that hold sums is none of them (tensorflow/core/lib/hash/crc32c.h).
	crc -= 0xa282ead8
	return crc>>17 | crc<<15
}

// IsTFRecord recognises a file of TFRecords, which has no magic, by the checksum of its first length.
func IsTFRecord(head []byte) bool {
	return len(head) >= tfHeadBytes &&
		unmask(binary.LittleEndian.Uint32(head[8:])) == crc32.Checksum(head[:8], castagnoli)
}

// Next is the next record, io.EOF behind the last.
func (w *TFRecordWalker) Next() (TFRecord, error) {
	if w.at == w.size {
		return TFRecord{}, io.EOF
	}
	wrong := func(at int64, err error) (TFRecord, error) { return TFRecord{}, &WalkError{at, err} }
	if w.size-w.at < tfHeadBytes+tfTailBytes {
		return wrong(w.at, fmt.Errorf("%w: a record's frame of %d bytes (expected at least %d)", ErrTruncated, w.size-w.at, tfHeadBytes+tfTailBytes))
	}
	var head [tfHeadBytes]byte
	if err := readAt(w.r, head[:], w.at); err != nil {
		return wrong(w.at, err)
	}
	stated, found := unmask(binary.LittleEndian.Uint32(head[8:])), crc32.Checksum(head[:8], castagnoli)
	if stated != found {
		return wrong(w.at, fmt.Errorf("%w: the checksum of the record's length differs (expected %08x, found %08x)", ErrBad, stated, found))
	}
	// Unsigned, and compared with what is left before it is added to anything.
	length := binary.LittleEndian.Uint64(head[:8])
	if left := w.size - w.at - tfHeadBytes - tfTailBytes; length > uint64(left) {
		return wrong(w.at, fmt.Errorf("%w: a record of %d bytes, %d are left of the file", ErrTruncated, length, left))
	}
	r := TFRecord{Offset: w.at + tfHeadBytes, Length: int64(length)}
	w.at = r.Offset + r.Length + tfTailBytes
	return r, nil
}

// Checksum is the CRC-32C of a record's data as the file states it. It stands behind the data, so who reads
// these asks for it afterwards, and a Window need not go back.
func (w *TFRecordWalker) Checksum(r TFRecord) (uint32, error) {
	var tail [tfTailBytes]byte
	if err := readAt(w.r, tail[:], r.Offset+r.Length); err != nil {
		return 0, &WalkError{r.Offset + r.Length, err}
	}
	return unmask(binary.LittleEndian.Uint32(tail[:])), nil
}

// Blame is the error of a record that is no Example: where the record's checksum is right its writer meant it so, and
// TFRecords may hold anything.
func (w *TFRecordWalker) Blame(r TFRecord, wrong error) error {
	if !errors.Is(wrong, ErrBad) {
		return wrong
	}
	stated, err := w.Checksum(r)
	if err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(w.r, r.Offset, r.Length)); err != nil {
		return &WalkError{r.Offset, err}
	}
	if sum.Sum32() != stated {
		return wrong
	}
	return fmt.Errorf("%w: the record is whole by its checksum, and no tf.train.Example: %s", ErrUnsupported, Reason(wrong))
}

// readAt fills b. The size was known before, so a short read means that the file has changed.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the file was cut while it was read", ErrTruncated)
	}
	return err
}

// FeatureKind is the type of a feature's values.
type FeatureKind uint8

// The three lists of tf.train.Feature; their numbers are those of its fields.
const (
	BytesFeature FeatureKind = 1
	FloatFeature FeatureKind = 2
	IntFeature   FeatureKind = 3
)

// Feature is a named value of a tf.train.Example (tensorflow/core/example/feature.proto).
type Feature struct {
	Name   string
	Kind   FeatureKind
	Count  int   // of values: 0, 1, or 2 for several
	Offset int64 // of the one value's bytes in the file, or of the list of several numbers
	Length int64
	Packed bool    // of several floats: they stand behind each other there
	Int    int64   // the one value of an IntFeature
	Float  float32 // and of a FloatFeature
}

// maxFeatures bounds the features of an Example, maxFeatureFields the fields of any one message in it.
const (
	fewFeatures      = 16
	maxFeatures      = 1024
	maxFeatureFields = 1 << 16
)

// ReadExample lists the features of the tf.train.Example in a record. It hops over values by their lengths,
// so that of a photograph it reads a few bytes. Of features of one name the last counts, as in any map of
// protobuf.
func ReadExample(r io.ReaderAt, record TFRecord) ([]Feature, error) {
	var features []Feature
	var seen map[string]int // of many features: to look at each of a few takes less
	end := record.Offset + record.Length
	err := eachField(r, record.Offset, end, func(f wireField) error {
		switch {
		case f.number == 2 && f.typ == protowire.BytesType:
			// Its context is field 1, as an Example's features are; field 2 tells the two apart.
			return fmt.Errorf("%w: the record is a tf.train.SequenceExample", ErrUnsupported)
		case f.number != 1 || f.typ != protowire.BytesType:
			return fmt.Errorf("%w: the record is no tf.train.Example: field %d of wire type %d", ErrUnsupported, f.number, f.typ)
		}
		return eachField(r, f.at, f.end, func(f wireField) error {
			if f.number != 1 || f.typ != protowire.BytesType {
				return fmt.Errorf("%w: tf.train.Features with field %d of wire type %d", ErrBad, f.number, f.typ)
			}
			feature, err := readEntry(r, f.at, f.end)
			if err != nil {
				return err
			}
			// An Example of photographs has a dozen features, for which a map costs more than to look at each.
			i := slices.IndexFunc(features[:min(len(features), fewFeatures)], func(f Feature) bool { return f.Name == feature.Name })
			if later, again := seen[feature.Name]; again {
				i = later
			}
			if i >= 0 {
				features[i] = feature
				return nil
			}
			if len(features) == maxFeatures {
				return fmt.Errorf("%w: more than %d features", ErrLimit, maxFeatures)
			}
			if len(features) >= fewFeatures {
				if seen == nil {
					seen = make(map[string]int)
				}
				seen[feature.Name] = len(features)
			}
			features = append(features, feature)
			return nil
		})
	})
	return features, err
}

// readEntry reads an entry of the map: its name and its tf.train.Feature.
func readEntry(r io.ReaderAt, at, end int64) (found Feature, err error) {
	name := ""
	err = eachField(r, at, end, func(f wireField) error {
		switch {
		case f.number == 1 && f.typ == protowire.BytesType:
			if f.end-f.at > MaxNameBytes {
				return fmt.Errorf("%w: a feature's name of %d bytes (expected at most %d)", ErrLimit, f.end-f.at, MaxNameBytes)
			}
			b := make([]byte, f.end-f.at)
			err := readAt(r, b, f.at)
			name = TextName(string(b))
			return err
		case f.number == 2 && f.typ == protowire.BytesType:
			return eachField(r, f.at, f.end, func(f wireField) (err error) {
				if f.number < 1 || f.number > 3 || f.typ != protowire.BytesType {
					return fmt.Errorf("%w: a tf.train.Feature with field %d of wire type %d", ErrBad, f.number, f.typ)
				}
				// protobuf would put the values of both behind each other.
				if found.Kind == FeatureKind(f.number) {
					return fmt.Errorf("%w: a tf.train.Feature with two lists of one kind", ErrUnsupported)
				}
				found, err = readList(r, FeatureKind(f.number), f.at, f.end)
				return err
			})
		}
		return nil
	})
	found.Name = name
	return found, err
}

// errEnough ends a list whose second value was met.
var errEnough = fmt.Errorf("%w: enough", ErrBad)

// readList reads a BytesList, FloatList or Int64List as far as its second value. Numbers may be packed or
// not.
func readList(r io.ReaderAt, kind FeatureKind, at, end int64) (Feature, error) {
	found := Feature{Kind: kind}
	fields := 0
	err := eachField(r, at, end, func(f wireField) error {
		if fields++; f.number != 1 {
			return fmt.Errorf("%w: a list of a tf.train.Feature with field %d", ErrBad, f.number)
		}
		if err := found.add(r, f); err != nil {
			return err
		}
		// What is not asked for is not read: a list of a million numbers costs two.
		if found.Count > 1 {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	// Only one packed stretch alone is the numbers themselves; else they have tags or lengths between them, and the
	// whole list is kept to be read number by number.
	if found.Count > 1 && kind != BytesFeature && (!found.Packed || fields > 1 || found.Offset+found.Length < end) {
		found.Packed, found.Offset, found.Length = false, at, end-at
	}
	return found, err
}

// ReadNumbers reads all numbers of a list of several: int64 or float32, little-endian.
func ReadNumbers(r io.ReaderAt, list *Feature, most int) (data []byte, err error) {
	err = eachField(r, list.Offset, list.Offset+list.Length, func(f wireField) error {
		switch {
		case list.Kind == FloatFeature && f.typ != protowire.VarintType:
			// Before memory is taken: the length is the file's word.
			if f.end-f.at > int64(most) || (f.end-f.at)%4 != 0 {
				return fmt.Errorf("%w: a list of floats in %d bytes (expected at most %d)", ErrLimit, f.end-f.at, most)
			}
			raw := make([]byte, f.end-f.at)
			if err := readAt(r, raw, f.at); err != nil {
				return err
			}
			data = append(data, raw...)
		case list.Kind == IntFeature && f.typ == protowire.VarintType:
			data = binary.LittleEndian.AppendUint64(data, f.value)
		case list.Kind == IntFeature && f.typ == protowire.BytesType && f.end-f.at <= int64(most):
			raw := make([]byte, f.end-f.at)
			if err := readAt(r, raw, f.at); err != nil {
				return err
			}
			for len(raw) > 0 {
				value, n := protowire.ConsumeVarint(raw)
				if n < 0 {
					return fmt.Errorf("%w: a list of numbers that ends inside one", ErrBad)
				}
				data, raw = binary.LittleEndian.AppendUint64(data, value), raw[n:]
			}
		default:
			return fmt.Errorf("%w: a list of numbers with a value of wire type %d and %d bytes (expected at most %d)", ErrLimit, f.typ, f.end-f.at, most)
		}
		if len(data) > most {
			return fmt.Errorf("%w: a vector of more than %d bytes", ErrLimit, most)
		}
		return nil
	})
	return data, err
}

// add takes one field of a list: a value, or several that are packed.
func (v *Feature) add(r io.ReaderAt, f wireField) error {
	packed := f.typ == protowire.BytesType && v.Kind != BytesFeature
	size := f.end - f.at
	switch {
	case packed && size == 0:
		return nil
	case v.Kind == BytesFeature && f.typ == protowire.BytesType:
		v.Offset, v.Length = f.at, size
	case v.Kind == FloatFeature && (packed && size%4 == 0 || f.typ == protowire.Fixed32Type):
		var b [4]byte
		if err := readAt(r, b[:], f.at); err != nil {
			return err
		}
		v.Float = math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
		if size > 4 {
			v.Count++
			v.Packed, v.Offset, v.Length = true, f.at, size
		}
	case v.Kind == IntFeature && packed:
		// A varint of 64 bits has ten bytes at most.
		b := make([]byte, min(size, 10))
		if err := readAt(r, b, f.at); err != nil {
			return err
		}
		value, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return &WalkError{f.at, fmt.Errorf("%w: a list of numbers that ends inside one", ErrBad)}
		}
		if v.Int = int64(value); int64(n) < size {
			v.Count++
		}
	case v.Kind == IntFeature && f.typ == protowire.VarintType:
		v.Int = int64(f.value)
	default:
		return &WalkError{f.at, fmt.Errorf("%w: a list of kind %d with a value of wire type %d and %d bytes", ErrBad, v.Kind, f.typ, size)}
	}
	v.Count++
	return nil
}

// wireField is a field of a message in a file; bytes stand from at to end, a varint is value.
type wireField struct {
	number  protowire.Number
	typ     protowire.Type
	at, end int64
	value   uint64
}

// eachField calls each for the fields of the message from at to end. Nothing is read but tags, lengths and
// varints.
func eachField(r io.ReaderAt, at, end int64, each func(wireField) error) error {
	var space [20]byte // a tag and a length, or a varint
	for count := 0; at < end; count++ {
		if count == maxFeatureFields {
			return &WalkError{at, fmt.Errorf("%w: a message of more than %d fields", ErrLimit, maxFeatureFields)}
		}
		b := space[:min(int64(len(space)), end-at)]
		if err := readAt(r, b, at); err != nil {
			return &WalkError{at, err}
		}
		f, next := parseField(b, at)
		// A field ends inside of its message, so that no inner length leads out of the record.
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

// parseField reads a tag and what follows it. It returns how many bytes the whole field takes, -1 for what
// is no field, and for fields of groups, which no Example has.
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
		// Added to a place in a file this stays below 2^63.
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
