package formats

import (
	"fmt"
	"io"
	"sort"

	"github.com/headrace/headrace/internal/flat"
	"github.com/headrace/headrace/internal/headroom"
)

// This file reads columns that are encoded by a dictionary ("Dictionary-encoded Layout" and "Dictionary Messages" of
// Arrow's Columnar.html). Their rows are numbers of entries, and the entries are in messages of their own. A further
// message may add entries (a delta), and in a stream it may replace them.

// arrowDictionary is the dictionary of one column, or of several.
type arrowDictionary struct {
	field  arrowField // of the entries
	kind   LeafKind
	leaves []int // numbers of the leaves that use it
	parts  []*arrowEntries
	rows   int64
	held   int64 // bytes in memory
}

// arrowEntries are the entries of one message.
type arrowEntries struct {
	end   int64 // number of the entry after its last one
	batch arrowBatch
	chunk arrowChunk
}

// encoded returns the field of numbers for a field that has a dictionary, and finds the dictionary. entries is the
// field as its values would be without one.
func (a *Arrow) encoded(t flat.Table, entries arrowField, leaf *Leaf, readable bool) (arrowField, error) {
	f := arrowField{leaf: -1, around: entries.around, buffers: 2, width: 4} // without a type a number has 32 bits
	if typ := t.Table(flat.DictionaryIndex); typ.Present() {
		bits := typ.U32(0)
		if bits != 8 && bits != 16 && bits != 32 && bits != 64 {
			return f, fmt.Errorf("%w: entries of a dictionary by numbers of %d bits", ErrBad, bits)
		}
		f.width, f.unsigned = int(bits/8), typ.U8(1) == 0
	}
	entries.around = nil
	id := t.I64(flat.DictionaryEncodingID)
	d := a.dictionaries[id]
	if d == nil && readable && leaf.Kind != RefusedLeaf {
		d = &arrowDictionary{field: entries, kind: leaf.Kind}
		if a.dictionaries == nil {
			a.dictionaries = make(map[int64]*arrowDictionary)
		}
		a.dictionaries[id] = d
	}
	if !readable || leaf.Kind == RefusedLeaf || !d.is(leaf.Kind, &entries) {
		leaf.Kind, leaf.Type = RefusedLeaf, "encoded by a dictionary of lists, of structs or of another column"
		return f, nil
	}
	d.leaves = append(d.leaves, len(a.Leaves))
	f.dictionary = d
	return f, nil
}

// is says whether the dictionary has entries of this type.
func (d *arrowDictionary) is(kind LeafKind, f *arrowField) bool {
	g := &d.field
	return d.kind == kind && g.buffers == f.buffers && g.views == f.views && g.offsets == f.offsets && g.width == f.width &&
		g.float == f.float && g.unsigned == f.unsigned && g.wide == f.wide
}

// mostOfEntry is the size of an entry in a buffer of views, the widest of those without a fixed width.
const mostOfEntry = 16

// readDictionary reads the entries of the message that the batch was made for.
func (a *Arrow) readDictionary(message flat.Table) error {
	t := message.Table(flat.MessageHeader)
	d := a.dictionaries[t.I64(flat.DictionaryID)]
	if d == nil {
		return nil
	}
	asked, want := false, false
	for _, n := range d.leaves {
		l := &a.Leaves[n]
		asked, want = asked || l.Kind != RefusedLeaf && !l.Skip, want || l.Want
	}
	if !asked {
		return nil
	}
	if t.U8(flat.DictionaryIsDelta) == 0 {
		// A file may be read in any order, so no dictionary can replace another one in it ("IPC File Format").
		if a.file && d.parts != nil {
			return fmt.Errorf("%w: a second dictionary of a column (expected further entries of the first)", ErrBad)
		}
		a.held -= d.held
		d.parts, d.rows, d.held = nil, 0, 0
	}
	e := &arrowEntries{batch: a.batch}
	e.chunk.field, e.chunk.body, e.batch.held = &d.field, a.batch.body, a.held
	b := &e.batch
	if err := b.open(a.r, t.Table(flat.DictionaryData), []arrowField{d.field}); err != nil {
		return err
	}
	// An entry has at least a byte, unless buffers overlap.
	if b.rows > max(a.size, leastTable) {
		return fmt.Errorf("%w: a dictionary of %d entries in a file of %d bytes", ErrLimit, b.rows, a.size)
	}
	if b.rows == 0 { // then the buffers may be missing
		return nil
	}
	// Offsets, views and numbers of all entries are read at once and are kept.
	each := int64(max(mostOfEntry, d.field.width))
	if b.rows > (maxTableHeld-a.held)/each {
		return fmt.Errorf("%w: a dictionary of %d entries takes more than %d bytes with the others", ErrLimit, b.rows, int64(maxTableHeld))
	}
	if err := headroom.Memory(b.rows * each); err != nil {
		return err
	}
	if err := b.read(a.r, &e.chunk, 0, 0, b.rows, want); err != nil {
		return err
	}
	// A dictionary is kept until the end, so that any batch can look up its entries.
	for _, x := range append(e.chunk.views[:len(e.chunk.views):len(e.chunk.views)], e.chunk.values) {
		if x.codec == 0 {
			continue
		}
		if _, err := b.content(a.r, x); err != nil { // now, so that the memory of all dictionaries is known
			return err
		}
	}
	grown := b.held - a.held + int64(len(e.chunk.raw)+len(e.chunk.data))
	if d.held, a.held = d.held+grown, a.held+grown; a.held > maxTableHeld {
		return fmt.Errorf("%w: the dictionaries take more than %d bytes together", ErrLimit, int64(maxTableHeld))
	}
	d.rows += b.rows
	e.end = d.rows
	d.parts = append(d.parts, e)
	return nil
}

// value returns an entry.
func (d *arrowDictionary) value(c *arrowChunk, row int, leaf *Leaf, r io.ReaderAt) (Value, error) {
	var n Value
	c.field.number(&n, c.raw, row)
	if n.Int < 0 || n.Int >= d.rows {
		return Value{}, fmt.Errorf("%w: the column %.80q: entry %d of a dictionary of %d", ErrBad, leaf.Path[0], n.Int, d.rows)
	}
	// Deltas add parts after the first one, so an entry's number decides which part it is in.
	i := sort.Search(len(d.parts), func(i int) bool { return d.parts[i].end > n.Int })
	e := d.parts[i]
	return e.chunk.value(r, int(n.Int-(e.end-e.batch.rows)), leaf)
}
