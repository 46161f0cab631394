package scan

import (
	"errors"
	"fmt"
	"io"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// scanBeton reads the rows of an FFCV file. A sample has no key of its own, so uniqueKeys makes one of the file's name
// and the row. If only one field has images, it is the image, whatever its name.
func scanBeton(p *part) error {
	p.plain = false
	b, err := formats.NewBeton(p.file, p.size)
	if err != nil {
		return err
	}
	// The image is known by the kind of its field. A label is an ordinary int or float (ffcv/fields/basics.py), so it is
	// known by its name.
	if !p.image.given {
		p.image.names = imageOfBeton(b.Fields)
	}
	// Both slices are used again for each row, because a file has millions of rows.
	values := make([]formats.BetonValue, len(b.Fields))
	var cells []cell
	for {
		begin, err := b.Next(values)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		cells = cells[:0]
		for i := range b.Fields {
			c, err := p.betonCell(&b.Fields[i], &values[i])
			if err != nil {
				return at(err, begin)
			}
			cells = append(cells, c)
		}
		if err := p.add("", begin, cells); err != nil {
			return at(err, begin)
		}
	}
}

// imageOfBeton returns the only field of images, or the usual names if there are several. FFCV's writers choose the
// names of fields freely, but each field states its kind.
func imageOfBeton(fields []formats.BetonField) []string {
	var images []string
	for _, f := range fields {
		if f.Kind == formats.BetonImage {
			images = append(images, f.Name)
		}
	}
	if len(images) == 1 {
		return images
	}
	return imageNames
}

// betonCell makes a cell of a value. JSON is followed by a NUL, which is left out.
// An array without a type or a shape stays a listCell, which cannot become a field.
func (p *part) betonCell(f *formats.BetonField, v *formats.BetonValue) (cell, error) {
	c := cell{name: f.Name, offset: v.Offset, length: v.Length, int: v.Int, number: v.Float}
	switch f.Kind {
	case formats.BetonFloat:
		c.kind = floatCell
	case formats.BetonInt:
		c.kind = intCell
	case formats.BetonImage:
		// native refuses an image without pixels, but only here the error can say where it is.
		if v.Raw && v.Length == 0 {
			return c, fmt.Errorf("%w: an image of %d x %d pixels", formats.ErrBad, v.Width, v.Height)
		}
		// Raw images have three channels, row by row, as ffcv/fields/rgb_image.py writes them.
		if v.Raw {
			c.raw = catalog.RawSize{Width: uint32(v.Width), Height: uint32(v.Height), Channels: 3}
		}
	case formats.BetonJSON:
		c.kind = textCell
		// ffcv/fields/json.py writes the NUL so that the JSON's end can be found in a longer buffer.
		if c.length > 0 {
			c.length--
		}
	case formats.BetonArray, formats.BetonTensor:
		if c.kind = listCell; f.DType != "" && len(f.Shape) > 0 {
			c.kind, c.dtype, c.shape = arrayCell, f.DType, f.Shape
			return c, p.imageOfArray(&c)
		}
	}
	return c, nil
}
