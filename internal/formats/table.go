package formats

import "fmt"

// Leaf is a column of a table in Arrow or Parquet: one that has no columns inside it. What lies inside lists
// has none of its own.
type Leaf struct {
	Path []string // the names of the structs around it, and its own
	Kind LeafKind
	Type string // of a RefusedLeaf: what it is, for a sentence
	// Empty: it is of the type that has no value but null, as a table without any label may have it.
	Empty bool

	Element string // of an ArrayLeaf: NumPy's name of the type of its numbers
	Form    string // of LitData's values that have a head of their own: what wrote them

	Skip bool // the caller does not ask for it: every value is null
	Want bool // the caller asks for the bytes of short values too (Value.Data)
}

// LeafKind says which values a leaf has.
type LeafKind uint8

// The kinds of values.
const (
	BytesLeaf LeafKind = iota
	TextLeaf
	IntLeaf
	FloatLeaf
	ArrayLeaf   // lists of numbers without lists inside them, whose bytes stand behind each other
	RefusedLeaf // lists, and types without a counterpart in a sample
)

// ListType is the Type of lists.
const ListType = "a list"

// Value is a leaf's in one row.
type Value struct {
	Null           bool
	Gaps           bool   // a list of which some number is null: with Null, for it is no array
	Offset, Length int64  // of bytes and text in the file, or in the decoded block
	Block          *Block // that they lie in; nil: in the file
	Held           bool   // of an array that lies nowhere: Data is it
	Data           []byte // of one in a block, and of a short one that was asked for; valid until the next row
	Int            int64
	Float          float64 // of an integer the nearest
	Large          bool    // of an integer of 2^63 and more: it is Float, and no Int
}

// The bounds of a table's schema: leaves, and all fields.
const maxTableLeaves, maxTableFields = 1024, 4096

// checkName refuses a field inside those of path whose name is too long, theirs before it.
func checkName(path []string, bytes int) error {
	// All levels together: thousands of fields in each other would take the square of their names.
	for _, name := range path {
		bytes += len(name)
	}
	if bytes > MaxNameBytes {
		return fmt.Errorf("%w: a column's name of %d bytes (expected at most %d)", ErrLimit, bytes, MaxNameBytes)
	}
	return nil
}

// maxShortValue bounds the values that are read along with their places.
const maxShortValue = MaxNameBytes

// maxTableHeld bounds what is decoded of a table's compressed pages or buffers at a time.
const maxTableHeld = 1 << 30

// leastTable is the size that a table is taken to have at least, when its rows are counted against it.
const leastTable = 1 << 20

// tooManyRows refuses what would take far more memory than the file has bytes: buffers may overlap, and runs
// of one value cost nothing. A value in a row stands for a byte at least.
func tooManyRows(rows, leaves, size int64) bool {
	return rows > max(size, leastTable)/max(leaves, 1)
}

// Block is a stretch of a container that is compressed as a whole.
type Block struct {
	Offset int64 // in the file
	Stored int64 // bytes there
	Size   int64 // bytes once it is decoded
	Codec  uint8 // package blocks has them
}
