package formats

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/parquet-go/parquet-go/format"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/headroom"
)

// parquetColumn reads the values of a column, page by page.
type parquetColumn struct {
	leaf     int  // -1 if it lies in a list that is not one of numbers
	listed   bool // the leaf is a list of numbers, and this column has them
	there    int  // definition level of a list that is not null
	present  int  // definition level of a value that is not null
	width    int64
	element  int64 // size of a number in a list, which may be less than in the file
	typ      format.Type
	half     bool
	unsigned bool

	r          *Window
	chunk      parquetChunk
	at         int64 // place of the next page
	values     int64 // values left in the chunk
	dictionary parquetBody
	spans      [][2]int64 // for a dictionary of values of variable length: where each begins and ends
	entries    int64      // number of entries in the dictionary
	page       parquetPage
	list       parquetList
	space      [8]byte

	budget      *int64 // bytes that all columns hold in memory
	heldPage    int64  // bytes that this column holds of a page
	heldEntries int64  // bytes of its dictionary
	heldLevels  int64  // bytes of levels that are not in the page's memory
	most        int64  // largest size of a page that is decoded
}

// parquetPage is a data page with left unread values.
type parquetPage struct {
	header  int64 // its place in the file
	left    int64
	levels  *hybrid // definition levels, nil if no value is null
	indices *hybrid // into the dictionary, or booleans
	body    parquetBody
	next    int64 // place of the next value in body

	numbers  *delta // DELTA_BINARY_PACKED: the values
	lengths  *delta // DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY: lengths of the values in body
	shared   *delta // DELTA_BYTE_ARRAY: how many first bytes a value shares with the one before
	previous []byte // the value before
	split    int64  // BYTE_STREAM_SPLIT: number of values; the first bytes of all come first
	unread   int64  // number of these that were not read

	repeats, depths levelRun // of a list
}

// parquetBody is a stretch of values, in the file or in memory.
type parquetBody struct {
	at, end int64  // in the file, or in data
	data    []byte // nil: in the file
	block   *Block // the block that data was decoded from; nil if data is the file's bytes from byte file on
	file    int64
}

const plainDictionary = format.Encoding(2) // writers before format version 2.0 use this name for both encodings of a dictionary

var parquetCodecs = map[format.CompressionCodec]uint8{format.Snappy: blocks.Snappy, format.Gzip: blocks.Gzip, format.Zstd: blocks.Zstd, format.Lz4Raw: blocks.LZ4, format.Brotli: blocks.Brotli}

// start begins with the column's chunk in a row group.
func (c *parquetColumn) start(p *Parquet, chunk parquetChunk, budget *int64) {
	if c.r == nil {
		c.r, c.budget, c.most = NewWindow(p.r), budget, p.most
	}
	// Nobody uses the last row group's memory any more.
	*budget -= c.heldPage + c.heldEntries + c.heldLevels
	c.heldPage, c.heldEntries, c.heldLevels = 0, 0, 0
	c.chunk, c.at, c.values = chunk, chunk.at, chunk.values
	c.dictionary, c.spans, c.entries, c.page = parquetBody{}, nil, 0, parquetPage{header: chunk.at}
}

// read reads the value or list of the next row. After the last row of a row group none may be left.
func (c *parquetColumn) read(v *Value, leaf *Leaf, last bool) error {
	if !c.listed {
		return c.next(v, leaf)
	}
	if err := c.nextList(v); err != nil {
		return err
	}
	// Lists are counted by rows but pages by values, so a surplus shows only after the last row.
	if last && c.values+c.page.left > 0 {
		return fmt.Errorf("%w: more lists than the row group has rows", ErrBad)
	}
	return nil
}

// next reads the next value.
func (c *parquetColumn) next(v *Value, leaf *Leaf) error {
	for c.page.left == 0 {
		if err := c.nextPage(); err != nil {
			return err
		}
	}
	p := &c.page
	p.left--
	if p.levels != nil {
		level, err := p.levels.next()
		if err != nil {
			return err
		}
		if int(level) < c.present {
			*v = Value{Null: true}
			return nil
		}
	}
	*v = Value{}
	switch {
	// Runs of booleans are read like indices, but are the values themselves.
	case p.indices != nil && c.typ == format.Boolean:
		n, err := p.indices.next()
		v.Int, v.Float = int64(n), float64(n)
		return err
	case leaf.Kind == IntLeaf || leaf.Kind == FloatLeaf:
		raw, err := c.fixed()
		if err == nil {
			c.number(v, raw)
		}
		return err
	case p.shared != nil || p.split > 0:
		raw, err := c.apart()
		v.Held, v.Data, v.Length = true, raw, int64(len(raw))
		return err
	}
	body, from, to, err := c.place()
	if err != nil {
		return err
	}
	return c.stretch(v, body, from, to, leaf.Want)
}

// length reads the length that precedes a value.
func (c *parquetColumn) length(b *parquetBody, at int64) (int64, error) {
	if b.end-at < 4 {
		return 0, fmt.Errorf("%w: a page with more values than bytes for them", ErrBad)
	}
	if b.data != nil {
		return int64(binary.LittleEndian.Uint32(b.data[at:])), nil
	}
	var raw [4]byte
	err := readAt(c.r, raw[:], at)
	return int64(binary.LittleEndian.Uint32(raw[:])), err
}

// stretch makes a value of bytes or text.
func (c *parquetColumn) stretch(v *Value, b *parquetBody, from, to int64, want bool) error {
	v.Offset, v.Length = from, to-from
	switch {
	case b.block != nil:
		v.Block, v.Data = b.block, b.data[from:to]
	case b.data != nil:
		v.Offset += b.file
		v.Data = b.data[from:to]
	case want && v.Length <= maxShortValue:
		v.Data = make([]byte, v.Length)
		return readAt(c.r, v.Data, v.Offset)
	}
	return nil
}

// nextPage reads the headers up to the next data page with values.
func (c *parquetColumn) nextPage() error {
	c.page = parquetPage{header: c.at}
	if c.at >= c.chunk.end {
		return fmt.Errorf("%w: the column's pages end, %d values are missing", ErrBad, c.values)
	}
	h, begin, err := c.readHeader()
	if err != nil {
		return err
	}
	c.at = begin + h.stored
	// The format reserves this type, and no writer uses it.
	if h.typ == format.IndexPage {
		return nil
	}
	_, known := parquetCodecs[c.chunk.codec]
	if c.chunk.codec != format.Uncompressed && !known {
		return fmt.Errorf("%w: pages compressed by %v (expected UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD or LZ4_RAW)", ErrUnsupported, c.chunk.codec)
	}
	switch h.typ {
	case format.DictionaryPage:
		return c.readDictionary(h, begin)
	case format.DataPage, format.DataPageV2:
		if h.values < 0 || h.values > c.values {
			return fmt.Errorf("%w: a page of %d values, the row group has %d left", ErrBad, h.values, c.values)
		}
		if h.values == 0 { // nothing is decoded for it
			return nil
		}
		// The values are subtracted before the page is read, so that all pages together claim no more than their column.
		c.values -= h.values
		return c.readData(h, begin)
	}
	return fmt.Errorf("%w: a page of type %d", ErrBad, h.typ)
}

// load reads and decodes a page, or its compressed part.
func (c *parquetColumn) load(slot *int64, h *pageHeader, at, stored, size int64, compressed bool) (b parquetBody, err error) {
	most, name := int64(blocks.MostBytes), ""
	if compressed {
		most, name = c.most, ", "+blocks.NameOfBlock
	}
	if max(stored, size) > most {
		return b, fmt.Errorf("%w: a page of %d bytes, %d once it is decoded (expected at most %d%s)", ErrLimit, stored, size, most, name)
	}
	if err := c.take(slot, max(stored, size)); err != nil {
		return b, err
	}
	raw := make([]byte, stored)
	if err := readAt(c.r, raw, at); err != nil {
		return b, err
	}
	// The CRC covers the page as it is stored, with its levels. In version 2 the levels are not compressed and not read
	// here, so it is not compared.
	if whole := h.stored == stored; whole && h.hasCRC {
		if found := crc32.ChecksumIEEE(raw); found != h.crc {
			return b, fmt.Errorf("%w: the page has another checksum (expected %08x, found %08x)", ErrBad, h.crc, found)
		}
	}
	if !compressed {
		return parquetBody{end: stored, data: raw, file: at}, nil
	}
	b = parquetBody{end: size, block: &Block{Offset: at, Stored: stored, Size: size, Codec: parquetCodecs[c.chunk.codec]}}
	if b.data = make([]byte, size); size > 0 {
		err = blocks.Decode(b.block.Codec, b.data, raw)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBad, err)
	}
	return b, err
}

// take counts the memory of a page, instead of the one before, against the limit of all columns.
func (c *parquetColumn) take(slot *int64, bytes int64) error {
	*c.budget, *slot = *c.budget+bytes-*slot, bytes
	if *c.budget > maxTableHeld {
		return fmt.Errorf("%w: the pages of the columns take more than %d bytes together", ErrLimit, int64(maxTableHeld))
	}
	return headroom.Memory(bytes)
}

// readDictionary reads the column's dictionary. Its values may be images, which then lie in it.
func (c *parquetColumn) readDictionary(h pageHeader, at int64) (err error) {
	// By the format there is at most one, before the data pages. A second one would give earlier indices other values.
	if c.dictionary.data != nil {
		return fmt.Errorf("%w: a second dictionary in a row group", ErrBad)
	}
	if h.encoding != format.Plain && h.encoding != plainDictionary {
		return fmt.Errorf("%w: a dictionary encoded by %v", ErrUnsupported, h.encoding)
	}
	if c.dictionary, err = c.load(&c.heldEntries, &h, at, h.stored, h.size, c.chunk.codec != format.Uncompressed); err != nil {
		return err
	}
	body := &c.dictionary
	least := c.width
	if least == 0 { // each value has its length before it
		least = 4
	}
	// A value has at least its width, so entries cannot take more memory than the page has bytes.
	if c.typ == format.Boolean || h.values < 0 || h.values > body.end/least {
		return fmt.Errorf("%w: a dictionary of %d values in %d bytes", ErrBad, h.values, body.end)
	}
	c.entries, c.spans = h.values, nil
	if c.width > 0 {
		return nil
	}
	if err := c.take(&c.heldEntries, c.heldEntries+16*h.values); err != nil {
		return err
	}
	c.spans = make([][2]int64, 0, h.values)
	c.page.next = 0
	for range h.values {
		from, to, err := c.following(body)
		if err != nil {
			return err
		}
		c.spans = append(c.spans, [2]int64{from, to})
	}
	return nil
}

// readData reads a data page: levels, and then values. Uncompressed values of variable length are left in the file.
func (c *parquetColumn) readData(h pageHeader, at int64) (err error) {
	p := &c.page
	p.left = h.values
	v2 := h.typ == format.DataPageV2
	compressed := c.chunk.codec != format.Uncompressed && (!v2 || h.compressed)
	levels := int64(0) // size of what precedes the values and is never compressed
	if v2 {
		// Both numbers have 32 bits (number32), so the sum cannot overflow.
		if levels = h.definition + h.repeated; h.definition < 0 || h.repeated < 0 || levels > h.stored || levels > h.size {
			return fmt.Errorf("%w: levels of %d and %d bytes in a page of %d", ErrBad, h.definition, h.repeated, h.stored)
		}
		if h.repeated != 0 && !c.listed {
			return fmt.Errorf("%w: a page with repetition levels, the column is no list", ErrBad)
		}
		if !compressed && h.size != h.stored {
			return fmt.Errorf("%w: an uncompressed page of two sizes, %d and %d", ErrBad, h.stored, h.size)
		}
	}
	// Images of such a page are read from their places when they are needed. Loading the page would read all of them now.
	inPlace := !compressed && c.staysInPlace(h.encoding)
	if inPlace {
		if err := c.take(&c.heldPage, 0); err != nil {
			return err
		}
		p.body = parquetBody{at: at + levels, end: at + h.stored}
	} else if p.body, err = c.load(&c.heldPage, &h, at+levels, h.stored-levels, h.size-levels, compressed); err != nil {
		return err
	}
	p.next = p.body.at
	if err := c.readLevels(h, at, v2); err != nil {
		return err
	}
	switch {
	case h.encoding == format.Plain && c.typ == format.Boolean:
		p.indices = &hybrid{data: p.body.data[p.next:], width: 1, plain: true}
	case h.encoding == format.Plain:
	case h.encoding == format.RLE && c.typ == format.Boolean:
		// Runs of booleans have their length before them, which is not needed because the page's end is known.
		if p.body.end-p.next < 4 {
			return fmt.Errorf("%w: a page without the length of its runs", ErrBad)
		}
		p.indices = &hybrid{data: p.body.data[p.next+4:], width: 1}
	case h.encoding == plainDictionary || h.encoding == format.RLEDictionary:
		if p.body.end == p.next { // all values are null
			p.indices = &hybrid{}
			break
		}
		if p.indices = (&hybrid{data: p.body.data[p.next+1:], width: int(p.body.data[p.next])}); p.indices.width > 32 {
			return fmt.Errorf("%w: indices of %d bits", ErrBad, p.indices.width)
		}
	default:
		return c.readOther(h)
	}
	return nil
}

// number converts a value of fixed width to a number.
func (c *parquetColumn) number(v *Value, b []byte) {
	f := arrowField{width: len(b), unsigned: c.unsigned}
	f.float = c.half || c.typ == format.Float || c.typ == format.Double
	f.number(v, b, 0)
}
