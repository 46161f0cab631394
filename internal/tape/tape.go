// Package tape reads an object of a store from front to back, for readers that make many small reads, some of them at
// once. It reads pieces, and asks for the next ones before they are needed. It knows nothing of what the bytes mean.
package tape

import (
	"context"
	"io"
	"sync"

	"github.com/headrace/headrace/internal/fault"
)

const (
	// One request costs tens of milliseconds whatever its length, so pieces are long. They are not longer, because a
	// container of few samples should not be fetched whole for the sake of its head.
	pieceBytes = 4 << 20
	mostAhead  = 8 // pieces that are asked for after the one being read
	// mostHeld bounds the pieces in memory, including those on their way: 64 MiB. That is one reader's piece with
	// everything asked for ahead, and as many pieces behind it. More may be held for a while, because a piece on its
	// way cannot be dropped.
	mostHeld = 16
)

// Source is an object of a store.
type Source interface {
	Size() int64
	ReadAt(ctx context.Context, to []byte, offset int64) error
}

// Tape is an object that is being read. Several goroutines may use it; their places should lie close together.
type Tape struct {
	ctx    context.Context
	cancel context.CancelFunc
	source Source

	mu      sync.Mutex
	pieces  map[int64]*piece // by their number: piece n begins at byte n*pieceBytes
	clock   int64            // counts uses: no time of day decides what is dropped
	running sync.WaitGroup
}

type piece struct {
	done      chan struct{} // closed when data and err are there
	data      []byte
	err       error
	used      int64 // the clock at its last use
	forgotten bool  // it was on its way when the tape was told to forget, and was not asked for since
}

// New returns a Tape that has read nothing yet. Later reads end with the context, or with Close.
func New(ctx context.Context, source Source) *Tape {
	t := &Tape{source: source, pieces: make(map[int64]*piece)}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// Close ends all reads and waits for them: their goroutines use the source, which the caller may close next.
func (t *Tape) Close() error {
	t.cancel()
	t.running.Wait()
	return nil
}

// Forget drops what is in memory, and later what is on its way. A reader that continues fetches it again.
func (t *Tape) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pieces) > 0 && t.drop() {
	}
	for _, p := range t.pieces {
		p.forgotten = true
	}
}

// ReadAt implements io.ReaderAt.
func (t *Tape) ReadAt(to []byte, offset int64) (int, error) {
	size := t.source.Size()
	if offset < 0 || offset > size {
		return 0, io.EOF
	}
	done := 0
	for done < len(to) {
		at := offset + int64(done)
		if at >= size {
			return done, io.EOF
		}
		p := t.get(at / pieceBytes)
		select {
		case <-p.done:
		case <-t.ctx.Done():
			return done, t.ctx.Err()
		}
		if p.err != nil {
			return done, p.err
		}
		done += copy(to[done:], p.data[at%pieceBytes:])
	}
	return done, nil
}

// get returns a piece, and asks for it if needed. A reader that has read the piece before it reads from front to back,
// so the pieces after it are asked for, too. A single look elsewhere, as at a footer, fetches one piece.
func (t *Tape) get(number int64) *piece {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.begin(number)
	if t.pieces[number-1] != nil {
		last := (t.source.Size() - 1) / pieceBytes
		for n := number + 1; n <= min(number+mostAhead, last); n++ {
			t.begin(n)
		}
	}
	return p
}

// begin asks for a piece and notes a use of it. The lock is held. A piece that failed is asked for again.
func (t *Tape) begin(number int64) *piece {
	// Being needed ahead counts as a use. By the time of its request a piece is older than all after it, and would be
	// dropped just before it is read.
	t.clock++
	if p := t.pieces[number]; p != nil && !p.failed() {
		p.used, p.forgotten = t.clock, false
		return p
	}
	for len(t.pieces) >= mostHeld && t.drop() {
	}
	p := &piece{done: make(chan struct{}), used: t.clock}
	t.pieces[number] = p
	t.running.Go(func() {
		defer t.arrived(number, p)
		defer fault.Recover(&p.err)
		data := make([]byte, min(pieceBytes, t.source.Size()-number*pieceBytes))
		if p.err = t.source.ReadAt(t.ctx, data, number*pieceBytes); p.err == nil {
			p.data = data
		}
	})
	return p
}

// arrived ends a piece's request. A piece that was forgotten meanwhile is dropped here, because a tape that is not read
// asks for no further pieces, so nothing else would drop it. A reader that waits for the piece has it.
func (t *Tape) arrived(number int64, p *piece) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(p.done)
	if p.forgotten && t.pieces[number] == p {
		delete(t.pieces, number)
	}
}

func (p *piece) failed() bool {
	select {
	case <-p.done:
		return p.err != nil
	default:
		return false
	}
}

// drop forgets the piece that was not used for the longest time, among those that are there; it returns false if there
// is none. A piece on its way stays, because its memory is not free before its request ends. Readers that hold a
// dropped piece keep it.
func (t *Tape) drop() bool {
	oldest := int64(-1)
	for number, p := range t.pieces {
		select {
		case <-p.done:
			if oldest < 0 || p.used < t.pieces[oldest].used {
				oldest = number
			}
		default:
		}
	}
	if oldest < 0 {
		return false
	}
	delete(t.pieces, oldest)
	return true
}
