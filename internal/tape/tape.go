// Package tape reads an object of a store from front to back for readers that make many small reads, some of
// them at once: in pieces, of which the next ones are asked for before they are wanted. It knows nothing of what
// the bytes mean.
package tape

import (
	"context"
	"io"
	"sync"

	"github.com/headrace/headrace/internal/fault"
)

const (
	// One request costs tens of milliseconds whatever its length, so pieces are long; a container of few samples is
	// not to be fetched whole for the sake of its head, so they are not longer.
	pieceBytes = 4 << 20
	mostAhead  = 8 // pieces asked for behind the one that is read
	// Pieces in memory, those on their way included: 64 MiB. That is one reader's with all that is asked
	// for ahead, and as many behind it. More may be held for a while, for a piece that is on its way cannot be dropped.
	mostHeld = 16
)

// Source is an object of a store.
type Source interface {
	Size() int64
	ReadAt(ctx context.Context, to []byte, offset int64) error
}

// Tape is an object that is read. It may be used by several goroutines, whose places should lie close together.
type Tape struct {
	ctx    context.Context
	cancel context.CancelFunc
	source Source

	mu      sync.Mutex
	pieces  map[int64]*piece // by their number: piece n begins at byte n*pieceBytes
	clock   int64            // one more for each use: no time of day decides what is dropped
	running sync.WaitGroup
}

type piece struct {
	done      chan struct{} // closed when data and err are there
	data      []byte
	err       error
	used      int64 // by the clock
	forgotten bool  // on its way when the tape was told to forget, and asked for by nobody since
}

// New begins to read nothing yet. What is read later ends with the context, or with Close.
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

// Forget lets go of what is in memory, and of what is on its way when it comes. Who reads on fetches it anew.
func (t *Tape) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pieces) > 0 && t.drop() {
	}
	for _, p := range t.pieces {
		p.forgotten = true
	}
}

// ReadAt is io.ReaderAt's.
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

// get is a piece that was asked for, now or before. Who has read the piece before it goes from front to back, so
// those behind it are asked for, too; a single look elsewhere, as at a footer, fetches one piece.
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

// begin asks for a piece and notes a use of it, with the lock held. A piece that failed is asked for anew.
func (t *Tape) begin(number int64) *piece {
	// To be wanted ahead is a use. By the time at which it was asked for a piece is older than all behind it, and
	// would be dropped just before it is read.
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

// arrived ends a piece's request. One that was forgotten meanwhile goes: nobody would drop it, for a tape that is not read
// asks for no further ones. Who waits for it has it.
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

// drop forgets the piece that was not used for the longest time, of those that are there; false where none is. One
// on its way stays: its memory is not free before its request ends. Readers that hold a dropped piece keep it.
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
