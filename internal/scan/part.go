package scan

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"unique"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// part is what one container holds. Its rows are numbered from 0; merge.go joins parts.
// One goroutine writes it while its container is walked, and merge reads it afterwards. It is a table by columns and
// not a list of samples, because a container may have a hundred million of them.
type part struct {
	image, label choice
	jsonPath     string // path of the label inside a JSON object; "" if none was asked for
	// The walker reads file; for a compressed shard that is the decompressed one (scanMDS).
	file     io.ReaderAt
	size     int64
	path     string                                   // of the container
	lit      *litFolder                               // the folder of LitData that the container may lie in
	database string                                   // the database of an LMDB that was chosen; "": none
	beside   func(path string) (io.ReadCloser, error) // opens another file beside a container in a store; nil: the container is on disk

	// These have one entry for each row. add appends to the first four together at its end, so that a refused sample is in
	// none of them. The walkers of formats with checksums append to frames.
	offset []int64
	length []uint32
	keys   formats.Names
	labels []label
	frames []catalog.Frame
	blocks []catalog.BlockPlace // up to the last row that lies in a block
	raw    []catalog.RawSize    // up to the last row that is stored as pixels
	// The columns are found by the names of cells. Fields are in the order in which their columns first appeared.
	columns map[string]*column
	order   []string            // names of columns in the order of their appearance
	names   map[string][]string // names of a column's classes, if the container has them

	small []byte // bytes of cells of one sample that were read ahead

	// The walk notes what it finds out about the container as a whole, and obeys limits of memory.
	keyed    bool     // there is a file of keys beside the container
	plain    bool     // an archive of folders with nothing but images
	inner    string   // name of the first archive in the archive
	loose    bool     // the archive holds something else as well
	late     error    // an error of a sample of WebDataset, kept because the archive may still be one of class folders
	held     int64    // bytes of values that are held in memory
	gaps     int64    // number of rows that columns lack before their last row
	fields   []string // fields that were asked for; nil: all
	warnings []string

	// unread has the names of the columns that nobody asked for and that were not read, with columnsJoint between them.
	// The shards of a dataset have the same columns, so they share the text.
	unread unique.Handle[string]

	mostBlock int64 // largest size of a block that is decoded here

	walked *walked // counts samples and containers

	// These members serve a source that is only inspected (inspect.go).
	inspect bool     // an unclear image or label is a doubt, and no error
	doubts  []string // doubts that were noted
	first   []string // names of the first sample's cells
}

// maxLength is the largest length of an image: the index has 32 bits for it.
const maxLength = math.MaxUint32

// newPart makes a part with the choices as they are before anything is read. A walker that learns which column is the
// image replaces them.
func newPart(file io.ReaderAt, size int64, o *Options) *part {
	p := &part{file: file, size: size, fields: o.Fields, image: choose(o.Image, imageNames), label: choose(o.Label, labelNames),
		columns: make(map[string]*column), names: make(map[string][]string), plain: true, inspect: o.Inspect, walked: o.walked, database: o.database, mostBlock: cmp.Or(o.MostBlock, blocks.MostBytes)}
	// "json.NAME" is a member of the object in the column json, unless a column itself has that name.
	// It may also be one of several alternatives, as in "cls;json.class". A column then takes precedence, in either order.
	// Options.check refuses several members of JSON.
	for _, name := range p.label.names {
		if rest, ok := strings.CutPrefix(name, "json."); ok && p.jsonPath == "" {
			p.jsonPath = rest
		}
	}
	return p
}

// rows counts the offsets, which add appends first.
func (p *part) rows() int { return len(p.offset) }

// count reports progress after every countedAtOnce samples.
func (p *part) count() {
	if p.walked != nil && p.rows()%countedAtOnce == 0 {
		p.walked.samples.Add(countedAtOnce)
	}
}

// finish reports the remaining samples, and that the container was read. A container that cannot be opened has no part.
func (p *part) finish() {
	if p != nil && p.walked != nil {
		p.walked.samples.Add(int64(p.rows() % countedAtOnce))
		p.walked.containers.Add(1)
	}
}

// add adds a sample whose record begins at byte at. It decides which cell is the image and which the label; the others
// are fields.
// It is the same for all formats: a walker describes its samples by their cells.
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
	offset, length := at, int64(0) // a sample without an image has its record's place, and no bytes
	// This comes after the notes, because they make the column.
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

// imageOf returns the number of the cell that is the image, -1 if there is none.
// Its error says which column it is about, and the walker adds where.
func (p *part) imageOf(cells []cell) (int, error) {
	image, err := p.image.find(cells, "image")
	if err == nil && image >= 0 && cells[image].kind != bytesCell && cells[image].kind != textCell {
		c := &cells[image]
		way := ""
		if c.holds != "" || c.kind == arrayCell || c.kind == listCell { // the value may be an image in a form that is not read
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

// noteBlock replaces the place of an image by that of the block that it lies in.
// The image's place inside the block goes to blocks, and the block's place to offset.
func (p *part) noteBlock(row int, offset *int64, c *cell) {
	place, at := placeIn(c.block, c.offset)
	*offset = at
	p.blocks = append(grown(p.blocks, row), place)
}
