package scan

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

// scanTFRecord reads the tf.train.Examples of a TFRecord file. A sample has no key of its own.
// It goes from record to record by their lengths, whose checksums it compares. Of an Example it reads all but the
// values of bytes.
func scanTFRecord(p *part) error {
	p.plain = false
	w, examples := formats.NewTFRecordWalker(p.file, p.size), formats.NewExampleReader(p.file)
	var cells []cell
	for {
		record, err := w.Next()
		if errors.Is(err, io.EOF) {
			return p.namesOfTFDS()
		}
		if err != nil {
			return err
		}
		features, err := examples.Read(record)
		if err != nil {
			return at(withWayOut(w.Blame(record, err)), record.Offset)
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
		// The checksum covers the whole Example, so to compare it the record has to be read, and not the image alone.
		crc, err := w.Checksum(record)
		if err != nil {
			return err
		}
		p.frames = append(p.frames, catalog.Frame{Extent: catalog.Extent{Offset: record.Offset, Length: record.Length}, CRC: crc})
	}
}

// namesOfTFDS reads the names of classes that TFDS keeps beside its files (ClassLabel.save_metadata: NAME.labels.txt,
// with a line for each). It does so only on disk, because in a store each file would cost a request.
// A file that is no such list is ignored silently, because only its name was a hint.
func (p *part) namesOfTFDS() error {
	for _, name := range p.label.names {
		// A name with a slash is slim's (image/class/label), and would lead into another folder.
		if c := p.columns[name]; p.beside != nil || c == nil || c.labels == 0 || strings.Contains(name, "/") {
			continue
		}
		f, err := mmap.OpenRegular(namesFile(p.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return catalog.IOError(namesFile(p.path, name), "cannot open the names of the classes", err)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxJSONBytes))
		f.Close()
		if err != nil {
			return catalog.IOError(namesFile(p.path, name), "cannot read the names of the classes", err)
		}
		// A list of names has no empty line and is not that long.
		if lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n"); len(text) < maxJSONBytes && utf8.Valid(text) && !slices.Contains(lines, "") {
			p.names[name] = lines
		}
	}
	return nil
}

// namesFile returns the path where TFDS keeps the names of a column's classes.
func namesFile(container, column string) string {
	return filepath.Join(filepath.Dir(container), column+".labels.txt")
}

// cellOf makes a cell of a feature. A feature without a value makes none, because that is how writers leave values out.
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
