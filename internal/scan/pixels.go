package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// This file reads images that a container stores as pixels: the result of PIL's tobytes behind a head of size and mode,
// and arrays of uint8. MosaicML's streaming and LitData write both.

// pilMode describes the result of PIL's tobytes for a mode (Pillow, docs/handbook/concepts.rst, "Modes").
// Palettes, CMYK, YCbCr, LAB, HSV and numbers wider than a byte do not count as images, because they would have to be
// converted to RGB exactly as Pillow does it.
type pilMode struct {
	channels int64
	dtype    string
	image    bool // convert("RGB") keeps these values: it only drops an alpha or repeats a grey
}

// Values of a mode that is no image are an array if that was asked for; otherwise they are no field.
var pilModes = map[string]pilMode{
	"L": {1, "uint8", true}, "LA": {2, "uint8", true}, "RGB": {3, "uint8", true}, "RGBA": {4, "uint8", true}, "RGBX": {4, "uint8", true},
	"P": {1, "uint8", false}, "CMYK": {4, "uint8", false}, "YCbCr": {3, "uint8", false}, "LAB": {3, "uint8", false}, "HSV": {3, "uint8", false},
	"I;16": {1, "uint16", false}, "I": {1, "int32", false}, "F": {1, "float32", false},
}

// pilRead lists the modes that are images, for errors.
const pilRead = "RGB, RGBA, L and LA are read"

// head reads the first bytes of a cell into b; fewer if the cell is shorter.
func (p *part) head(c *cell, b []byte) ([]byte, error) {
	b = b[:min(c.length, int64(len(b)))]
	if c.data != nil {
		return c.data[:min(len(b), len(c.data))], nil
	}
	n, err := p.file.ReadAt(b, c.offset)
	if n < len(b) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// behind removes the first n bytes of a cell.
// It also cuts bytes that are in memory, so that they stay those of the value.
func (c *cell) behind(n int64) {
	c.offset, c.length = c.offset+n, c.length-n
	if c.data != nil {
		c.data = c.data[min(n, int64(len(c.data))):]
	}
}

// decodePIL reads an image of PIL: width, height, the length of the mode's name, the name, and the pixels. If the mode
// does not count as an image, that is an error only if the cell is chosen as the image; as an array it can be a field.
func (p *part) decodePIL(c *cell) error {
	const head, most = 3 * 4, 8 // no mode has a longer name
	var space [head + most]byte
	b, err := p.head(c, space[:])
	if err != nil {
		return err
	}
	if len(b) < head {
		return fmt.Errorf("%w: %d bytes are no image of PIL", formats.ErrBad, c.length)
	}
	le := binary.LittleEndian
	width, height, name := int64(le.Uint32(b)), int64(le.Uint32(b[4:])), int64(le.Uint32(b[8:]))
	// The length comes from the file, so it is compared before it is used in a slice.
	if name > most || head+name > int64(len(b)) {
		return fmt.Errorf("%w: %d bytes are no image of PIL", formats.ErrBad, c.length)
	}
	mode := string(b[head : head+name])
	c.behind(head + name)
	known := pilModes[mode]
	c.dtype, c.shape = known.dtype, []int64{height, width}
	// An unknown mode has no type and no channels, so its bytes cannot be compared with its sides. It counts as no image.
	if known.channels > 1 {
		c.shape = append(c.shape, known.channels)
	}
	// Sides, mode and bytes must agree, because a loader uses only the sides.
	if n, ok := arrayBytes(c.shape, max(widths[known.dtype], 1)); known.dtype != "" && (!ok || n != c.length) || c.length > maxLength {
		return fmt.Errorf("%w: an image of PIL of %d x %d pixels of the mode %q in %d bytes", formats.ErrBad, width, height, mode, c.length)
	}
	switch {
	case known.image:
		return c.makeRaw(catalog.RawSize{Width: uint32(width), Height: uint32(height), Channels: uint32(known.channels), Planar: known.channels == 1})
	case known.dtype != "" && p.wantsVector(c.name):
		c.kind = arrayCell
		return nil
	case mode == "P":
		c.holds = "pixels of the mode \"P\" of PIL, whose palette was left out when they were written (" + pilRead + ")"
	default:
		c.holds = fmt.Sprintf("pixels of the mode %q of PIL (%s)", mode, pilRead)
	}
	c.kind = listCell
	return nil
}

// makeRaw makes an image of a cell whose bytes are pixels of that form.
// Fills compares the sides with the bytes, and limits both (catalog.RawSize).
func (c *cell) makeRaw(raw catalog.RawSize) error {
	c.raw = raw
	if c.length > maxLength || !c.raw.Fills(uint32(c.length)) {
		return fmt.Errorf("%w: an image of the shape %v in %d bytes", formats.ErrLimit, c.shape, c.length)
	}
	c.kind = bytesCell
	return nil
}

// rawOf returns the form of an image of that shape; the zero value if it is no shape of an image. The channels are an
// axis of 1, 3 or 4: the last one, otherwise the first of three.
func rawOf(shape []int64) catalog.RawSize {
	if len(shape) < 2 || len(shape) > 3 || slices.Max(shape) > maxLength {
		return catalog.RawSize{}
	}
	raw := catalog.RawSize{Height: uint32(shape[0]), Width: uint32(shape[1]), Channels: 1, Planar: true}
	if len(shape) == 2 {
		return raw
	}
	channels := func(n int64) bool { return n == 1 || n == 3 || n == 4 }
	switch first, last := shape[0], shape[2]; {
	// NumPy's and PIL's arrays of images have the channels last, torch's have them first. 3 x H x 3 is taken as channels
	// last.
	case channels(last):
		raw.Channels, raw.Planar = uint32(last), last == 1
	case channels(first):
		raw.Height, raw.Width, raw.Channels, raw.RGB = uint32(shape[1]), uint32(last), uint32(first), first > 1
	default:
		return catalog.RawSize{}
	}
	return raw
}

// isImage is true for the columns that may be the image.
func (p *part) isImage(name string) bool { return slices.Contains(p.image.names, name) }

// imageOfArray makes an image of an array in an image's column, if its type and shape allow it.
// Otherwise it stays an array if it was asked for as a field; part.imageOf refuses it as the image.
func (p *part) imageOfArray(c *cell) error {
	if !p.isImage(c.name) {
		return nil
	}
	if raw := rawOf(c.shape); c.dtype == "uint8" && raw.Channels != 0 {
		return c.makeRaw(raw)
	}
	c.holds = fmt.Sprintf("arrays of %s and the shape %v (uint8 is read, of height and width, and 1, 3 or 4 channels before or behind them)", c.dtype, c.shape)
	if !p.wantsVector(c.name) {
		c.kind = listCell
	}
	return nil
}

// pixelsBeside makes arrays of pixels that are not the image, if they were asked for.
// They were read as pixels before it was known which column is the image.
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
			c.kind = arrayCell
		}
		c.raw = catalog.RawSize{}
	}
	return nil
}

// imageOfList reads the only image of a list: a uint32 for their number, their sizes, and their bytes. In an encoding
// list[...] an unused word precedes these; head is its size. A list of several images is no image.
func (p *part) imageOfList(c *cell, head int64) error {
	const word = 4
	var space [3 * word]byte
	b, err := p.head(c, space[:head+2*word])
	if err != nil {
		return err
	}
	wrong := func() error { return fmt.Errorf("%w: %d bytes are no list of images", formats.ErrBad, c.length) }
	if int64(len(b)) < head+word {
		return wrong()
	}
	count := int64(binary.LittleEndian.Uint32(b[head:]))
	first := head + word + word*count
	if first > c.length {
		return wrong()
	}
	if count != 1 {
		c.kind, c.holds = listCell, fmt.Sprintf("a list of %d images", count)
		return nil
	}
	if int64(len(b)) < head+2*word || int64(binary.LittleEndian.Uint32(b[head+word:])) != c.length-first {
		return wrong()
	}
	c.behind(first)
	return nil
}
