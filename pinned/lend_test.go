package pinned

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLentMemoryIsUsedFirstAndForOneBatch(t *testing.T) {
	p := newPool(t, Options{Keep: 2})
	a, b := aligned(slotBytes), aligned(slotBytes+64)
	require.NoError(t, p.Lend(unsafe.Pointer(&a[0]), int64(len(a)), 7))
	require.NoError(t, p.Lend(unsafe.Pointer(&b[0]), int64(len(b)), 8))

	first := acquire(t, p)
	assert.EqualValues(t, 7, first.Tag())
	assert.Equal(t, unsafe.Pointer(&a[0]), first.Pointer())
	require.NoError(t, first.Populate(0, first.Bytes()))
	second := hold(t, p)
	assert.EqualValues(t, 8, second.Tag())
	assert.EqualValues(t, slotBytes+64, second.Bytes())
	own := acquire(t, p)
	assert.EqualValues(t, Own, own.Tag())

	// Memory that was abandoned has not been delivered, so its loan goes on. A release ends it.
	require.NoError(t, first.Abandon())
	again := hold(t, p)
	assert.EqualValues(t, 7, again.Tag())
	require.NoError(t, again.Release())
	require.NoError(t, second.Release())
	assert.Zero(t, p.Stats().Lent)
	require.NoError(t, p.Lend(unsafe.Pointer(&a[0]), int64(len(a)), 7), "the same memory again, after its release")
	require.NoError(t, own.Abandon())
}

func TestMemoryThatCannotBeLentIsRefusedWithTheReason(t *testing.T) {
	p := newPool(t, Options{})
	a := aligned(slotBytes + 4096)
	at := func(offset int) unsafe.Pointer { return unsafe.Pointer(&a[offset]) }
	require.NoError(t, p.Lend(at(0), slotBytes, 1))
	for name, err := range map[string]error{
		"nil":        p.Lend(nil, slotBytes, 2),
		"misaligned": p.Lend(at(8), slotBytes, 2),
		"too small":  p.Lend(unsafe.Pointer(&aligned(slotBytes)[0]), slotBytes-1, 2),
		"negative":   p.Lend(at(0), slotBytes, -1),
		"same tag":   p.Lend(unsafe.Pointer(&aligned(slotBytes)[0]), slotBytes, 1),
		"overlap":    p.Lend(at(64), slotBytes, 2),
		"same":       p.Lend(at(0), slotBytes, 2),
		"wraps":      p.Lend(at(0), 1<<63-1, 2),
	} {
		assert.ErrorIs(t, err, ErrLoan, name)
	}
	assert.Equal(t, 1, p.Stats().Lent)
}

func TestClosingAPoolEndsItsLoans(t *testing.T) {
	p := newPool(t, Options{})
	a, b := aligned(slotBytes), aligned(slotBytes)
	require.NoError(t, p.Lend(unsafe.Pointer(&a[0]), slotBytes, 1))
	inUse := hold(t, p)
	require.NoError(t, p.Lend(unsafe.Pointer(&b[0]), slotBytes, 2))
	p.Close()
	assert.Equal(t, 1, p.Stats().Lent, "only the one in use is left")
	inUse.slice()[0] = 1
	require.NoError(t, inUse.Release())
	assert.Zero(t, p.Stats().Lent)
}
