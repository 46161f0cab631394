package scan

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/headrace/headrace/internal/formats"
)

// labelOf is the label of a sample: of the column that was named or has a usual name, else of a member
// of its JSON object.
// A sample without any is no error: it has the label -1, and whether any sample has one is asked at the end (chooseColumns).
func (p *part) labelOf(cells []cell) (label, error) {
	at, err := p.label.find(cells, "label")
	if err != nil {
		return label{}, err
	}
	if at >= 0 {
		if err := p.once(cells[at].name, "label"); err != nil {
			return label{}, err
		}
		p.columns[cells[at].name].labels++
		return p.read(&cells[at])
	}
	if p.label.given && p.jsonPath == "" {
		return label{}, nil
	}
	for i := range cells {
		if cells[i].name != "json" {
			continue
		}
		// Captions of a page of text are no labels.
		if p.jsonPath == "" && cells[i].length > maxJSONBytes {
			continue // nobody asked for a label in it
		}
		data, err := p.bytes(&cells[i], maxJSONBytes)
		if err != nil {
			return label{}, err
		}
		l, name, list, err := jsonLabel(data, p.jsonPath)
		if c, ok := jsonVector("json."+name, list); ok && err == nil {
			err = p.note(p.rows(), &c, false)
		}
		if err == nil && name != "" {
			p.jsonColumn(name).labels++
		}
		return l, err
	}
	return label{}, nil
}

// once refuses a column that was chosen by a name which two have.
// It is asked behind note, which add has called for all cells and which sees whether two have the name.
func (p *part) once(name, what string) error {
	if p.columns[name].twice {
		return fmt.Errorf("%w: two columns have the name %.80q, and either may be the %s; write them under names of their own", formats.ErrUnsupported, name, what)
	}
	return nil
}

// jsonColumn counts labels that come out of JSON objects under a name of their own.
// It is counted as a column so that several members which may be the label are an error, as several columns are.
func (p *part) jsonColumn(name string) *column {
	name = "json." + name
	if p.columns[name] == nil {
		p.columns[name] = &column{name: name, kind: listCell}
		p.order = append(p.order, name)
	}
	return p.columns[name]
}

// read is the label that a cell says.
func (p *part) read(c *cell) (label, error) {
	switch c.kind {
	case intCell:
		return label{kind: intLabel, number: c.int}, nil
	case floatCell:
		return numberLabel(c.number), nil
	case listCell, arrayCell:
		return label{kind: listLabel}, nil
	}
	// WebDataset would load them (webdataset/autodecode.py).
	for _, ending := range []string{"pyd", "pickle", "pkl", "pth"} {
		if c.name == ending {
			return label{}, fmt.Errorf("%w: the label is a pickle, which can run any code when it is read%s", formats.ErrUnsupported, packInstead)
		}
	}
	data, err := p.bytes(c, maxLabelBytes)
	if err != nil {
		return label{}, err
	}
	if c.json {
		return valueLabel(data)
	}
	return wordLabel(string(data))
}

// ahead reads a cell that may turn out to be the label while the window stands there: once the whole sample
// is known, the walk is elsewhere.
// Only tars need it, where the members of a sample stand one behind the other.
func (p *part) ahead(c *cell, before []cell) {
	const most = 4096
	// The label of a photograph stands behind it: later it would cost a page of the disk, or a piece of a store, once
	// more.
	wanted := slices.Contains(p.label.names, c.name)
	if c.name == "json" {
		at, err := p.label.find(before, "label")
		wanted = p.jsonPath != "" || !p.label.given && at < 0 && err == nil
	}
	if !wanted || c.length > most || c.length == 0 {
		return
	}
	// Grown by append: cells of the same sample that were read before keep the memory that they lie in.
	from := len(p.small)
	p.small = append(p.small, make([]byte, c.length)...)
	// What cannot be read now is tried again, and then an error.
	if n, _ := p.file.ReadAt(p.small[from:], c.offset); n == int(c.length) {
		c.data = p.small[from:len(p.small):len(p.small)]
	}
}

// bytes reads a small cell.
// The bytes may be memory of a block or of this sample, which is used again: whoever keeps them copies them.
func (p *part) bytes(c *cell, most int64) ([]byte, error) {
	if c.length > most {
		return nil, fmt.Errorf("%w: the member %s has %d bytes (expected at most %d for a label)", formats.ErrLimit, c.name, c.length, most)
	}
	if c.data != nil {
		return c.data, nil
	}
	data := make([]byte, c.length)
	if n, err := p.file.ReadAt(data, c.offset); n < len(data) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: the container was cut while it was read", formats.ErrTruncated)
		}
		return nil, err
	}
	return data, nil
}
