package scan

import (
	"errors"
	"io"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// scanTFRecord reads the tf.train.Examples of a file of TFRecords. A sample has no key of its own.
func scanTFRecord(p *part) error {
	p.plain = false
	w := formats.NewTFRecordWalker(p.file, p.size)
	var cells []cell
	for {
		record, err := w.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		features, err := formats.ReadExample(p.file, record)
		if err != nil {
			return at(err, record.Offset)
		}
		cells = cells[:0]
		for i := range features {
			if f := &features[i]; f.Count > 0 {
				c, err := p.cellOf(f)
				if err != nil {
					return at(err, record.Offset)
				}
				cells = append(cells, c)
			}
		}
		if err := p.add("", record.Offset, cells); err != nil {
			return at(err, record.Offset)
		}
		crc, err := w.Checksum(record)
		if err != nil {
			return err
		}
		p.frames = append(p.frames, catalog.Frame{Extent: catalog.Extent{Offset: record.Offset, Length: record.Length}, CRC: crc})
	}
}

// cellOf is a feature as a cell. A feature without a value is no cell: writers leave out nothing else.
func (p *part) cellOf(f *formats.Feature) (cell, error) {
	c := cell{name: f.Name, offset: f.Offset, length: f.Length}
	switch {
	case f.Count > 1:
		return p.exampleVector(f)
	case f.Kind == formats.IntFeature:
		c.kind, c.int, c.number = intCell, f.Int, float64(f.Int)
	case f.Kind == formats.FloatFeature:
		c.kind, c.number = floatCell, float64(f.Float)
	}
	return c, nil
}
