package pinned

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const slotBytes = 3<<20 + 777

// newPool makes a pool and fails a test that leaves memory or descriptors behind.
func newPool(t *testing.T, o Options) *Pool {
	t.Helper()
	maps, descriptors := countSlotMaps(t), countDescriptors(t)
	if o.SlotBytes == 0 {
		o.SlotBytes = slotBytes
	}
	p, err := NewPool(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Close()
		assert.Equal(t, maps, countSlotMaps(t), "mappings of slots")
		assert.Equal(t, descriptors, countDescriptors(t), "file descriptors")
		s := p.Stats()
		assert.Equal(t, s.Made, s.Unmapped)
		s.Made, s.Unmapped = 0, 0
		assert.Zero(t, s, "slots left")
	})
	return p
}

// eachMemory runs a test over memfd slots and over the fallback.
func eachMemory(t *testing.T, test func(t *testing.T, o Options)) {
	for _, o := range []Options{{Keep: 2}, {Keep: 2, NoMemfd: true}} {
		name := "memfd"
		if o.NoMemfd {
			name = "anonymous"
		}
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

func countSlotMaps(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	// "/dev/zero (deleted)" is how the kernel names anonymous shared mappings.
	return strings.Count(string(maps), "memfd:headrace-slot") + strings.Count(string(maps), "/dev/zero (deleted)")
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func acquire(t *testing.T, p *Pool) *Slot {
	t.Helper()
	s, err := p.Acquire()
	require.NoError(t, err)
	return s
}

// hold takes a slot through its life up to the consumer.
func hold(t *testing.T, p *Pool) *Slot {
	t.Helper()
	s := acquire(t, p)
	require.NoError(t, s.Ready())
	require.NoError(t, s.Hold())
	return s
}

func (s *Slot) slice() []byte { return unsafe.Slice((*byte)(s.Pointer()), s.Bytes()) }

// aligned returns Go memory that may be lent; the caller keeps it alive.
func aligned(n int) []byte {
	b := make([]byte, n+Alignment)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (Alignment - 1)
	return b[skip : skip+n]
}
