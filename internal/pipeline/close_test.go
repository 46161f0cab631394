package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
)

func TestCloseWakesANextThatWaits(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order.Config{BatchSize: 8}, Config{Threads: 1, Store: mmap.Options{ReadDelay: 2 * time.Second}}})
	answer := make(chan error)
	go func() {
		_, err := l.Next(time.Minute)
		answer <- err
	}()
	time.Sleep(20 * time.Millisecond)
	go l.Close()
	select {
	case err := <-answer:
		require.ErrorIs(t, err, ErrClosed)
	case <-time.After(time.Second):
		t.Fatal("Next still waits")
	}
	_, err := l.Next(0)
	require.ErrorIs(t, err, ErrClosed)
}

func TestCloseAtAnyMomentEndsTheLoaderWithinASecond(t *testing.T) {
	d := dataset(t, 30, nil)
	for i := range 60 {
		delay := time.Duration(i%3) * 3 * time.Millisecond
		l := open(t, d, settings{order.Config{BatchSize: 3, Shuffle: true},
			Config{Threads: 1 + i%4, ReadAhead: 1 + i%20, Store: mmap.Options{ReadDelay: delay}}})
		time.Sleep(time.Duration(i) * 200 * time.Microsecond)
		began := time.Now()
		l.Close()
		require.Less(t, time.Since(began), time.Second)
	}
}

func TestNextKeepsItsTimeout(t *testing.T) {
	l := open(t, dataset(t, 4, nil), settings{order.Config{BatchSize: 4}, Config{Threads: 1, Store: mmap.Options{ReadDelay: 1500 * time.Millisecond}}})
	for _, timeout := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		best := time.Hour // the best of five, because on a busy machine any timer may be late
		for range 5 {
			began := time.Now()
			_, err := l.Next(timeout)
			require.ErrorIs(t, err, ErrTimeout)
			require.GreaterOrEqual(t, time.Since(began), timeout)
			best = min(best, time.Since(began))
		}
		require.Less(t, best, timeout+100*time.Millisecond)
	}
}

func TestTheDescriptorIsReadableExactlyWhenNextWouldReturn(t *testing.T) {
	l := open(t, dataset(t, 6, nil), settings{order.Config{BatchSize: 2}, Config{Threads: 2}})
	fd, err := l.EventFD()
	require.NoError(t, err)
	again, err := l.EventFD()
	require.NoError(t, err)
	require.Equal(t, fd, again)
	for answers := 0; answers < 40; {
		ready := readable(t, fd, 10*time.Second)
		require.True(t, ready)
		b, err := l.Next(0)
		require.NotErrorIs(t, err, ErrTimeout, "the descriptor was readable")
		answers++
		if b != nil {
			require.NoError(t, b.Release())
		}
		if !readable(t, fd, 0) {
			// It was not readable a moment ago. A batch may be ready now, but then the descriptor is readable.
			if b, err := l.Next(0); err == nil {
				require.NoError(t, b.Release())
			}
		}
	}
	closed := make(chan bool)
	require.NoError(t, l.SeekTo(0, 0))
	go func() { closed <- readable(t, fd, 10*time.Second) }()
	l.Close()
	require.True(t, <-closed)
	_, err = l.EventFD()
	require.ErrorIs(t, err, ErrClosed)
}

func readable(t *testing.T, fd int, timeout time.Duration) bool {
	t.Helper()
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set, int(timeout.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		return n == 1
	}
}

func TestCloseDoesNotWaitForAReadThatHangs(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order.Config{BatchSize: 8}, Config{Threads: 2, Store: mmap.Options{ReadDelay: 1500 * time.Millisecond}}})
	time.Sleep(10 * time.Millisecond)
	began := time.Now()
	l.Close()
	require.Less(t, time.Since(began), time.Second)
	<-l.gone // everything is still released when the read has ended
}
