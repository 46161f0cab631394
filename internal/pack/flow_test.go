package pack

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

func TestAFlowThatFailsWhileItsThreadsWaitForMemoryEnds(t *testing.T) {
	checkNoLeaks(t)
	root := t.TempDir()
	for i := range 20 {
		put(t, root, fmt.Sprintf("c/%02d.jpg", i), testJPEG(uint64(i)))
	}
	list, err := openFolder(root, false, nil)
	require.NoError(t, err)
	f := newFlow(list, Options{Threads: 4}, false, NewTracker())
	f.room = newBudget(1) // the first record gets memory, all others wait
	full := errors.New("the disk is full")
	ended := make(chan error, 1)
	go func() {
		ended <- f.run(context.Background(), func(*record) error {
			time.Sleep(100 * time.Millisecond) // meanwhile the other threads read their records
			return full
		})
	}()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, full)
	case <-time.After(20 * time.Second):
		t.Fatal("the flow waits for its threads, which wait for memory")
	}
}

// brokenSource is a source with a bug.
type brokenSource struct{ source }

func (brokenSource) next(*item) (bool, error) { panic("out of range") }

func (brokenSource) fields() []catalog.Field { return nil }

func TestAPanicInASourceIsAnErrorOfTheFlow(t *testing.T) {
	checkNoLeaks(t)
	f := newFlow(brokenSource{}, Options{Threads: 2}, false, NewTracker())
	err := f.run(context.Background(), func(*record) error { return nil })
	require.ErrorContains(t, err, "panic: out of range")
	require.Equal(t, fault.KindInternal, fault.KindOf(err))
}
