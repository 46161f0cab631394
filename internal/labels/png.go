package labels

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/headrace/headrace/internal/headroom"
)

// ReadMask decodes a PNG of classes: grey of 8 bits at most, or with a palette, whose indices are
// the classes. Its size and kind are checked before anything is allocated for it, and no more of its
// data is inflated than those ask for.
func ReadMask(data []byte, width, height int) ([]byte, error) {
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%d bytes are no PNG (%w)", len(data), err)
	}
	if config.Width != width || config.Height != height {
		return nil, fmt.Errorf("a mask of %d x %d (expected the image's %d x %d)", config.Height, config.Width, height, width)
	}
	if _, indexed := config.ColorModel.(color.Palette); !indexed && config.ColorModel != color.GrayModel {
		return nil, errKind
	}
	if short := headroom.Memory(5 * int64(width) * int64(height)); short != nil {
		return nil, short
	}
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a broken PNG (%w)", err)
	}
	switch m := decoded.(type) {
	case *image.Paletted:
		return rows(m.Pix, m.Stride, width, height), nil
	case *image.Gray:
		return rows(m.Pix, m.Stride, width, height), nil
	case *image.NRGBA: // grey with a value that is transparent: the value counts, as in Pillow's mode L
		classes := make([]byte, 0, width*height)
		for y := range height {
			for x := range width {
				classes = append(classes, m.Pix[y*m.Stride+4*x])
			}
		}
		return classes, nil
	}
	return nil, errKind
}

var errKind = errors.New("a PNG of another kind (expected one channel of 8 bits, or a palette)")

// rows are an image's bytes without the gaps between its rows.
func rows(pixels []byte, stride, width, height int) []byte {
	if stride == width {
		return pixels[:width*height]
	}
	packed := make([]byte, 0, width*height)
	for y := range height {
		packed = append(packed, pixels[y*stride:y*stride+width]...)
	}
	return packed
}
