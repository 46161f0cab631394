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

// scanMDS reads the samples of a shard of MosaicML's streaming, which may be compressed as a whole.
func scanMDS(p *part) error {
	p.plain = false
	var head [4]byte
	n, err := p.file.ReadAt(head[:], 0)
	if n < len(head) && !errors.Is(err, io.EOF) {
		return err
	}
	codec := formats.WholeCodec(p.path, head[:n])
	if codec == blocks.None || formats.IsMDS(p.file, p.size) {
		return p.samplesOfMDS(nil)
	}
	whole, err := formats.ReadWhole(codec, p.file, p.size, p.mostBlock)
	if err != nil {
		return err
	}
	p.file, p.size = bytes.NewReader(whole.Data), int64(len(whole.Data))
	err = p.samplesOfMDS(whole)
	if walk := (*formats.WalkError)(nil); errors.As(err, &walk) {
		err = &formats.WalkError{Offset: walk.Offset, Err: fmt.Errorf("%w (the byte is one of the shard once it is decompressed)", walk.Err)}
	}
	return err
}

// samplesOfMDS reads the samples of a shard, of a compressed one out of what it became. A column encoded as JPEG or
// PNG is the image whatever its name, where there is only one.
func (p *part) samplesOfMDS(whole *formats.WholeFile) error {
	m, err := formats.NewMDS(p.file, p.size)
	if err != nil {
		return err
	}
	if !p.image.given {
		p.image.names = encodedImages(m.Columns)
	}
	places := make([][2]int64, len(m.Columns))
	pixels := slices.ContainsFunc(m.Columns, func(c formats.MDSColumn) bool { return c.Encoding == "pil" })
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
		for i := range m.Columns {
			c := cell{name: m.Columns[i].Name, offset: places[i][0], length: places[i][1]}
			if err := p.decodeMDS(&c, m.Columns[i].Encoding); err != nil {
				return at(fmt.Errorf("the column %.80q: %w", c.name, err), c.offset)
			}
			cells = append(cells, c)
		}
		if pixels {
			if err := p.pixelsBeside(cells); err != nil {
				return at(err, begin)
			}
		}
		place := begin
		if whole != nil {
			place = 0 // of a sample without an image; what begins at begin is no place in the file
			if err := p.compressed(cells, whole); err != nil {
				return at(err, begin)
			}
		}
		if err := p.add("", place, cells); err != nil {
			return at(err, begin)
		}
	}
}

// pixelsBeside makes arrays of pixels that are not the image, where they were asked for.
func (p *part) pixelsBeside(cells []cell) error {
	image, err := p.imageOf(cells)
	if err != nil {
		return err
	}
	for i := range cells {
		c := &cells[i]
		if i == image || c.raw == (catalog.RawSize{}) {
			continue
		}
		if c.kind = listCell; p.wantsVector(c.name) {
			c.kind, c.dtype, c.shape = arrayCell, "uint8", []int64{int64(c.raw.Height), int64(c.raw.Width)}
			if c.raw.Channels > 1 {
				c.shape = append(c.shape, int64(c.raw.Channels))
			}
		}
		c.raw = catalog.RawSize{}
	}
	return nil
}

// compressed says where the cells of a sample lie in the shard's file. Texts and bytes beside the image have no place
// there: an index holds them.
func (p *part) compressed(cells []cell, whole *formats.WholeFile) error {
	image, err := p.imageOf(cells)
	if err != nil {
		return err
	}
	for i := range cells {
		if c := &cells[i]; c.kind != bytesCell && c.kind != textCell && c.kind != arrayCell {
			continue
		} else if c.raw != (catalog.RawSize{}) {
			return fmt.Errorf("%w: the column %.80q is pixels in a shard that is compressed as a whole; streaming writes it without compression, or headrace.pack takes the dataset", formats.ErrUnsupported, c.name)
		} else if i == image {
			c.offset, c.block = whole.Place(c.offset, c.length)
		} else {
			c.block = whole.Block()
		}
	}
	return nil
}

// imageEncodings are those of a column that is an image, and of one that is several, which is refused by its name.
var imageEncodings = []string{"jpeg", "png", "pil", "jpeg_array", "jpegarray", "list[jpeg]", "list[png]", "list[pil]"}

// encodedImages are the usual names of images, or the only column whose encoding says that it is one.
func encodedImages(columns []formats.MDSColumn) []string {
	var encoded []string
	for _, c := range columns {
		if slices.Contains(imageNames, c.Name) {
			return imageNames
		}
		if slices.Contains(imageEncodings, c.Encoding) {
			encoded = append(encoded, c.Name)
		}
	}
	if len(encoded) == 1 {
		return encoded
	}
	return imageNames
}

// decodeMDS gives a cell the kind of its column's encoding (streaming/base/format/mds/encodings.py), and to
// numbers their value. What is neither bytes, text, number nor array is no field: lists of images, and pickles, which
// are never loaded.
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
	}
	width, number := numberOf(encoding)
	if width == 0 {
		if name, _, _ := strings.Cut(encoding, ":"); name == "pkl" && slices.Contains(p.label.names, c.name) {
			return fmt.Errorf("%w: the label is a pickle, which can run any code when it is read", formats.ErrUnsupported)
		}
		c.holds = "values of the encoding " + strconv.Quote(encoding)
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

// decodePIL takes the pixels of an image: width, height and the length of the mode's name, that name, and the pixels.
// What of another mode is no image here is said where it is chosen as such.
func (p *part) decodePIL(c *cell) error {
	const head, most = 3 * 4, 8 // no mode has a longer name
	var b [head + most]byte
	n, err := p.file.ReadAt(b[:min(c.length, int64(len(b)))], c.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	le := binary.LittleEndian
	name := le.Uint32(b[8:])
	if n < head || name > most || head+int64(name) > int64(n) {
		return fmt.Errorf("%w: %d bytes are no image of PIL", formats.ErrBad, c.length)
	}
	mode := string(b[head : head+name])
	raw := catalog.RawSize{Width: le.Uint32(b[:]), Height: le.Uint32(b[4:]), Channels: 3}
	switch mode {
	case "RGB":
	case "L":
		raw.Channels, raw.Planar = 1, true
	default:
		c.kind, c.holds = listCell, fmt.Sprintf("pixels of the mode %q of PIL (RGB and L are read)", mode)
		return nil
	}
	c.offset, c.length = c.offset+head+int64(name), c.length-head-int64(name)
	if c.length > maxLength || !raw.Fills(uint32(c.length)) {
		return fmt.Errorf("%w: an image of PIL of %d x %d pixels of the mode %q in %d bytes", formats.ErrBad, raw.Width, raw.Height, mode, c.length)
	}
	c.raw = raw
	return nil
}

// decodeWord reads a number that is written in digits.
func (p *part) decodeWord(c *cell, whole bool) (err error) {
	data, err := p.bytes(c, 64)
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
	if err != nil {
		return fmt.Errorf("%w: %.40q is no number", formats.ErrBad, data)
	}
	return nil
}

// numberOf is how many bytes a number of an encoding has, 0 for what is none, and what takes it.
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
	case "uint64": // beyond 2^63 only a float has room for it
		return float(8, func(b []byte) float64 { return float64(le.Uint64(b)) })
	case "float64":
		return float(8, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) })
	case "float32":
		return float(4, func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) })
	case "float16":
		return float(2, func(b []byte) float64 { return float64(float16.FromLEBytes(b).Float32()) })
	}
	return 0, nil
}
