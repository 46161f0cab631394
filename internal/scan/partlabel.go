package scan

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/headrace/headrace/internal/formats"
)

// labelOf returns the label of a sample: from the column that was named or has a usual name, otherwise from a member of
// its JSON object.
// A sample without a label is no error: it has the label -1. At the end chooseColumns checks whether any sample has
// one.
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
		// A long JSON text holds captions and the like, and no label.
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

// once refuses a column that was chosen by its name if two columns have that name.
// It comes after note, which add has called for all cells, and which notices this.
func (p *part) once(name, what string) error {
	if p.columns[name].twice {
		return fmt.Errorf("%w: two columns have the name %.80q, and either may be the %s; write them under names of their own", formats.ErrUnsupported, name, what)
	}
	return nil
}

// jsonColumn returns the column that counts labels from JSON objects, under a name of its own.
// It is a column, so that several members which may be the label are an error like several columns.
func (p *part) jsonColumn(name string) *column {
	name = "json." + name
	if p.columns[name] == nil {
		p.columns[name] = &column{name: name, kind: listCell}
		p.order = append(p.order, name)
	}
	return p.columns[name]
}

// read makes a label of a cell.
func (p *part) read(c *cell) (label, error) {
	switch c.kind {
	case intCell:
		return label{kind: intLabel, number: c.int}, nil
	case floatCell:
		return numberLabel(c.number), nil
	case listCell, arrayCell:
		return label{kind: listLabel}, nil
	}
	// WebDataset would load these (webdataset/autodecode.py).
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

// ahead reads a cell that may be the label while the walk is at its place. Once the whole sample is known, the walk has
// moved on.
// Only tars need it, because there the members of a sample follow each other.
func (p *part) ahead(c *cell, before []cell) {
	const most = 4096
	// The label of a photograph follows it. Reading it later would read a page of the disk, or a piece of a store, once
	// more.
	wanted := slices.Contains(p.label.names, c.name)
	if c.name == "json" {
		at, err := p.label.find(before, "label")
		wanted = p.jsonPath != "" || !p.label.given && at < 0 && err == nil
	}
	if !wanted || c.length > most || c.length == 0 {
		return
	}
	// append may move the slice. Cells of this sample that were read before keep their old memory.
	from := len(p.small)
	p.small = append(p.small, make([]byte, c.length)...)
	// A failed read is tried again later, and gives an error then.
	if n, _ := p.file.ReadAt(p.small[from:], c.offset); n == int(c.length) {
		c.data = p.small[from:len(p.small):len(p.small)]
	}
}

// bytes reads a small cell.
// The bytes may be memory of a block or of this sample that is used again, so they must be copied to be kept.
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
