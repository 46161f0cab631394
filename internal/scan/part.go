package scan

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// part is what one container holds. Its rows are numbered from 0; merge.go puts parts together.
// One goroutine writes it while its container is walked, and merge reads it afterwards. It is a table by columns and no list
// of samples, as a container may have a hundred million of them.
type part struct {
	image, label choice
	jsonPath     string // of the label inside a JSON object; "" for none that was asked for
	// What the walker reads; of a compressed shard it is what that became (scanMDS).
	file     io.ReaderAt
	size     int64
	path     string                                   // of the container
	lit      *litFolder                               // that it may lie in
	database string                                   // of an LMDB, which was chosen; "": none
	beside   func(path string) (io.ReadCloser, error) // another file there, where it lies in a store; nil: in a file

	// One entry a row. add appends to the first four together at its end, so that a sample which is refused is in none of them;
	// frames are added by the walkers of formats with checksums.
	offset []int64
	length []uint32
	keys   formats.Names
	labels []label
	frames []catalog.Frame
	blocks []catalog.BlockPlace // up to the last row that has one
	raw    []catalog.RawSize    // the same
	// By the names of cells. Fields of the dataset stand in the order in which their columns came first.
	columns map[string]*column
	order   []string            // names of columns as they came
	names   map[string][]string // of the classes of a column, where the container has them

	small []byte // of the cells of one sample that were read ahead

	// What the walk found out about the container as a whole, and bounds of memory that it keeps to.
	keyed    bool     // there is a file of keys beside the container
	plain    bool     // an archive of folders in which nothing but images lies
	inner    string   // the first archive in the archive
	loose    bool     // something else lies in the archive
	late     error    // of a sample of WebDataset's, where the archive may yet be one of class folders
	held     int64    // bytes of texts in memory
	gaps     int64    // rows that columns lack before the last that has them
	fields   []string // that were asked for; nil: all
	warnings []string

	mostBlock int64 // bytes of a block that is decoded here

	walked *walked // that counts samples and containers

	// Of a source that is only looked at (inspect.go).
	inspect bool     // what leaves image or label open is a doubt, and no error
	doubts  []string // that were met so
	first   []string // names of the first sample's cells
}

// maxLength is what the index has of an image: 32 bits.
const maxLength = math.MaxUint32

// newPart has the choices as they stand before anything was read; a walker that learns which column is the image
// replaces them.
func newPart(file io.ReaderAt, size int64, o *Options) *part {
	p := &part{file: file, size: size, fields: o.Fields, image: choose(o.Image, imageNames), label: choose(o.Label, labelNames),
		columns: make(map[string]*column), names: make(map[string][]string), plain: true, inspect: o.Inspect, walked: o.walked, database: o.database, mostBlock: cmp.Or(o.MostBlock, blocks.MostBytes)}
	// "json.NAME" is a member of the object in the column json, unless a column has that name itself.
	// Also as one of several alternatives, "cls;json.class": a column goes before it then, wherever the two stand.
	// Options.check refuses several members of JSON.
	for _, name := range p.label.names {
		if rest, ok := strings.CutPrefix(name, "json."); ok && p.jsonPath == "" {
			p.jsonPath = rest
		}
	}
	return p
}

// rows counts by the offsets, the first that add appends.
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
// It is one for all formats: a walker says what its samples have by their cells.
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
// The error says which column it is about, and the walker where.
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
// The image's place inside of the block goes to blocks, and that of the block to offset.
func (p *part) noteBlock(row int, offset *int64, c *cell) {
	place, at := placeIn(c.block, c.offset)
	*offset = at
	p.blocks = append(grown(p.blocks, row), place)
}
