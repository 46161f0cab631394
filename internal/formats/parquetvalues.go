package formats

import (
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/format"

	"github.com/headrace/headrace/internal/blocks"
)

// This file reads values in the encodings of Parquet's Encodings.md, one by one as they are asked for.

// staysInPlace is true for an uncompressed page whose values have places in the file.
func (c *parquetColumn) staysInPlace(encoding format.Encoding) bool {
	switch {
	case encoding == format.Plain && c.listed:
		return c.element == c.width
	case encoding == format.Plain:
		return c.typ == format.ByteArray || c.typ == format.FixedLenByteArray && !c.half
	}
	return encoding == format.DeltaLengthByteArray && c.typ == format.ByteArray
}

// readOther prepares the values of a page that are neither plain nor indices of a dictionary.
func (c *parquetColumn) readOther(h pageHeader) (err error) {
	p, whole := &c.page, c.typ == format.Int32 || c.typ == format.Int64
	switch {
	case h.encoding == format.DeltaBinaryPacked && whole:
		p.numbers, _, err = c.deltas(h, true)
	case h.encoding == format.DeltaLengthByteArray && c.typ == format.ByteArray:
		err = c.readLengths(h)
	case h.encoding == format.DeltaByteArray && (c.typ == format.ByteArray || c.typ == format.FixedLenByteArray):
		if p.shared, p.next, err = c.deltas(h, false); err == nil {
			p.lengths, p.next, err = c.deltas(h, false)
		}
	case h.encoding == format.ByteStreamSplit && c.width > 0:
		bytes := p.body.end - p.next
		if p.split, p.unread = bytes/c.width, bytes/c.width; bytes%c.width != 0 || p.split > h.values {
			err = fmt.Errorf("%w: %d bytes of %d or fewer values of %d bytes, split by bytes", ErrBad, bytes, h.values, c.width)
		}
	default:
		err = fmt.Errorf("%w: values of type %v encoded by %v; fields= chooses columns without it", ErrUnsupported, c.typ, h.encoding)
	}
	return err
}

// deltas reads numbers of a page in memory, and returns what follows them. If all values are null there may be no
// numbers.
func (c *parquetColumn) deltas(h pageHeader, alone bool) (*delta, int64, error) {
	p := &c.page
	if p.next == p.body.end {
		return &delta{}, p.next, nil
	}
	d, behind, err := newDelta(p.body.data[p.next:p.body.end], h.values, alone)
	return d, p.body.end - int64(len(behind)), err
}

// readLengths reads the lengths of all values of a page, which precede the values.
func (c *parquetColumn) readLengths(h pageHeader) (err error) {
	p := &c.page
	if p.body.data != nil {
		p.lengths, p.next, err = c.deltas(h, false)
		return err
	}
	left := p.body.end - p.next
	if left == 0 {
		p.lengths = &delta{}
		return nil
	}
	// A length takes a byte or two, so this is mostly enough, and at most eight times as much is read in vain.
	// The page is not read as a whole, because its values may be images.
	for most := max(512, 2*h.values); ; most *= 8 {
		n := min(most, left)
		if n > blocks.MostBytes {
			return fmt.Errorf("%w: %d lengths of values that take more than %d bytes", ErrLimit, h.values, int64(blocks.MostBytes))
		}
		if err := c.take(&c.heldPage, n); err != nil {
			return err
		}
		raw := make([]byte, n)
		if err := readAt(c.r, raw, p.next); err != nil {
			return err
		}
		lengths, behind, err := newDelta(raw, h.values, false)
		if err != nil && n < left {
			continue
		}
		p.lengths, p.next = lengths, p.next+n-int64(len(behind))
		return err
	}
}

// place returns where the next value is: in the page's body, or in the dictionary's.
func (c *parquetColumn) place() (b *parquetBody, from, to int64, err error) {
	p := &c.page
	if p.indices == nil {
		from, to, err = c.following(&p.body)
		return &p.body, from, to, err
	}
	n, err := p.indices.next()
	index := int64(n)
	switch {
	case err != nil:
	case index >= c.entries:
		err = fmt.Errorf("%w: entry %d of a dictionary of %d", ErrBad, index, c.entries)
	case c.width == 0:
		from, to = c.spans[index][0], c.spans[index][1]
	default: // the number of entries was compared with the body
		from, to = c.dictionary.at+index*c.width, c.dictionary.at+(index+1)*c.width
	}
	return &c.dictionary, from, to, err
}

// following returns where the next value in a body is.
func (c *parquetColumn) following(b *parquetBody) (from, to int64, err error) {
	from, width := c.page.next, c.width
	switch {
	case c.page.lengths != nil:
		if width, err = c.nextLength(c.page.lengths); err != nil {
			return 0, 0, err
		}
	case width == 0:
		if width, err = c.length(b, from); err != nil {
			return 0, 0, err
		}
		from += 4
	}
	if width > b.end-from {
		return 0, 0, fmt.Errorf("%w: a value of %d bytes, its page has %d left", ErrBad, width, max(b.end-from, 0))
	}
	c.page.next = from + width
	return from, from + width, nil
}

// nextLength returns a number that is a length. Its type has 32 bits.
func (c *parquetColumn) nextLength(of *delta) (int64, error) {
	n, err := of.next()
	if err == nil && int32(n) < 0 {
		err = fmt.Errorf("%w: a value of %d bytes", ErrBad, int32(n))
	}
	return int64(int32(n)), err
}

// fixed returns the next value of a column of fixed width.
func (c *parquetColumn) fixed() ([]byte, error) {
	p := &c.page
	switch {
	case p.numbers != nil:
		n, err := p.numbers.next()
		binary.LittleEndian.PutUint64(c.space[:], uint64(n))
		return c.space[:c.width], err
	case p.split > 0 || p.shared != nil:
		return c.apart()
	}
	body, from, to, err := c.place()
	if err != nil {
		return nil, err
	}
	return body.data[from:to], nil
}

// apart returns the next value if its bytes are not adjacent.
func (c *parquetColumn) apart() ([]byte, error) {
	p := &c.page
	if p.split > 0 {
		value := p.previous[:0]
		if p.unread == 0 {
			return nil, fmt.Errorf("%w: a page with more values than bytes for them", ErrBad)
		}
		// The first bytes of all values come first, then all second bytes.
		for at := p.next; at < p.body.end; at += p.split {
			value = append(value, p.body.data[at])
		}
		p.previous, p.next, p.unread = value, p.next+1, p.unread-1
		return value, nil
	}
	shared, err := c.nextLength(p.shared)
	if err != nil {
		return nil, err
	}
	// The prefix is taken from the value before. The first value of a page has none before it.
	if shared > int64(len(p.previous)) {
		return nil, fmt.Errorf("%w: a value that begins as %d bytes of one that has %d", ErrBad, shared, len(p.previous))
	}
	from, to, err := c.following(&p.body)
	if err != nil {
		return nil, err
	}
	p.previous = append(p.previous[:shared], p.body.data[from:to]...)
	if c.width > 0 && int64(len(p.previous)) != c.width {
		return nil, fmt.Errorf("%w: a value of %d bytes (expected %d)", ErrBad, len(p.previous), c.width)
	}
	return p.previous, nil
}
