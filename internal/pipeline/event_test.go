package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
)

func TestTheEventIsNotReadableBeforeTheFirstBatchIsReady(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order.Config{BatchSize: 8},
		Config{Threads: 1, ReadAhead: 1, Store: mmap.Options{ReadDelay: 100 * time.Millisecond}}})
	fd, err := l.EventFD()
	require.NoError(t, err)
	// Eight samples are read one after the other, so the batch takes 800 ms.
	require.False(t, readable(t, fd, 0))
	_, err = l.Next(0)
	require.ErrorIs(t, err, ErrTimeout)
	require.True(t, readable(t, fd, waitLong))
	b, err := l.Next(0)
	require.NoError(t, err)
	require.NoError(t, b.Release())
}

func TestAnErrorKeepsTheEventReadableUntilSeek(t *testing.T) {
	l := open(t, faulty(t), settings{order.Config{BatchSize: 4}, Config{Threads: 2, VerifyCRC: true, Position: 16}})
	fd, err := l.EventFD()
	require.NoError(t, err)
	for range 3 {
		require.True(t, readable(t, fd, waitLong))
		_, err := l.Next(0)
		var fault *SampleError
		require.ErrorAs(t, err, &fault)
	}
	require.NoError(t, l.SeekTo(0, 20))
	require.True(t, readable(t, fd, waitLong))
	b, err := l.Next(0)
	require.NoError(t, err)
	require.NoError(t, b.Release())
}
