package formats

// Names is a list of strings in one arena. It takes 8 bytes for each name in addition to the text, and has only three
// objects for the garbage collector.
type Names struct {
	arena []byte
	ends  []uint64
}

// Append adds a name.
func (n *Names) Append(name string) {
	n.arena = append(n.arena, name...)
	n.ends = append(n.ends, uint64(len(n.arena)))
}

// AppendBytes adds a name that is in memory which will be used again.
func (n *Names) AppendBytes(name []byte) {
	n.arena = append(n.arena, name...)
	n.ends = append(n.ends, uint64(len(n.arena)))
}

// AllEmpty is true if no name has a byte.
func (n *Names) AllEmpty() bool { return len(n.arena) == 0 }

// Len is the number of names.
func (n *Names) Len() int64 { return int64(len(n.ends)) }

// Bytes returns name i inside the arena; it must not be written to.
func (n *Names) Bytes(i int64) []byte {
	start := uint64(0)
	if i > 0 {
		start = n.ends[i-1]
	}
	return n.arena[start:n.ends[i]:n.ends[i]]
}
