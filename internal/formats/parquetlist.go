package formats

import (
	"fmt"
	"strconv"

	"github.com/parquet-go/parquet-go/format"
)

// This file reads lists of numbers in Parquet ("Nested Types" in LogicalTypes.md, and Dremel's levels). A column has
// the numbers of all lists one after the other. A repetition level of 0 marks where a list begins. The definition level
// says whether there is a number, no number because the list is empty, or no list.

// maxHeldList limits the size of a list without one place in a page. Of a longer one only the length is known.
const maxHeldList = 64 << 10

// These limit the numbers of lists that are read: runs of one number take no bytes, but time.
const (
	leastListed   = 1 << 24
	listedPerByte = 16
)

// parquetList is the list that is being read.
type parquetList struct {
	begun, empty bool
	null         bool  // there is no list
	gaps         bool  // some number is null
	length       int64 // size of its numbers
	scattered    bool  // its numbers are not in succession in one page
	page         int64 // otherwise the header of the page that they are in
	body         parquetBody
	from         int64
	held         []byte // the numbers, if they are scattered
}

// listedNumber returns the number that a repeated element is a list of, and the next element after it; nil if it is no
// list of numbers. The group of a list has one element below it; by older rules two names mean a struct.
func listedNumber(all []parquetElement, at int, list []string) (number *parquetElement, behind int) {
	e := &all[at]
	switch {
	case e.leaf:
		behind = at + 1
	case e.children == 1 && at+1 < len(all) && e.name != "array" && e.name != list[len(list)-1]+"_tuple":
		e, behind = &all[at+1], at+2
		if e.repetition < 0 || e.repetition > 1 {
			return nil, 0
		}
	default:
		return nil, 0
	}
	if kind, _ := e.kind(); !e.leaf || e.children > 0 || e.time || kind != IntLeaf && kind != FloatLeaf || e.typ == format.Boolean {
		return nil, 0
	}
	return e, behind
}

// numbers adds a list of such numbers as a leaf and a column. present is the definition level of the list.
func (p *Parquet) numbers(path []string, e *parquetElement, present int) error {
	c := parquetColumn{leaf: len(p.Leaves), listed: true, there: present, present: present + 1, width: e.fixedWidth(), half: e.half, typ: e.typ, unsigned: e.unsigned}
	if e.repetition == 1 {
		c.present++
	}
	name := "int"
	switch {
	case e.unsigned:
		name = "uint"
	case e.typ == format.Float || e.typ == format.Double || e.half:
		name = "float"
	}
	if c.element = c.width; name != "float" && (e.bits == 8 || e.bits == 16 || e.bits == 32) {
		c.element = min(e.bits/8, c.width)
	}
	p.columns = append(p.columns, c)
	return p.leaf(Leaf{Path: path, Kind: ArrayLeaf, Type: ListType, Element: name + strconv.FormatInt(8*c.element, 10)})
}

// checkListed counts the numbers of a row group's lists that are read.
func (p *Parquet) checkListed(c *parquetColumn, chunk parquetChunk) error {
	if !c.listed || chunk.encrypted || p.Leaves[c.leaf].Kind != ArrayLeaf || p.Leaves[c.leaf].Skip {
		return nil
	}
	// The limit is below 2^55, so the sum cannot overflow, although a row group's count of values has 64 bits.
	most := max(leastListed, listedPerByte*min(p.size, 1<<50))
	if p.listed += min(chunk.values, most+1); p.listed > most {
		return fmt.Errorf("%w: lists of more than %d numbers in a file of %d bytes (in the column %.80q)", ErrLimit, most, p.size, p.Leaves[c.leaf].Path[0])
	}
	return nil
}

// nextList reads the next list. A list ends where another begins, and that may be known only from the next page.
func (c *parquetColumn) nextList(v *Value) error {
	l := &c.list
	*l = parquetList{held: l.held[:0]}
	for {
		for c.page.left == 0 {
			if l.begun && c.values == 0 {
				return c.endList(v)
			}
			if err := c.nextPage(); err != nil {
				return err
			}
		}
		p := &c.page
		if err := p.repeats.look(); err != nil {
			return err
		}
		if err := p.depths.look(); err != nil {
			return err
		}
		n, depth := int64(1), p.depths.value
		switch again := p.repeats.value; {
		case again == 0 && l.begun:
			return c.endList(v)
		// Levels are read with whole bits, which have room for higher levels than there are.
		case again > 1 || depth > c.present || again == 1 && !l.begun:
			return fmt.Errorf("%w: levels %d and %d of a list (expected at most 1 and %d, and 0 where a row begins)", ErrBad, again, depth, c.present)
		case again == 1 && (depth <= c.there || l.null || l.empty):
			return fmt.Errorf("%w: a list that goes on behind its end", ErrBad)
		case again == 1:
			// Several numbers of one list are taken at once, because levels of lists are mostly such runs.
			n = min(p.repeats.left, p.depths.left, p.left)
		}
		l.begun = true
		p.repeats.left, p.depths.left, p.left = p.repeats.left-n, p.depths.left-n, p.left-n
		switch {
		case depth < c.there:
			l.null = true
		case depth == c.there:
			l.empty = true
		case depth < c.present:
			l.gaps = true
		default:
			if err := c.takeNumbers(n); err != nil {
				return err
			}
		}
	}
}

// takeNumbers takes n numbers of the page.
func (c *parquetColumn) takeNumbers(n int64) error {
	p, l := &c.page, &c.list
	bytes := n * c.element // a row group has fewer than 2^50 numbers
	if !c.verbatim() {
		if err := c.scatter(); err != nil {
			return err
		}
		for range n {
			raw, err := c.fixed()
			if err != nil {
				return err
			}
			// Of a longer list only the length is used, so its bytes need not be held.
			if l.length += c.element; l.length <= maxHeldList {
				l.held = append(l.held, raw[:c.element]...)
			}
		}
		return nil
	}
	if bytes > p.body.end-p.next {
		return fmt.Errorf("%w: %d numbers of %d bytes, their page has %d left", ErrBad, n, c.element, max(p.body.end-p.next, 0))
	}
	from := p.next
	p.next += bytes
	switch {
	case l.scattered:
	case l.length == 0:
		l.body, l.from = p.body, from
	// The list began in another page, and a header lies in between.
	case l.page != p.header:
		if err := c.scatter(); err != nil {
			return err
		}
	}
	if l.page = p.header; !l.scattered {
		l.length += bytes
		return nil
	}
	return c.keep(&p.body, from, bytes)
}

// verbatim is true if the page has the numbers as they are.
func (c *parquetColumn) verbatim() bool {
	p := &c.page
	return p.indices == nil && p.numbers == nil && p.shared == nil && p.split == 0 && c.element == c.width
}

// scatter copies what was read of the list so far, because the rest does not follow it.
func (c *parquetColumn) scatter() error {
	l := &c.list
	if l.scattered {
		return nil
	}
	l.scattered = true
	n := l.length
	l.length = 0
	return c.keep(&l.body, l.from, n)
}

// keep adds a stretch to the bytes that are held of a list.
func (c *parquetColumn) keep(b *parquetBody, from, bytes int64) error {
	l := &c.list
	if l.length += bytes; l.length > maxHeldList || bytes == 0 {
		return nil
	}
	at := len(l.held)
	l.held = append(l.held, make([]byte, bytes)...)
	if b.data != nil {
		copy(l.held[at:], b.data[from:])
		return nil
	}
	return readAt(c.r, l.held[at:], from)
}

// endList makes a value of the list that was read.
func (c *parquetColumn) endList(v *Value) error {
	l := &c.list
	switch *v = (Value{}); {
	case l.null || l.gaps:
		v.Null, v.Gaps = true, l.gaps
	case l.scattered:
		if v.Held, v.Length = true, l.length; l.length <= maxHeldList {
			v.Data = l.held
		}
	case l.length == 0:
		v.Offset = c.page.header
	default:
		return c.stretch(v, &l.body, l.from, l.from+l.length, false)
	}
	return nil
}
