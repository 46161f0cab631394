package scan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/float16"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// scanMDS reads the samples of a shard of MosaicML's streaming. The shard may be compressed as a whole.
// index.json is not needed, because a shard describes its own columns. mdsindex.go uses it to find shards in folders
// below.
func scanMDS(p *part) error {
	p.plain = false
	var head [4]byte
	n, err := p.file.ReadAt(head[:], 0)
	if n < len(head) && !errors.Is(err, io.EOF) {
		return err
	}
	codec := formats.WholeCodec(p.path, head[:n])
	// A raw shard may happen to begin with a codec's magic.
	if codec == blocks.None || formats.IsMDS(p.file, p.size) {
		return p.samplesOfMDS(nil)
	}
	whole, err := formats.ReadWhole(codec, p.file, p.size, p.mostBlock)
	if err != nil {
		return err
	}
	stored, size := p.file, p.size
	p.file, p.size = bytes.NewReader(whole.Data), int64(len(whole.Data))
	err = p.samplesOfMDS(whole)
	// The decompressed shard is dropped, because parts are kept until all shards were walked. Places refer to the stored
	// file.
	p.file, p.size = stored, size
	if walk := (*formats.WalkError)(nil); errors.As(err, &walk) {
		err = &formats.WalkError{Offset: walk.Offset, Err: fmt.Errorf("%w (the byte is one of the shard once it is decompressed)", walk.Err)}
	}
	return err
}

// samplesOfMDS reads the samples of a shard; whole is the decompressed shard if it was compressed. If only one column
// is encoded as an image, it is the image, whatever its name.
func (p *part) samplesOfMDS(whole *formats.WholeFile) error {
	m, err := formats.NewMDS(p.file, p.size)
	if err != nil {
		return err
	}
	if !p.image.given {
		p.image.names = encodedImages(m.Columns)
	}
	// places has the offset and length of each column.
	places := make([][2]int64, len(m.Columns))
	encodings := make([]string, len(m.Columns))
	for i := range m.Columns {
		// The parameters are removed once here, and not for each sample.
		encodings[i] = mdsEncoding(m.Columns[i].Encoding)
	}
	var cells []cell
	for {
		begin, err := m.Next(places)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		cells = cells[:0]
		pixels := false
		for i := range m.Columns {
			c := cell{name: m.Columns[i].Name, offset: places[i][0], length: places[i][1]}
			if err := p.decodeMDS(&c, encodings[i]); err != nil {
				return at(fmt.Errorf("the column %.80q: %w", c.name, err), c.offset)
			}
			pixels = pixels || c.raw != (catalog.RawSize{})
			cells = append(cells, c)
		}
		if pixels {
			if err := p.pixelsBeside(cells); err != nil {
				return at(err, begin)
			}
		}
		// place is where errors say that the sample is, so it must be a place in the user's own file.
		place := begin
		if whole != nil {
			place = 0 // in a compressed file, begin is no place
			if err := p.compressed(cells, whole); err != nil {
				return at(err, begin)
			}
		}
		if err := p.add("", place, cells); err != nil {
			return at(err, begin)
		}
	}
}

// leastInPlace is the least length of a value that is read from its place in a compressed shard. A shorter value is
// rather held, because its neighbours may be compressed.
// zstd stores what it cannot compress unchanged (RFC 8878, 3.1.1.2.2, Raw_Block), so a photograph may have a place in
// the file.
const leastInPlace = 4 << 10

// compressed finds where the cells of a sample lie: in the shard's file, or in the decompressed shard.
// The cells' places are those in the decompressed shard, but later reads use the shard's own file.
func (p *part) compressed(cells []cell, whole *formats.WholeFile) error {
	// The image always gets a place, because an index never holds images.
	image, err := p.imageOf(cells)
	if err != nil {
		return err
	}
	for i := range cells {
		c := &cells[i]
		if c.kind != bytesCell && c.kind != textCell && c.kind != arrayCell {
			continue
		}
		c.data = whole.Data[c.offset:][:c.length:c.length]
		// A raw block of zstd holds what cannot be compressed: photographs, and sometimes their neighbours.
		if i == image || c.length >= leastInPlace {
			c.offset, c.block = whole.Place(c.offset, c.length)
		} else {
			c.block = whole.Block()
		}
	}
	return nil
}

// mdsEncoding returns an encoding without its parameters, such as the 90 of "jpeg:90" (JPEG.from_str). It keeps those
// of arrays, because they say what the bytes are.
func mdsEncoding(said string) string {
	if name, _, _ := strings.Cut(said, ":"); name != "ndarray" {
		return name
	}
	return said
}

// imageEncodings are the encodings of images, and those of lists, which may hold just one image.
var imageEncodings = []string{"jpeg", "png", "pil", "jpeg_array", "jpegarray", "list[jpeg]", "list[png]", "list[pil]"}

// encodedImages returns the usual names of images, or the only column whose encoding is one of images.
// A usual name takes precedence over an encoding, as in all containers.
func encodedImages(columns []formats.MDSColumn) []string {
	var encoded []string
	for _, c := range columns {
		if slices.Contains(imageNames, c.Name) {
			return imageNames
		}
		if slices.Contains(imageEncodings, mdsEncoding(c.Encoding)) {
			encoded = append(encoded, c.Name)
		}
	}
	if len(encoded) == 1 {
		return encoded
	}
	return imageNames
}

// placeholder is the size of a word before each list that streaming keeps "for future features".
const placeholder = 4

// decodeMDS sets a cell's kind by its column's encoding (streaming/base/format/mds/encodings.py), and the value of
// numbers. Anything but bytes, text, numbers and arrays cannot be a field: neither lists of several images, nor
// pickles, which are never loaded.
func (p *part) decodeMDS(c *cell, encoding string) error {
	switch encoding {
	case "bytes", "jpeg", "png":
		return nil
	case "str", "json", "str_decimal":
		c.kind, c.json = textCell, encoding == "json"
		return nil
	case "str_int", "str_float":
		return p.decodeWord(c, encoding == "str_int")
	case "pil":
		return p.decodePIL(c)
	case "jpeg_array", "jpegarray":
		return p.imageOfList(c, 0)
	case "list[jpeg]", "list[png]":
		return p.imageOfList(c, placeholder)
	case "list[pil]":
		if err := p.imageOfList(c, placeholder); err != nil || c.kind == listCell {
			return err
		}
		return p.decodePIL(c)
	}
	width, number := numberOf(encoding)
	if width == 0 {
		if encoding == "pkl" && slices.Contains(p.label.names, c.name) {
			return fmt.Errorf("%w: the label is a pickle, which can run any code when it is read%s", formats.ErrUnsupported, packInstead)
		}
		if c.holds = "values of the encoding " + strconv.Quote(encoding); encoding == "pkl" {
			c.why = "is a pickle, which can run any code when it is read"
		}
		return p.mdsArray(c, encoding)
	}
	if c.length != width {
		return fmt.Errorf("%w: a value of %d bytes (expected %d, for %s)", formats.ErrBad, c.length, width, encoding)
	}
	data, err := p.bytes(c, 8)
	if err != nil {
		return err
	}
	number(c, data)
	return nil
}

// mostDigits is the largest number of digits that Python reads as an int (sys.int_info.default_max_str_digits), and so
// streaming as str_int.
const mostDigits = 4300

// decodeWord reads a number that is written in digits.
// An int of Python may exceed 64 bits. Then the file is not wrong, but the column cannot be a field.
func (p *part) decodeWord(c *cell, whole bool) (err error) {
	if c.length > mostDigits {
		return fmt.Errorf("%w: a number of %d bytes (expected at most %d)", formats.ErrLimit, c.length, mostDigits)
	}
	data, err := p.bytes(c, mostDigits)
	if err != nil {
		return err
	}
	if whole {
		c.kind = intCell
		c.int, err = strconv.ParseInt(string(data), 10, 64)
	} else {
		c.kind = floatCell
		c.number, err = strconv.ParseFloat(string(data), 64)
	}
	if whole && errors.Is(err, strconv.ErrRange) {
		c.kind, c.holds = listCell, "whole numbers of more than 64 bits"
		c.why = "holds " + c.holds
		return nil
	}
	if err != nil && !errors.Is(err, strconv.ErrRange) { // like Python, this makes an infinity of a float that is too large
		return fmt.Errorf("%w: %.40q is no number", formats.ErrBad, data)
	}
	return nil
}

// numberOf returns the size of a number with that encoding, and a function that reads it; 0 if the encoding is no
// number.
// It serves arrays of one number as well (part.number), whose types have the same names.
func numberOf(encoding string) (width int64, take func(*cell, []byte)) {
	whole := func(width int64, value func([]byte) int64) (int64, func(*cell, []byte)) {
		return width, func(c *cell, b []byte) { c.kind, c.int = intCell, value(b); c.number = float64(c.int) }
	}
	float := func(width int64, value func([]byte) float64) (int64, func(*cell, []byte)) {
		return width, func(c *cell, b []byte) { c.kind, c.number = floatCell, value(b) }
	}
	le := binary.LittleEndian
	switch encoding {
	case "int", "int64":
		return whole(8, func(b []byte) int64 { return int64(le.Uint64(b)) })
	case "int32":
		return whole(4, func(b []byte) int64 { return int64(int32(le.Uint32(b))) })
	case "int16":
		return whole(2, func(b []byte) int64 { return int64(int16(le.Uint16(b))) })
	case "int8":
		return whole(1, func(b []byte) int64 { return int64(int8(b[0])) })
	case "uint32":
		return whole(4, func(b []byte) int64 { return int64(le.Uint32(b)) })
	case "uint16":
		return whole(2, func(b []byte) int64 { return int64(le.Uint16(b)) })
	case "uint8":
		return whole(1, func(b []byte) int64 { return int64(b[0]) })
	case "uint64":
		return 8, func(c *cell, b []byte) { c.setUnsigned(le.Uint64(b)) }
	case "float64":
		return float(8, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) })
	case "float32":
		return float(4, func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) })
	case "float16":
		return float(2, func(b []byte) float64 { return float64(float16.FromLEBytes(b).Float32()) })
	}
	return 0, nil
}
