package formats

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

// Parquet walks the rows of a Parquet file (https://parquet.apache.org/docs/file-format/). A value in an uncompressed
// PLAIN page has a place in the file; a value in a compressed page has one in a decoded block.
type Parquet struct {
	Leaves   []Leaf
	Metadata map[string]string // of the file

	r       io.ReaderAt
	size    int64
	most    int64 // largest size of a page that is decoded
	columns []parquetColumn
	groups  []parquetGroup
	group   int   // the row group that is being read
	left    int64 // rows left in it
	held    int64 // size of pages in memory
	listed  int64 // numbers in lists so far
}

// parquetGroup is a row group.
type parquetGroup struct {
	rows   int64
	chunks []parquetChunk // one for each column of the schema
}

// parquetChunk says where the pages of a column are in a row group.
type parquetChunk struct {
	at, end, values int64
	codec           format.CompressionCodec
	encrypted       bool
}

const (
	parquetMagic     = "PAR1"
	parquetEncrypted = "PARE"
	maxParquetFooter = 64 << 20
	maxParquetDepth  = 64
	maxParquetGroups = 1 << 15 // the format numbers them with 16 bits
)

// IsParquet recognises a file, even if its footer is encrypted.
func IsParquet(head []byte) bool {
	return len(head) >= 4 && (string(head[:4]) == parquetMagic || string(head[:4]) == parquetEncrypted)
}

// NewParquet reads the footer. Compressed pages of more than most bytes are refused.
func NewParquet(r io.ReaderAt, size, most int64) (*Parquet, error) {
	p := &Parquet{r: r, size: size, most: most, Metadata: make(map[string]string), group: -1}
	// A file ends with the footer's length and the magic. Pages come before the footer, and only the footer says where.
	at := size - 8
	if at < 4 {
		return nil, &WalkError{size, fmt.Errorf("%w: a Parquet file of %d bytes", ErrTruncated, size)}
	}
	var tail [8]byte
	if err := readAt(r, tail[:], at); err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	wrong := func(kind error, text string, a ...any) (*Parquet, error) {
		return nil, &WalkError{at, fmt.Errorf("%w: "+text, append([]any{kind}, a...)...)}
	}
	switch {
	case string(tail[4:]) == parquetEncrypted:
		return wrong(ErrUnsupported, "the footer is encrypted")
	// A writer that was killed leaves no footer, and a copy that was cut loses it. Both files end too early.
	case string(tail[4:]) != parquetMagic:
		return wrong(ErrTruncated, "a Parquet file without its footer at the end")
	case length > at-4:
		return wrong(ErrBad, "a footer of %d bytes in a file of %d", length, size)
	case length > maxParquetFooter:
		return wrong(ErrLimit, "a footer of %d bytes (expected at most %d)", length, maxParquetFooter)
	}
	data := make([]byte, length)
	if err := readAt(r, data, at-length); err != nil {
		return nil, err
	}
	if err := p.footer(&thriftReader{data: data}); err != nil {
		return nil, &WalkError{at - length, err}
	}
	return p, nil
}

// footer reads FileMetaData (parquet.thrift).
func (p *Parquet) footer(t *thriftReader) error {
	var schema []parquetElement
	var err error
	t.fields(0, func(id int, kind byte) bool {
		switch {
		case err != nil:
			return false
		case id == 2 && kind == thriftList:
			t.list(thriftStruct, func(int) {
				if schema = append(schema, readElement(t)); len(schema) > maxTableFields {
					t.err = fmt.Errorf("%w: more than %d fields", ErrLimit, maxTableFields)
				}
			})
		// Row groups are checked against the columns, so the schema must come first. Thrift's writers write fields by number,
		// and the schema's number is 2.
		case id == 4 && kind == thriftList:
			if err = p.schema(schema); err == nil {
				t.list(thriftStruct, func(int) { p.rowGroup(t) })
			}
		case id == 5 && kind == thriftList:
			t.list(thriftStruct, func(int) { p.keyValue(t) })
		default:
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case t.err != nil:
		return t.err
	case p.columns == nil:
		return fmt.Errorf("%w: the footer has no columns, or no list of row groups behind them", ErrBad)
	}
	return p.checkGroups()
}

func (p *Parquet) keyValue(t *thriftReader) {
	var key, value string
	t.fields(1, func(id int, kind byte) bool {
		switch {
		case id == 1 && kind == thriftBinary:
			key = string(t.bytes())
		case id == 2 && kind == thriftBinary:
			value = string(t.bytes())
		default:
			return false
		}
		return true
	})
	// Only Hugging Face's metadata is needed; pandas and Spark add a few more.
	if len(p.Metadata) < 16 {
		p.Metadata[key] = value
	}
}

// rowGroup reads RowGroup.
func (p *Parquet) rowGroup(t *thriftReader) {
	g := parquetGroup{rows: -1}
	t.fields(1, func(id int, kind byte) bool {
		switch {
		case id == 1 && kind == thriftList:
			t.list(thriftStruct, func(int) {
				if g.chunks == nil { // a column has at least a byte
					g.chunks = make([]parquetChunk, 0, min(len(p.columns), len(t.data)-t.at))
				}
				c := p.columnChunk(t)
				if g.chunks = append(g.chunks, c); len(g.chunks) > len(p.columns) {
					t.fail("a row group of more than %d columns", len(p.columns))
				}
			})
		case id == 3 && kind == thriftI64:
			g.rows = t.number()
		default:
			return false
		}
		return true
	})
	n := len(p.groups)
	switch p.groups = append(p.groups, g); {
	case t.err != nil:
	case n == maxParquetGroups:
		t.err = fmt.Errorf("%w: more than %d row groups", ErrLimit, maxParquetGroups)
	case g.rows < 0 || len(g.chunks) != len(p.columns): // checked at once, so that a group without columns takes no memory for them
		t.err = fmt.Errorf("%w: row group %d has %d rows and %d columns (expected %d)", ErrBad, n, g.rows, len(g.chunks), len(p.columns))
	}
}

// columnChunk reads ColumnChunk and the ColumnMetaData in it.
func (p *Parquet) columnChunk(t *thriftReader) parquetChunk {
	c := parquetChunk{values: -1}
	size, first, dictionary := int64(-1), int64(-1), int64(0)
	t.fields(2, func(id int, kind byte) bool {
		switch {
		// file_path: a summary file of Dask or Spark (_metadata) lists columns in other files.
		case id == 1 && kind == thriftBinary && len(t.bytes()) > 0:
			t.err = fmt.Errorf("%w: columns in other files", ErrUnsupported)
		case id == 1 && kind == thriftBinary: // an empty path means this file
		case id == 8 && kind == thriftStruct: // crypto_metadata; the rest may then be missing
			c.encrypted = true
			return false
		case id == 3 && kind == thriftStruct:
			t.fields(3, func(id int, kind byte) bool {
				if kind != thriftI32 && kind != thriftI64 {
					return false
				}
				switch n := t.number(); id {
				case 4:
					c.codec = format.CompressionCodec(n)
				case 5:
					c.values = n
				case 7:
					size = n
				case 9:
					first = n
				case 11:
					dictionary = n
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	// This comes before the places are checked, which follow no rule here.
	if t.err == nil && c.values == 0 && size >= 0 {
		// The column belongs to a row group without rows, whose pages nobody reads. pyarrow gives such columns a place before
		// the magic.
		return c
	}
	if c.encrypted { // nobody reads it
		c.at = min(max(first, 4), p.size)
		c.end = c.at
		return c
	}
	// A dictionary comes before the data pages. Some writers give 0, or the same place, if there is none.
	if c.at = first; dictionary > 0 && dictionary < first {
		c.at = dictionary
	}
	// From here on a column lies inside the file and after its magic, and pages are only compared with the column.
	if t.err == nil && (c.at < 4 || size < 0 || c.at > p.size || size > p.size-c.at) {
		t.fail("a column from byte %d of %d bytes in a file of %d", c.at, size, p.size)
	}
	c.end = c.at + size
	return c
}

// checkGroups checks that a file of this size can have so many rows, that each column has as many values, and that
// columns do not overlap, because reading the same bytes again and again would take hours.
func (p *Parquet) checkGroups() error {
	total, bytes := int64(0), int64(0)
	for n, g := range p.groups {
		for _, c := range g.chunks {
			if bytes += c.end - c.at; bytes > p.size {
				return fmt.Errorf("%w: columns that overlap: up to row group %d they have %d bytes in a file of %d", ErrBad, n, bytes, p.size)
			}
		}
		// A number that alone is too large is not added, because the sum could overflow.
		if g.rows > p.size+leastTable {
			total = g.rows
		} else {
			total += g.rows
		}
		if tooManyRows(total, int64(len(p.Leaves)), p.size) {
			return fmt.Errorf("%w: %d rows of %d columns in a file of %d bytes", ErrLimit, total, len(p.Leaves), p.size)
		}
		for i := range p.columns {
			c := &p.columns[i]
			if c.leaf < 0 || p.Leaves[c.leaf].Kind == RefusedLeaf || g.chunks[i].encrypted {
				continue
			}
			// Rows are read from all columns in parallel, so a column with fewer values would continue in the next row group.
			if n := g.chunks[i].values; n < g.rows || n > g.rows && !c.listed {
				return fmt.Errorf("%w: the column %.80q has %d values in a row group of %d rows", ErrBad, p.Leaves[c.leaf].Path[0], n, g.rows)
			}
		}
	}
	return nil
}

// Next fills values, one for each leaf, with those of the next row, and returns where its row group begins; io.EOF
// after the last. Values of skipped and refused leaves are null.
func (p *Parquet) Next(values []Value) (int64, error) {
	for p.left == 0 {
		if p.group++; p.group >= len(p.groups) {
			return 0, io.EOF
		}
		g := &p.groups[p.group]
		p.left = g.rows
		for i := range p.columns {
			p.columns[i].start(p, g.chunks[i], &p.held)
			// The check is here, when it is known which columns were asked for and before any value is read.
			if err := p.checkListed(&p.columns[i], g.chunks[i]); err != nil {
				return 0, &WalkError{g.chunks[i].at, err}
			}
		}
	}
	p.left--
	begin := p.size
	for i := range p.columns {
		c := &p.columns[i]
		begin = min(begin, c.chunk.at)
		if c.leaf < 0 {
			continue
		}
		leaf := &p.Leaves[c.leaf]
		if leaf.Kind == RefusedLeaf || leaf.Skip {
			values[c.leaf] = Value{Null: true}
			continue
		}
		if c.chunk.encrypted {
			return 0, &WalkError{c.chunk.at, fmt.Errorf("%w: the column %.80q is encrypted; fields= chooses columns without it", ErrUnsupported, leaf.Path[0])}
		}
		if err := c.read(&values[c.leaf], leaf, p.left == 0); err != nil {
			return 0, &WalkError{c.page.header, fmt.Errorf("%w (in the column %.80q)", err, leaf.Path[0])}
		}
	}
	return begin, nil
}
