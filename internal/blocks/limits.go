package blocks

import "fmt"

// Limits bound what decoding blocks may take. 0 stands for the default.
type Limits struct {
	Block  int64 // bytes of one block, stored and decoded
	Cached int64 // bytes of all decoded blocks that a loader or a job keeps
}

// The names by which a user knows the limits.
const (
	NameOfBlock  = "max_block_bytes"
	NameOfCached = "max_cached_bytes"
)

// mostCached is how many bytes of decoded blocks are kept by default.
const mostCached = 512 << 20

func (l Limits) complete() Limits {
	if l.Block == 0 {
		l.Block = MostBytes
	}
	if l.Cached == 0 {
		l.Cached = mostCached
	}
	return l
}

// Room returns how many bytes of decoded blocks are kept.
func (l Limits) Room() int64 { return l.complete().Cached }

// Check refuses impossible limits, by name.
func (l Limits) Check() error {
	switch {
	case l.Block < 0 || l.Block > MostBytes:
		return fmt.Errorf("%s is %d (expected 1 to %d)", NameOfBlock, l.Block, int64(MostBytes))
	case l.Cached < 0:
		return fmt.Errorf("%s is %d (expected at least 1)", NameOfCached, l.Cached)
	}
	return nil
}

// check refuses a block before memory for it is allocated.
func (l Limits) check(b Block) error {
	if found := int64(max(b.Stored, b.Size)); found > l.Block {
		return &TooLargeError{found, l.Block}
	}
	return nil
}

// TooLargeError says that a block has more bytes, stored or decoded, than it may.
type TooLargeError struct{ Found, Most int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the block has %d bytes, %s is %d", e.Found, NameOfBlock, e.Most)
}
