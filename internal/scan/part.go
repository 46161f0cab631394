package scan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// part is what one container holds. Its rows are numbered from 0; merge.go puts parts together.
type part struct {
	image, label choice
	jsonPath     string // of the label inside a JSON object; "" for none that was asked for
	file         io.ReaderAt
	size         int64
	path         string                                   // of the container
	lit          *litFolder                               // that it may lie in
	database     string                                   // of an LMDB, which was chosen; "": none
	beside       func(path string) (io.ReadCloser, error) // another file there, where it lies in a store; nil: in a file

	offset  []int64
	length  []uint32
	keys    formats.Names
	labels  []label
	frames  []catalog.Frame
	blocks  []catalog.BlockPlace // up to the last row that has one
	raw     []catalog.RawSize    // the same
	columns map[string]*column
	order   []string            // names of columns as they came
	names   map[string][]string // of the classes of a column, where the container has them

	small []byte // of the cells of one sample that were read ahead

	keyed    bool     // there is a file of keys beside the container
	plain    bool     // an archive of folders in which nothing but images lies
	late     error    // of a sample of WebDataset's, where the archive may yet be one of class folders
	held     int64    // bytes of texts in memory
	gaps     int64    // rows that columns lack before the last that has them
	fields   []string // that were asked for; nil: all
	warnings []string

	mostBlock int64 // bytes of a block that is decoded here

	walked *walked // that counts samples and containers

	inspect bool     // what leaves image or label open is a doubt, and no error
	doubts  []string // that were met so
	first   []string // names of the first sample's cells
}

// column is what is known of the cells of one name.
type column struct {
	name   string
	kind   cellKind
	seen   int64 // samples that have it
	rows   int   // up to the last of them
	images int64 // samples whose image it is
	labels int64 // samples whose label it is
	mixed  bool  // cells of kinds that go not together
	gaps   bool  // lists of which some number is null
	arrays bool  // some are arrays
	twice  bool  // a sample has two cells of the name
	dtype  string
	shape  []int64 // of arrays; nil where their lengths differ

	// One entry a row up to the last that has the column.
	extents []catalog.Extent // of values in the file, or in the block that the same row of within says
	within  []valueIn        // up to the last that lies in a block; nil: all lie in the file
	blocks  []formats.Block
	ints    []int64
	floats  []float64
	texts   *formats.Names // values that are held, beside the places of those that have one; nil: none is

	held    int64 // bytes of texts
	nowhere bool  // some value has no place, so all have to be held
	dropped bool  // for which they are too large
}

// valueIn is the number of the block that a value lies in, from 1, and the value's CRC-32C, 0 while that is held or not known;
// all 0 of one in the file.
type valueIn struct{ block, sum uint32 }

const (
	maxColumns    = 1024
	maxColumnName = 240

	// A row that a column lacks takes up to so many bytes, and a small file may have so many of them.
	cellBytes = 16
	leastGaps = 256 << 20

	maxLength = math.MaxUint32
)

func newPart(file io.ReaderAt, size int64, o *Options) *part {
	p := &part{file: file, size: size, fields: o.Fields, image: choose(o.Image, imageNames), label: choose(o.Label, labelNames),
		columns: make(map[string]*column), names: make(map[string][]string), plain: true, inspect: o.Inspect, walked: o.walked, database: o.database, mostBlock: cmp.Or(o.MostBlock, blocks.MostBytes)}
	// "json.NAME" is a member of the object in the column json, unless a column has that name itself.
	// Also as one of several alternatives: "cls;json.class".
	if before, rest, ok := strings.Cut(o.Label, "json."); ok && (before == "" || strings.HasSuffix(before, ".")) {
		p.jsonPath = rest
	}
	return p
}

func (p *part) rows() int { return len(p.offset) }

// count tells whoever asks for the progress of each so many samples.
func (p *part) count() {
	if p.walked != nil && p.rows()%countedAtOnce == 0 {
		p.walked.samples.Add(countedAtOnce)
	}
}

// finish tells of the rest, and that the container was read. A container that does not open has no part.
func (p *part) finish() {
	if p != nil && p.walked != nil {
		p.walked.samples.Add(int64(p.rows() % countedAtOnce))
		p.walked.containers.Add(1)
	}
}

// add takes a sample, whose record begins at byte at. Which cell is its image and which its label is
// decided here; the others are fields.
func (p *part) add(key string, at int64, cells []cell) error {
	row := p.rows()
	image, err := p.imageOf(cells)
	if err != nil {
		return err
	}
	for i := range cells {
		if err := p.note(row, &cells[i], i == image); err != nil {
			return err
		}
		if row == 0 {
			p.first = append(p.first, cells[i].name)
		}
	}
	offset, length := at, int64(0) // a sample without an image stands there, and its bytes are no image
	// Behind the notes, for the column's count is there only then.
	if image >= 0 {
		c := &cells[image]
		if offset, length = c.offset, c.length; length > maxLength {
			return fmt.Errorf("%w: an image of %d bytes (expected at most %d)", formats.ErrLimit, length, int64(maxLength))
		}
		p.columns[c.name].images++
		if c.block != nil {
			p.noteBlock(row, &offset, c)
		}
		if c.raw != (catalog.RawSize{}) {
			p.raw = append(grown(p.raw, row), c.raw)
		}
	}
	l, err := p.labelOf(cells)
	if err == nil && image >= 0 {
		err = p.once(cells[image].name, "image")
	}
	if err != nil {
		if err = p.doubt(err); err != nil {
			return err
		}
		l = label{}
	}
	p.offset, p.length = append(p.offset, offset), append(p.length, uint32(length))
	p.labels = append(p.labels, l)
	p.keys.Append(key)
	p.count()
	return nil
}

// imageOf is the cell that is the image, -1 where there is none.
func (p *part) imageOf(cells []cell) (int, error) {
	image, err := p.image.find(cells, "image")
	if err == nil && image >= 0 && cells[image].kind != bytesCell && cells[image].kind != textCell {
		c := &cells[image]
		way := ""
		if c.holds != "" || c.kind == arrayCell || c.kind == listCell { // an image, perhaps
			way = packInstead
		}
		err = fmt.Errorf("%w: the column %s holds %s (expected the bytes of an image)%s", formats.ErrUnsupported, c.name, c.content(), way)
	}
	if err == nil && image >= 0 && cells[image].held {
		err = fmt.Errorf("%w: the bytes of an image of the column %s do not stand in one piece, as DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT encode them (expected PLAIN, DELTA_LENGTH_BYTE_ARRAY or a dictionary)", formats.ErrUnsupported, cells[image].name)
	}
	if err != nil {
		return -1, p.doubt(err)
	}
	return image, nil
}

// noteBlock makes the place of an image that of the block which it lies in.
func (p *part) noteBlock(row int, offset *int64, c *cell) {
	place, at := placeIn(c.block, c.offset)
	*offset = at
	p.blocks = append(grown(p.blocks, row), place)
}

// note keeps a cell's value or place. An image is never held in memory.
func (p *part) note(row int, c *cell, image bool) error {
	col := p.columns[c.name]
	if col == nil {
		// A column takes memory for each row, and a hostile container may have another one in each.
		if len(p.columns) >= maxColumns {
			return fmt.Errorf("%w: more than %d columns, %.40q is one more", formats.ErrLimit, maxColumns, c.name)
		}
		// Whatever may be a field's name (catalog.CheckFields).
		if c.name == "" || len(c.name) > maxColumnName || strings.IndexByte(c.name, 0) >= 0 || !utf8.ValidString(c.name) {
			return fmt.Errorf("%w: a column of the name %.40q (expected 1 to %d bytes of UTF-8 without NUL)", formats.ErrUnsupported, c.name, maxColumnName)
		}
		col = &column{name: c.name, kind: c.kind, dtype: c.dtype, shape: c.shape}
		p.columns[c.name] = col
		p.order = append(p.order, c.name)
	}
	if col.seen > 0 && col.rows == row+1 { // which of the two is meant no word can say
		col.twice = true
		return nil
	}
	col.seen++
	// A column that comes late is filled up to its row: many such would take rows times columns.
	if p.gaps += int64(row - col.rows); p.gaps*cellBytes > max(p.size, leastGaps) {
		return fmt.Errorf("%w: columns that lack %d rows together, which takes more memory than the file has bytes", formats.ErrLimit, p.gaps)
	}
	col.rows, col.gaps, col.arrays = row+1, col.gaps || c.gaps, col.arrays || c.kind == arrayCell
	// As soon as a row lacks it: later no place tells which rows those were.
	if col.kind == intCell && len(col.ints) < row { // what is missing could not be told from any other whole number
		col.toFloats()
	}
	switch {
	case col.kind == c.kind:
	case col.kind == intCell && c.kind == floatCell:
		col.toFloats()
	case col.kind == floatCell && c.kind == intCell:
	default:
		// What it is cannot be said, so it is no field; as image or label it still may be, cell by cell.
		col.mixed = true
		return nil
	}
	switch col.kind {
	case arrayCell:
		col.like(c.dtype, c.shape)
		return p.noteValue(col, row, c, image)
	case bytesCell, textCell:
		return p.noteValue(col, row, c, image)
	case intCell:
		col.ints = append(grown(col.ints, row), c.int)
	case floatCell:
		v := c.number
		if c.kind == intCell {
			v = float64(c.int)
		}
		col.floats = append(grownWith(col.floats, row, math.NaN()), v)
	}
	return nil
}

// like notes that arrays of another type or shape are there: those of one dimension may differ in length.
func (c *column) like(dtype string, shape []int64) {
	// An array of several axes has its shape in the field's description alone.
	if c.dtype != dtype || max(len(c.shape), len(shape)) > 1 && !slices.Equal(c.shape, shape) {
		c.mixed = true
	}
	if !slices.Equal(c.shape, shape) {
		c.shape = nil
	}
}

// toFloats makes floats of whole numbers.
func (c *column) toFloats() {
	c.kind, c.floats = floatCell, make([]float64, len(c.ints))
	for i, v := range c.ints {
		c.floats[i] = float64(v)
	}
	c.ints = nil
}

// grown is a column of so many rows, those that it lacked empty.
func grown[T any](values []T, rows int) []T {
	var none T
	return grownWith(values, rows, none)
}

func grownWith[T any](values []T, rows int, none T) []T {
	for len(values) < rows {
		values = append(values, none)
	}
	return values
}

// labelOf is the label of a sample: of the column that was named or has a usual name, else of a member
// of its JSON object.
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
func (p *part) once(name, what string) error {
	if p.columns[name].twice {
		return fmt.Errorf("%w: two columns have the name %.80q, and either may be the %s; write them under names of their own", formats.ErrUnsupported, name, what)
	}
	return nil
}

// jsonColumn counts labels that come out of JSON objects under a name of their own.
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
