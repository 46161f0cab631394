package formats

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// FeatureKind is the type of a feature's values.
type FeatureKind uint8

// These are the three lists of tf.train.Feature, with the numbers of its fields.
const (
	BytesFeature FeatureKind = 1
	FloatFeature FeatureKind = 2
	IntFeature   FeatureKind = 3
)

// Feature is a named value of a tf.train.Example (tensorflow/core/example/feature.proto).
type Feature struct {
	Name   string
	Kind   FeatureKind
	Count  int   // number of values: 0, 1, or 2 for several
	Offset int64 // of the only value's bytes in the file, or of the list of several numbers
	Length int64
	Packed bool    // for several floats: they follow each other there
	Int    int64   // the only value of an IntFeature
	Float  float32 // the only value of a FloatFeature
}

const (
	fewFeatures = 16 // features of an Example that are compared one by one
	maxFeatures = 1024
)

// ExampleReader reads the tf.train.Examples of a file one after the other. It has its memory for all of them: allocated
// for each, it took a quarter of the time of a scan of small images.
type ExampleReader struct {
	wire     wireReader
	features []Feature
	name     [MaxNameBytes]byte
	names    map[string]string // the texts of names that were read before
}

// NewExampleReader reads from r. It is for one goroutine.
func NewExampleReader(r io.ReaderAt) *ExampleReader {
	return &ExampleReader{wire: wireReader{r: r}, names: make(map[string]string)}
}

// Read lists the features of the tf.train.Example in a record. It skips values by their lengths, so that it
// reads only a few bytes of a photograph. Of several features with one name the last counts, as in any map of protobuf.
// The list is valid until the next call.
func (e *ExampleReader) Read(record TFRecord) ([]Feature, error) {
	features := e.features[:0]
	var seen map[string]int // for many features; comparing each of a few takes less time
	end := record.Offset + record.Length
	err := e.wire.eachField(record.Offset, end, func(f wireField) error {
		switch {
		case f.number == 2 && f.typ == protowire.BytesType:
			// Its context is field 1, as an Example's features are, so field 2 distinguishes the two.
			return fmt.Errorf("%w: the record is a tf.train.SequenceExample", ErrUnsupported)
		case f.number != 1 || f.typ != protowire.BytesType:
			return fmt.Errorf("%w: the record is no tf.train.Example: field %d of wire type %d", ErrUnsupported, f.number, f.typ)
		}
		return e.wire.eachField(f.at, f.end, func(f wireField) error {
			if f.number != 1 || f.typ != protowire.BytesType {
				return fmt.Errorf("%w: tf.train.Features with field %d of wire type %d", ErrBad, f.number, f.typ)
			}
			feature, err := e.readEntry(f.at, f.end)
			if err != nil {
				return err
			}
			// An Example of photographs has a dozen features, for which a map takes more time than comparing each.
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
	e.features = features
	return features, err
}

// readEntry reads an entry of the map: its name and its tf.train.Feature.
func (e *ExampleReader) readEntry(at, end int64) (found Feature, err error) {
	name := ""
	err = e.wire.eachField(at, end, func(f wireField) (err error) {
		switch {
		case f.number == 1 && f.typ == protowire.BytesType:
			name, err = e.readName(f.at, f.end)
			return err
		case f.number == 2 && f.typ == protowire.BytesType:
			return e.wire.eachField(f.at, f.end, func(f wireField) (err error) {
				if f.number < 1 || f.number > 3 || f.typ != protowire.BytesType {
					return fmt.Errorf("%w: a tf.train.Feature with field %d of wire type %d", ErrBad, f.number, f.typ)
				}
				// protobuf would append the values of one list to those of the other.
				if found.Kind == FeatureKind(f.number) {
					return fmt.Errorf("%w: a tf.train.Feature with two lists of one kind", ErrUnsupported)
				}
				found, err = e.wire.readList(FeatureKind(f.number), f.at, f.end)
				return err
			})
		}
		return nil
	})
	found.Name = name
	return found, err
}

// readName reads the name of a feature. The Examples of a file have the same few names, so each becomes a text once.
func (e *ExampleReader) readName(at, end int64) (string, error) {
	if end-at > MaxNameBytes {
		return "", fmt.Errorf("%w: a feature's name of %d bytes (expected at most %d)", ErrLimit, end-at, MaxNameBytes)
	}
	b := e.name[:end-at]
	if err := readAt(e.wire.r, b, at); err != nil {
		return "", err
	}
	name, known := e.names[string(b)] // this conversion does not allocate
	if !known {
		name = TextName(string(b))
		// A hostile file has a new name in each Example.
		if len(e.names) < maxFeatures {
			e.names[string(b)] = name
		}
	}
	return name, nil
}

// readList reads a BytesList, FloatList or Int64List up to its second value. Numbers may be packed or not.
func (w *wireReader) readList(kind FeatureKind, at, end int64) (Feature, error) {
	found := Feature{Kind: kind}
	fields := 0
	err := w.eachField(at, end, func(f wireField) error {
		if fields++; f.number != 1 {
			return fmt.Errorf("%w: a list of a tf.train.Feature with field %d", ErrBad, f.number)
		}
		if err := found.add(w, f); err != nil {
			return err
		}
		// No more is read than needed: a list of a million numbers costs only two.
		if found.Count > 1 {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	// A single packed stretch is the numbers themselves. Otherwise tags or lengths lie between them, and the place of the
	// whole list is kept, to be read number by number.
	if found.Count > 1 && kind != BytesFeature && (!found.Packed || fields > 1 || found.Offset+found.Length < end) {
		found.Packed, found.Offset, found.Length = false, at, end-at
	}
	return found, err
}

// ReadNumbers reads all numbers of a list of several: int64 or float32, little-endian.
func ReadNumbers(r io.ReaderAt, list *Feature, most int) (data []byte, err error) {
	err = (&wireReader{r: r}).eachField(list.Offset, list.Offset+list.Length, func(f wireField) error {
		switch {
		case list.Kind == FloatFeature && f.typ != protowire.VarintType:
			// This comes before any allocation, because the length comes from the file.
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

// add reads one field of a list: a value, or several packed ones.
func (v *Feature) add(w *wireReader, f wireField) error {
	packed := f.typ == protowire.BytesType && v.Kind != BytesFeature
	size := f.end - f.at
	switch {
	case packed && size == 0:
		return nil
	case v.Kind == BytesFeature && f.typ == protowire.BytesType:
		v.Offset, v.Length = f.at, size
	case v.Kind == FloatFeature && (packed && size%4 == 0 || f.typ == protowire.Fixed32Type):
		b := w.space[:4]
		if err := readAt(w.r, b, f.at); err != nil {
			return err
		}
		v.Float = math.Float32frombits(binary.LittleEndian.Uint32(b))
		if size > 4 {
			v.Count++
			v.Packed, v.Offset, v.Length = true, f.at, size
		}
	case v.Kind == IntFeature && packed:
		// A varint of 64 bits has at most ten bytes.
		b := w.space[:min(size, 10)]
		if err := readAt(w.r, b, f.at); err != nil {
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
