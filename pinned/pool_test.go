package pinned

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASlotIsWritableZeroedAndOfTheSizeAskedFor(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		s := acquire(t, newPool(t, o))
		assert.EqualValues(t, slotBytes, s.Bytes())
		assert.EqualValues(t, Own, s.Tag())
		assert.Zero(t, uintptr(s.Pointer())%Alignment)
		assert.Equal(t, slotBytes, bytes.Count(s.slice(), []byte{0}))
		for i := range s.slice() {
			s.slice()[i] = byte(i)
		}
		require.NoError(t, s.Abandon())
	})
}

func TestAHeldSlotIsNeverGivenOutAgain(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		p := newPool(t, o)
		var held []*Slot
		seen := map[unsafe.Pointer]bool{}
		for i := range 20 {
			s := hold(t, p)
			assert.False(t, seen[s.Pointer()], "slot %d", i)
			seen[s.Pointer()] = true
			s.slice()[0] = byte(i)
			held = append(held, s)
		}
		for i, s := range held {
			assert.EqualValues(t, i, s.slice()[0])
			require.NoError(t, s.Release())
		}
	})
}

func TestReleasedSlotsAreReusedAndThoseBeyondKeepAreUnmapped(t *testing.T) {
	p := newPool(t, Options{Keep: 3})
	before := countSlotMaps(t)
	var held []*Slot
	for range 10 {
		held = append(held, hold(t, p))
	}
	assert.Equal(t, before+10, countSlotMaps(t))
	for _, s := range held {
		require.NoError(t, s.Release())
	}
	assert.Equal(t, before+3, countSlotMaps(t))
	assert.Equal(t, Stats{Free: 3, OwnBytes: 3 * slotBytes, Made: 10, Unmapped: 7}, p.Stats())
	for range 1000 {
		require.NoError(t, hold(t, p).Release())
	}
	assert.EqualValues(t, 10, p.Stats().Made, "steady state makes no slot")
}

func TestReleasingASlotTwiceIsAnErrorAndLeavesTheNextSlotAlone(t *testing.T) {
	p := newPool(t, Options{Keep: 1})
	old := hold(t, p)
	require.NoError(t, old.Release())
	tenant := hold(t, p)
	require.Equal(t, old.Pointer(), tenant.Pointer(), "the same memory")
	for _, step := range []func() error{old.Ready, old.Hold, old.Release, old.Abandon} {
		err := refused(step)
		var e *StateError
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, ErrState)
		assert.True(t, e.Stale)
	}
	assert.Equal(t, Free, old.State())
	assert.Equal(t, Held, tenant.State())
	require.NoError(t, tenant.Release())
}

// refused runs a wrong step in either build: the debug build panics with the same error.
func refused(step func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	return step()
}

func TestCloseUnmapsFreeSlotsAtOnceAndHeldOnesAtTheirRelease(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		p := newPool(t, o)
		held, free, filling, ready := hold(t, p), hold(t, p), acquire(t, p), acquire(t, p)
		require.NoError(t, ready.Ready())
		require.NoError(t, free.Release())
		held.slice()[slotBytes-1] = 9
		p.Close()
		assert.Equal(t, []bool{true, false, true, true}, areMapped(held, free, filling, ready))
		assert.EqualValues(t, 9, held.slice()[slotBytes-1])
		_, err := p.Acquire()
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, p.Lend(unsafe.Pointer(&aligned(slotBytes)[0]), slotBytes, 1), ErrClosed)
		require.NoError(t, filling.Abandon())
		require.NoError(t, ready.Abandon())
		require.NoError(t, held.Release())
		assert.ErrorIs(t, refused(held.Release), ErrState)
		assert.Equal(t, []bool{false, false, false, false}, areMapped(held, free, filling, ready))
	})
}

func TestAcquireRacingWithCloseLeavesNoSlotBehind(t *testing.T) {
	for range 100 {
		p := newPool(t, Options{Keep: 1})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				s, err := p.Acquire()
				if err != nil {
					assert.ErrorIs(t, err, ErrClosed)
					return
				}
				assert.NoError(t, s.Abandon())
			})
		}
		p.Close()
		group.Wait()
	}
}

func TestImpossibleOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {SlotBytes: -1}, {SlotBytes: math.MaxInt64}, {SlotBytes: 1, Keep: -1}} {
		_, err := NewPool(o)
		assert.Error(t, err, "%+v", o)
	}
}

func TestManyThreadsNeverShareASlot(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		o.SlotBytes = 4096
		p := newPool(t, o)
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				var kept []*Slot
				for i := range 500 {
					s, err := p.Acquire()
					if !assert.NoError(t, err) {
						return
					}
					for j := range s.slice() {
						s.slice()[j] = byte(g)
					}
					if i%7 == 0 {
						assert.NoError(t, s.Abandon())
						continue
					}
					assert.NoError(t, errors.Join(s.Ready(), s.Hold()))
					if kept = append(kept, s); len(kept) > i%5 {
						for _, b := range kept[0].slice() {
							if b != byte(g) {
								t.Errorf("thread %d reads %d", g, b)
								return
							}
						}
						assert.NoError(t, kept[0].Release())
						kept = kept[1:]
					}
				}
				for _, s := range kept {
					assert.NoError(t, s.Release())
				}
			})
		}
		group.Wait()
	})
}
