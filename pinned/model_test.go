package pinned

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The table of doc.go, written a second time and as plainly as possible: the test walks through
// every state that three tenancies, one loan and Close can reach, and tries every step in each.
type model struct {
	slots  []tenancy // in the order of Acquire
	free   int       // own memory that is free
	own    int       // own memory there is
	loan   loan
	closed bool
}

type tenancy struct {
	state State
	lent  bool
	over  bool
}

type loan uint8

const (
	notLent loan = iota
	lentFree
	lentInUse
)

const (
	modelKeep    = 1
	modelSlots   = 3
	modelTag     = 5
	modelSlotLen = 4096
)

// operation is one call; slot is -1 for calls on the pool.
type operation struct {
	name string
	slot int
}

func (m model) operations() []operation {
	all := []operation{{"close", -1}, {"lend", -1}}
	if len(m.slots) < modelSlots {
		all = append(all, operation{"acquire", -1})
	}
	for i := range m.slots {
		for _, name := range []string{"ready", "hold", "release", "abandon"} {
			all = append(all, operation{name, i})
		}
	}
	return all
}

// step says what must follow from an operation.
func (m model) step(o operation) (after model, fails error) {
	after = m
	after.slots = slices.Clone(m.slots)
	switch o.name {
	case "close":
		after.closed, after.own, after.free = true, m.own-m.free, 0
		if m.loan == lentFree {
			after.loan = notLent
		}
		return after, nil
	case "lend":
		switch {
		case m.closed:
			return m, ErrClosed
		case m.loan != notLent:
			return m, ErrLoan
		}
		after.loan = lentFree
		return after, nil
	case "acquire":
		switch {
		case m.closed:
			return m, ErrClosed
		case m.loan == lentFree:
			after.loan = lentInUse
		case m.free > 0:
			after.free--
		default:
			after.own++
		}
		after.slots = append(after.slots, tenancy{state: Filling, lent: m.loan == lentFree})
		return after, nil
	}
	s := &after.slots[o.slot]
	switch {
	case s.over:
		return m, ErrState
	case o.name == "ready" && s.state == Filling:
		s.state = Ready
	case o.name == "hold" && s.state == Ready:
		s.state = Held
	case o.name == "release" && s.state == Held, o.name == "abandon" && s.state != Held:
		s.over, s.state = true, Free
		switch {
		case s.lent && (o.name == "release" || m.closed):
			after.loan = notLent
		case s.lent:
			after.loan = lentFree
		case m.closed || m.free == modelKeep:
			after.own--
		default:
			after.free++
		}
	default:
		return m, ErrState
	}
	return after, nil
}

// replay performs a path of operations on a new pool and compares what the last one does.
func replay(t *testing.T, path []operation, lent []byte, before, after model, want error) {
	t.Helper()
	p, err := NewPool(Options{SlotBytes: modelSlotLen, Keep: modelKeep})
	require.NoError(t, err)
	var slots []*Slot
	for i, o := range path {
		err = refused(func() error { return perform(p, &slots, o, lent) })
		if i < len(path)-1 && err != nil && !errors.Is(err, ErrState) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrLoan) {
			t.Fatalf("%v: %v", path, err)
		}
	}
	require.ErrorIs(t, err, want, "%v", path)
	if want != nil {
		after = before
	}
	counted := Stats{Free: after.free, OwnBytes: int64(after.own) * modelSlotLen}
	if after.loan != notLent {
		counted.Lent, counted.LentBytes = 1, modelSlotLen
	}
	if after.loan == lentFree {
		counted.Free++
	}
	places := map[unsafe.Pointer]bool{}
	for i, s := range after.slots {
		require.Equal(t, s.state, slots[i].State(), "%v: slot %d", path, i)
		switch s.state {
		case Filling:
			counted.Filling++
		case Ready:
			counted.Ready++
		case Held:
			counted.Held++
		}
		if !s.over {
			require.False(t, places[slots[i].Pointer()], "%v: two batches in one place", path)
			places[slots[i].Pointer()] = true
			require.Equal(t, s.lent, slots[i].Tag() == modelTag, "%v: slot %d", path, i)
		}
	}
	found := p.Stats()
	found.Made, found.Unmapped = 0, 0
	require.Equal(t, counted, found, "%v", path)
	p.Close()
	for _, s := range slots {
		if s.State() == Held {
			require.NoError(t, s.Release())
		} else if s.State() != Free {
			require.NoError(t, s.Abandon())
		}
	}
}

func perform(p *Pool, slots *[]*Slot, o operation, lent []byte) error {
	switch o.name {
	case "close":
		p.Close()
		return nil
	case "lend":
		return p.Lend(unsafe.Pointer(&lent[0]), int64(len(lent)), modelTag)
	case "acquire":
		s, err := p.Acquire()
		if err == nil {
			*slots = append(*slots, s)
		}
		return err
	}
	s := (*slots)[o.slot]
	return map[string]func() error{"ready": s.Ready, "hold": s.Hold, "release": s.Release, "abandon": s.Abandon}[o.name]()
}

func TestEveryOperationInEveryStateDoesWhatTheTableOfStatesSays(t *testing.T) {
	mapped, descriptors := countSlotMaps(t), countDescriptors(t)
	type node struct {
		state model
		path  []operation
	}
	lent := aligned(modelSlotLen)
	seen := map[string]bool{}
	steps := 0
	for queue := []node{{}}; len(queue) > 0; queue = queue[1:] {
		for _, o := range queue[0].state.operations() {
			after, want := queue[0].state.step(o)
			path := append(slices.Clone(queue[0].path), o)
			replay(t, path, lent, queue[0].state, after, want)
			steps++
			if name := fmt.Sprint(after); want == nil && !seen[name] {
				seen[name] = true
				queue = append(queue, node{after, path})
			}
		}
	}
	t.Logf("%d states, %d steps", len(seen), steps)
	require.Greater(t, len(seen), 500)
	require.Equal(t, mapped, countSlotMaps(t))
	require.Equal(t, descriptors, countDescriptors(t))
	require.NotContains(t, strings.Join(slices.Collect(maps.Keys(seen)), ""), "-", "no count is ever negative")
}
