package pinned

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const slotBytes = 3<<20 + 777

// newPool makes a pool and fails a test that leaves memory or descriptors behind.
func newPool(t *testing.T, o Options) *Pool {
	t.Helper()
	maps, descriptors, before := countSlotMaps(t), countDescriptors(t), promised.Load()
	if o.SlotBytes == 0 {
		o.SlotBytes = slotBytes
	}
	p, err := NewPool(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Close()
		assert.Equal(t, maps, countSlotMaps(t), "mappings of slots")
		assert.LessOrEqual(t, countDescriptors(t), descriptors, "file descriptors")
		assert.Equal(t, before, promised.Load(), "bytes promised")
		s := p.Stats()
		assert.Equal(t, s.Made, s.Unmapped)
		s.Made, s.Unmapped = 0, 0
		assert.Zero(t, s, "slots left")
	})
	return p
}

// eachMemory runs a test over slots of /dev/zero and over the fallback.
func eachMemory(t *testing.T, test func(t *testing.T, o Options)) {
	for _, o := range []Options{{Keep: 2}, {Keep: 2, NoDevZero: true}} {
		name := "of /dev/zero"
		if o.NoDevZero {
			name = "anonymous"
		}
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

// countSlotMaps counts slots of /dev/zero. Anonymous ones have no name; tests find them in the promised
// bytes and in the counts of their pool.
func countSlotMaps(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(maps), "/dev/zero\n")
}

// areMapped says of each slot whether its memory is mapped.
func areMapped(slots ...*Slot) (found []bool) {
	for _, s := range slots {
		// msync(2): ENOMEM where the memory, or part of it, was not mapped.
		found = append(found, unix.Msync(s.memory.mapping, unix.MS_ASYNC) == nil)
	}
	return found
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

// hold acquires a slot and takes it through its states until a consumer holds it.
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
