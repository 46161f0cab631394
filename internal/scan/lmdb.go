package scan

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headrace/headrace/internal/formats"
)

// imageMagic are the first bytes of images. What of them is decoded is for others to know.
var imageMagic = []string{"\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "P5", "P6", "BM", "GIF8", "II*\x00", "MM\x00*"}

func isImage(head string) bool {
	for _, magic := range imageMagic {
		if strings.HasPrefix(head, magic) {
			return true
		}
	}
	return len(head) >= 12 && head[:4] == "RIFF" && head[8:12] == "WEBP"
}

// scanLMDB takes every value that is an image, or a Datum of one, as a sample. Other values, such as the
// lists of keys that programs put beside their images, are passed over and counted in a warning.
func scanLMDB(p *part) error {
	p.plain = false
	other, first := 0, ""
	err := formats.WalkLMDB(p.file, p.size, func(e formats.LMDBEntry) error {
		cells, err := p.valueOf(e)
		if err != nil {
			return at(err, e.Offset)
		}
		if cells == nil {
			if other++; other == 1 {
				first = e.Key
			}
			return nil
		}
		return at(p.add(e.Key, e.Offset, cells), e.Offset)
	})
	switch {
	case err != nil:
		return err
	case other > 0 && p.rows() == 0:
		return fmt.Errorf("%w: none of %d values is an image or a Datum of one, as %.80q; serialised objects can be packed with headrace.Writer", formats.ErrUnsupported, other, first)
	case other > 0:
		p.warnings = append(p.warnings, fmt.Sprintf("%d of %d values are no images and passed over, as %.80q", other, other+p.rows(), first))
	}
	return nil
}

// valueOf are the cells of a value, nil for one that is no image.
func (p *part) valueOf(e formats.LMDBEntry) ([]cell, error) {
	head := make([]byte, min(e.Length, 12))
	if n, err := p.file.ReadAt(head, e.Offset); n < len(head) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	image := cell{name: "image", offset: e.Offset, length: e.Length}
	if isImage(string(head)) {
		return []cell{image}, nil
	}
	d, ok, err := formats.ReadDatum(p.file, e.Offset, e.Length)
	switch {
	case err != nil || !ok:
		return nil, err
	case !d.Encoded:
		return nil, fmt.Errorf("%w: %.80q is a Datum of raw pixels (expected an encoded image)", formats.ErrUnsupported, e.Key)
	}
	image.offset, image.length = d.Offset, d.Length
	return []cell{image, {name: "label", kind: intCell, int: d.Label, number: float64(d.Label)}}, nil
}
