package pipeline

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/order"
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
