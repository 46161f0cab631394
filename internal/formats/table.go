package formats

import "fmt"

// Leaf is a column of a table in Arrow or Parquet that has no columns inside it. What lies inside a list is no leaf of
// its own.
type Leaf struct {
	Path []string // the names of the structs around it, and its own
	Kind LeafKind
	Type string // for a RefusedLeaf, what it is, for an error
	// Empty is true if the type has no value but null, as in a table without any label.
	Empty bool

	Element string // for an ArrayLeaf, NumPy's name for the type of its numbers
	Form    string // for LitData's values with a head of their own, what wrote them

	Skip bool // the caller does not need it: every value is null
	Want bool // the caller also needs the bytes of short values (Value.Data)
}

// LeafKind says which values a leaf has.
type LeafKind uint8

// These are the kinds of values.
const (
	BytesLeaf LeafKind = iota
	TextLeaf
	IntLeaf
	FloatLeaf
	ArrayLeaf   // lists of numbers without lists inside them, whose bytes follow each other
	RefusedLeaf // lists, and types without a counterpart in a sample
)

// ListType is the Type of lists.
const ListType = "a list"

// Value is a leaf's value in one row.
type Value struct {
	Null           bool
	Gaps           bool   // a list in which some number is null; Null is set too, because it is no array
	Offset, Length int64  // of bytes and text, in the file or in the decoded block
	Block          *Block // the block that they are in; nil: in the file
	Held           bool   // the value has no place; Data has it
	Data           []byte // of a value in a block, and of a short one that was asked for; valid until the next row
	Int            int64
	Float          float64 // of an integer, the nearest float
	Large          bool    // an integer of 2^63 or more: it is in Float, and not in Int
}

// These limit a table's schema: its leaves, and all its fields.
const maxTableLeaves, maxTableFields = 1024, 4096

// checkName refuses a field whose name is too long, together with the names of path before it.
func checkName(path []string, bytes int) error {
	// All levels count together: thousands of nested fields would take the square of their names' size.
	for _, name := range path {
		bytes += len(name)
	}
	if bytes > MaxNameBytes {
		return fmt.Errorf("%w: a column's name of %d bytes (expected at most %d)", ErrLimit, bytes, MaxNameBytes)
	}
	return nil
}

// maxShortValue limits the values that are read together with their places.
const maxShortValue = MaxNameBytes

// maxTableHeld limits what is decoded of a table's compressed pages or buffers at a time.
const maxTableHeld = 1 << 30

// leastTable is the least size that is assumed for a table when its rows are compared with its size.
const leastTable = 1 << 20

// tooManyRows is true for rows that would take far more memory than the file has bytes: buffers may overlap, and runs
// of one value take no bytes. Each value in a row counts as at least one byte.
func tooManyRows(rows, leaves, size int64) bool {
	return rows > max(size, leastTable)/max(leaves, 1)
}

// Block is a stretch of a container that is compressed as a whole.
type Block struct {
	Offset int64 // in the file
	Stored int64 // bytes there
	Size   int64 // size after decoding
	Codec  uint8 // of package blocks
}
