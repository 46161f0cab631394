package formats

// Names is a list of strings in one arena: 8 bytes a name beside its own, and three objects for
// the garbage collector however many names there are.
type Names struct {
	arena []byte
	ends  []uint64
}

// Append adds a name.
func (n *Names) Append(name string) {
	n.arena = append(n.arena, name...)
	n.ends = append(n.ends, uint64(len(n.arena)))
}

// Len is the number of names.
func (n *Names) Len() int64 { return int64(len(n.ends)) }

// Bytes is name i inside the arena; it must not be written to.
func (n *Names) Bytes(i int64) []byte {
	start := uint64(0)
	if i > 0 {
		start = n.ends[i-1]
	}
	return n.arena[start:n.ends[i]:n.ends[i]]
}
