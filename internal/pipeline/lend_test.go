package pipeline

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/pinned"
)

func TestLentMemoryIsWrittenFirstAndReturnsWithItsBatch(t *testing.T) {
	l := open(t, dataset(t, 64, nil), settings{order.Config{BatchSize: 4}, Config{Threads: 2, Prefetch: 1}})
	lent, err := unix.Mmap(-1, 0, int(l.Layout().SlotBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(lent)
	defer l.Close()
	seen := 0
	require.NoError(t, l.Lend(unsafe.Pointer(&lent[0]), int64(len(lent)), 77))
	for range 40 {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			continue
		}
		require.NoError(t, err)
		lentNow := b.Slot.Tag() == 77
		if lentNow {
			require.Equal(t, unsafe.Pointer(&lent[0]), b.Images())
			seen++
		}
		require.Equal(t, b.Indices()[0]%10, b.Labels()[0])
		require.NoError(t, b.Release())
		if lentNow {
			require.NoError(t, l.Lend(unsafe.Pointer(&lent[0]), int64(len(lent)), 77))
		}
	}
	require.Greater(t, seen, 5)
}

// lendable maps memory that can be lent.
func lendable(t *testing.T, bytes int64) []byte {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Munmap(memory) })
	return memory
}

func TestMemoryThatCannotBeLentIsRefusedAndTheLoaderUsesItsOwn(t *testing.T) {
	l := open(t, dataset(t, 16, nil), settings{order.Config{BatchSize: 4}, Config{Threads: 2}})
	slot := l.Layout().SlotBytes
	memory := lendable(t, 2*slot+4096)
	at := func(offset int) unsafe.Pointer { return unsafe.Pointer(&memory[offset]) }
	for name, err := range map[string]error{
		"too small":    l.Lend(at(0), slot-1, 1),
		"unaligned":    l.Lend(at(8), slot, 1),
		"nothing":      l.Lend(nil, slot, 1),
		"negative tag": l.Lend(at(0), slot, -1),
	} {
		require.ErrorIs(t, err, pinned.ErrLoan, name)
	}
	for range 4 {
		b, err := next(t, l)
		require.NoError(t, err)
		require.EqualValues(t, pinned.Own, b.Slot.Tag())
		require.NoError(t, b.Release())
	}
	for _, b := range memory {
		require.Zero(t, b, "refused memory is not written")
	}
}

func TestLentMemoryIsNotUsedOnceTheLoaderIsClosed(t *testing.T) {
	l := open(t, dataset(t, 64, nil), settings{order.Config{BatchSize: 4}, Config{Threads: 2, Prefetch: 4}})
	memory := lendable(t, l.Layout().SlotBytes)
	require.NoError(t, l.Lend(unsafe.Pointer(&memory[0]), int64(len(memory)), 5))
	b, err := next(t, l)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	l.Close()
	<-l.gone
	for i := range memory {
		memory[i] = 0xA5
	}
	require.ErrorIs(t, l.Lend(unsafe.Pointer(&memory[0]), int64(len(memory)), 6), pinned.ErrClosed)
	_, err = l.Next(0)
	require.ErrorIs(t, err, ErrClosed)
	for _, b := range memory {
		require.EqualValues(t, 0xA5, b)
	}
}

func TestLentMemoryIsNotWrittenAfterCloseHoweverLongAnImageTakes(t *testing.T) {
	list := `[{"name": "Resize", "size": [1500, 1500]}` + strings.Repeat(`, {"name": "GaussianBlur", "kernel_size": 23, "sigma": 5.0}`, 60) + `, {"name": "Resize", "size": [8, 8]}]`
	l, err := openWith(t, dataset(t, 64, nil), list)
	require.NoError(t, err)
	loans := int(l.Layout().SlotBytes)
	memory := lendable(t, int64(8*loans))
	for tag := range 8 { // enough for all slots that are acquired from now on
		require.NoError(t, l.Lend(unsafe.Pointer(&memory[tag*loans]), int64(loans), int64(tag)))
	}
	// The first batches had their slots before that; the first one in lent memory comes after them.
	for l.pool.Stats().Lent == 8 && !lentFilling(l) {
		b, err := next(t, l)
		require.NoError(t, err)
		require.NoError(t, b.Release())
	}
	began := time.Now()
	l.Close()
	for i := range memory {
		memory[i] = 0xA5
	}
	took := time.Since(began)
	<-l.gone
	for i, b := range memory {
		require.EqualValues(t, 0xA5, b, "byte %d was written after Close, which took %v", i, took)
	}
}

// lentFilling says whether a batch is being made in lent memory.
func lentFilling(l *Loader) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.stream.drafts {
		if d.slot != nil && d.slot.Tag() != pinned.Own && d.claimed.Load() > 0 && !d.done {
			return true
		}
	}
	return false
}

func TestABatchInLentMemoryStaysValidWhenItsLoaderIsClosed(t *testing.T) {
	l := open(t, dataset(t, 64, nil), settings{order.Config{BatchSize: 4}, Config{Threads: 2, Prefetch: 1}})
	memory := lendable(t, l.Layout().SlotBytes)
	require.NoError(t, l.Lend(unsafe.Pointer(&memory[0]), int64(len(memory)), 5))
	for {
		b, err := next(t, l)
		require.NoError(t, err)
		if b.Slot.Tag() != 5 {
			require.NoError(t, b.Release())
			continue
		}
		before := describe(b)
		l.Close()
		require.Equal(t, before, describe(b))
		require.NoError(t, b.Release())
		return
	}
}
