package tape

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stored is an object in memory that counts the requests for it.
type stored struct {
	content  []byte
	requests atomic.Int64
	fails    atomic.Bool
}

func (s *stored) Size() int64 { return int64(len(s.content)) }

func (s *stored) ReadAt(ctx context.Context, to []byte, offset int64) error {
	s.requests.Add(1)
	if s.fails.Swap(false) {
		return errors.New("once")
	}
	copy(to, s.content[offset:])
	return ctx.Err()
}

func object(size int) *stored {
	content := make([]byte, size)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	return &stored{content: content}
}

func TestSmallReadsInOrderByAnyReadersFetchEachByteOnce(t *testing.T) {
	s := object(11*pieceBytes + 77)
	tape := New(t.Context(), s)
	defer tape.Close()
	var next atomic.Int64
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				at := next.Add(100_000) - 100_000
				if at >= s.Size() {
					return
				}
				to := make([]byte, min(100_000, s.Size()-at))
				n, err := tape.ReadAt(to, at)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(to[:n], s.content[at:at+int64(len(to))]))
			}
		})
	}
	readers.Wait()
	assert.Equal(t, int64(12), s.requests.Load())
}

func TestAnObjectOfMorePiecesThanAreHeldIsFetchedOnce(t *testing.T) {
	const pieces = 2*mostHeld + 3
	for _, step := range []int64{pieceBytes / 3, pieceBytes, 2 * pieceBytes} {
		s := &stored{content: make([]byte, pieces*pieceBytes)}
		tape := New(t.Context(), s)
		for at := int64(0); at < s.Size(); at += step {
			to := make([]byte, min(step, s.Size()-at))
			_, err := tape.ReadAt(to, at)
			require.NoError(t, err)
		}
		require.NoError(t, tape.Close())
		assert.Equal(t, int64(pieces), s.requests.Load(), "in steps of %d bytes", step)
	}
}

func TestReadsAcrossPiecesAndBeyondTheEndAreAsThoseOfAFile(t *testing.T) {
	s := object(2*pieceBytes + 5)
	tape := New(t.Context(), s)
	defer tape.Close()
	file := bytes.NewReader(s.content)
	for _, at := range []int64{0, pieceBytes - 3, 2*pieceBytes - 1, s.Size() - 2, s.Size(), s.Size() + 1} {
		for _, length := range []int{0, 2, pieceBytes + 9} {
			mine, theirs := make([]byte, length), make([]byte, length)
			n, err := tape.ReadAt(mine, at)
			want, wrong := file.ReadAt(theirs, at)
			if length == 0 { // a bytes.Reader says io.EOF there, a file does not
				continue
			}
			assert.Equal(t, want, n)
			assert.Equal(t, wrong == io.EOF, err == io.EOF)
			assert.True(t, bytes.Equal(theirs, mine))
		}
	}
}

func TestAPieceThatFailedIsRequestedAgainAndMemoryIsBounded(t *testing.T) {
	s := object(40 * pieceBytes)
	tape := New(t.Context(), s)
	defer tape.Close()
	s.fails.Store(true)
	to := make([]byte, 10)
	_, err := tape.ReadAt(to, 0)
	require.EqualError(t, err, "once")
	for at := int64(0); at < s.Size(); at += pieceBytes {
		_, err = tape.ReadAt(to, at)
		require.NoError(t, err)
		tape.mu.Lock()
		assert.LessOrEqual(t, len(tape.pieces), mostHeld)
		tape.mu.Unlock()
	}
}

func TestACancelledContextEndsAReadThatWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tape := New(ctx, endless{})
	defer tape.Close()
	failed := make(chan error)
	go func() {
		_, err := tape.ReadAt(make([]byte, 1), 0)
		failed <- err
	}()
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
}

// gated is an object that answers only once its gate is closed or receives.
type gated struct {
	*stored
	gate chan struct{}
}

func (g *gated) ReadAt(ctx context.Context, to []byte, offset int64) error {
	if offset > 0 {
		<-g.gate
	}
	return g.stored.ReadAt(ctx, to, offset)
}

func TestForgetDropsPiecesThatAreStillBeingFetched(t *testing.T) {
	g := &gated{object(20 * pieceBytes), make(chan struct{})}
	tape := New(t.Context(), g)
	defer tape.Close()
	held := func() int {
		tape.mu.Lock()
		defer tape.mu.Unlock()
		return len(tape.pieces)
	}
	to, got := make([]byte, 10), make(chan error)
	_, err := tape.ReadAt(to, 0)
	require.NoError(t, err)
	go func() {
		_, err := tape.ReadAt(to, pieceBytes)
		got <- err
	}()
	require.Eventually(t, func() bool { return held() == 2+mostAhead }, 10*time.Second, time.Millisecond)
	tape.Forget()
	close(g.gate)
	require.NoError(t, <-got, "who waits for a piece gets it")
	assert.Equal(t, g.content[pieceBytes:pieceBytes+10], to)
	tape.running.Wait()
	assert.Zero(t, held())
	_, err = tape.ReadAt(to, 2*pieceBytes)
	require.NoError(t, err)
	assert.Equal(t, 1, held(), "the piece that is read next is kept")
}

func TestAPieceThatIsRequestedAgainAfterForgetIsKept(t *testing.T) {
	g := &gated{object(3 * pieceBytes), make(chan struct{})}
	tape := New(t.Context(), g)
	defer tape.Close()
	tape.get(1)
	tape.Forget()
	p := tape.get(1)
	close(g.gate)
	<-p.done
	_, err := tape.ReadAt(make([]byte, 10), pieceBytes)
	require.NoError(t, err)
	assert.Equal(t, int64(1), g.requests.Load())
}

type endless struct{}

func (endless) Size() int64 { return 1 << 30 }

func (endless) ReadAt(ctx context.Context, _ []byte, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}
