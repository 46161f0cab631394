package pinned

import (
	"errors"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// resident counts the pages of a slot that this process has touched.
func resident(t *testing.T, s *Slot) int {
	t.Helper()
	mapping := s.memory.mapping
	vector := make([]byte, (len(mapping)+4095)/4096)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapping[0])), uintptr(len(mapping)),
		uintptr(unsafe.Pointer(&vector[0])))
	require.Zero(t, errno)
	n := 0
	for _, v := range vector {
		n += int(v & 1)
	}
	return n
}

func TestPopulateMakesPagesResidentAndKeepsWhatIsWritten(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		s := acquire(t, newPool(t, o))
		s.slice()[0], s.slice()[slotBytes-1] = 1, 2
		assert.Less(t, resident(t, s), 10)
		require.NoError(t, s.Populate(0, s.Bytes()))
		assert.Equal(t, (slotBytes+4095)/4096, resident(t, s))
		assert.EqualValues(t, 1, s.slice()[0])
		assert.EqualValues(t, 2, s.slice()[slotBytes-1])
		require.NoError(t, s.Abandon())
	})
}

func TestTouchingPagesChangesNoByteWhileOthersWrite(t *testing.T) {
	s := acquire(t, newPool(t, Options{}))
	var group sync.WaitGroup
	group.Go(func() { touch(s.memory.mapping) })
	// Words that touch does not add to; its own words are covered by the second pass.
	for i := 8; i < len(s.memory.mapping); i += 4096 {
		s.memory.mapping[i] = 7
	}
	group.Wait()
	for i := range s.memory.mapping {
		s.memory.mapping[i] = byte(i)
	}
	touch(s.memory.mapping)
	for i, b := range s.memory.mapping {
		if b != byte(i) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	require.NoError(t, s.Abandon())
}

func TestPopulateOutsideTheSlotIsAnError(t *testing.T) {
	s := acquire(t, newPool(t, Options{}))
	for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, slotBytes + 1}, {slotBytes, 1}, {1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}} {
		assert.ErrorIs(t, s.Populate(r[0], r[1]), ErrRange, "%v", r)
	}
	require.NoError(t, s.Populate(slotBytes, 0))
	require.NoError(t, s.Abandon())
}

func TestReserveMakesPopulatedSlotsUpToKeep(t *testing.T) {
	p := newPool(t, Options{Keep: 3})
	first := acquire(t, p)
	require.NoError(t, p.Reserve(3))
	assert.Equal(t, Stats{Free: 2, Filling: 1, OwnBytes: 3 * slotBytes, Made: 3}, p.Stats())
	require.NoError(t, p.Reserve(100))
	assert.Equal(t, 3, p.Stats().Free)
	warm := acquire(t, p)
	assert.Equal(t, (slotBytes+4095)/4096, resident(t, warm))
	require.NoError(t, errors.Join(first.Abandon(), warm.Abandon()))
}

func TestReserveMakesNoSlotsWhereMemoryIsLent(t *testing.T) {
	p := newPool(t, Options{Keep: 3})
	a, b := aligned(slotBytes), aligned(slotBytes)
	require.NoError(t, p.Lend(unsafe.Pointer(&a[0]), slotBytes, 1))
	require.NoError(t, p.Lend(unsafe.Pointer(&b[0]), slotBytes, 2))
	require.NoError(t, p.Reserve(3))
	assert.EqualValues(t, 1, p.Stats().Made)
}

func TestReserveEndsWhenThePoolIsClosed(t *testing.T) {
	for range 20 {
		p := newPool(t, Options{Keep: 50})
		var group sync.WaitGroup
		group.Go(func() { assert.NoError(t, p.Reserve(50)) })
		require.NoError(t, acquire(t, p).Abandon())
		p.Close()
		group.Wait()
	}
}
