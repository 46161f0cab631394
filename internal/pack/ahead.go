package pack

import (
	"bytes"
	"context"
	"io"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
)

// Together they bound what one source or one thread of verify asks for before its turn.
const (
	// Single objects of a store are asked for so many at a time, of so many bytes together: a request waits most
	// of the time.
	filesAhead = 64
	bytesAhead = 64 << 20
)

// ahead is an object of a store that was asked for before its turn.
// One goroutine fills data and err and closes done; whoever waits for that reads them afterwards. It is used twice: by
// a folder that is packed or indexed (folderaway.go), and by verify (verifyaway.go).
type ahead struct {
	ctx   context.Context
	size  int64
	fetch func(to []byte, offset int64) error // a range of it
	done  chan struct{}                       // closed when data and err are there; nil of one that is not held in memory
	data  []byte                              // nil where there is no memory for it
	err   error
}

// askFor sends the request for an object of so many bytes, unless it is to be read in pieces when its turn comes.
// The context is the source's: where the job ends, what is under way ends with it.
func askFor(ctx context.Context, size int64, fetch func(to []byte, offset int64) error) *ahead {
	a := &ahead{ctx: ctx, size: size, fetch: fetch}
	// A copy of it in memory would be more than all of them may have together.
	if size > bytesAhead {
		return a
	}
	a.done = make(chan struct{})
	// Memory that is short is an error of this object alone; the caller decides whether the job goes on without it.
	if a.err = headroom.Memory(size); a.err != nil {
		close(a.done)
		return a
	}
	a.data = make([]byte, size)
	go func() {
		defer close(a.done)
		defer fault.Recover(&a.err)
		a.err = fetch(a.data, 0)
	}()
	return a
}

// wait returns when the request has been answered.
// An object that is read in pieces has nothing to wait for.
func (a *ahead) wait() {
	if a.done != nil {
		<-a.done
	}
}

// forget lets go of what is held, so that ReadAt fetches it anew.
func (a *ahead) forget() {
	a.wait()
	a.done, a.data = nil, nil
}

// ReadAt is io.ReaderAt's, of the bytes that are held or of the object.
// Of an object that was answered with an error it asks once more, piece by piece, and gives that answer.
func (a *ahead) ReadAt(to []byte, offset int64) (int, error) {
	if a.wait(); a.done != nil && a.err == nil {
		return bytes.NewReader(a.data).ReadAt(to, offset)
	}
	// As io.ReaderAt has it: fewer bytes than were asked for come with io.EOF.
	n := min(int64(len(to)), a.size-offset)
	if offset < 0 || n < 0 {
		return 0, io.EOF
	}
	if err := a.fetch(to[:n], offset); err != nil {
		return 0, err
	}
	if n < int64(len(to)) {
		return int(n), io.EOF
	}
	return int(n), nil
}
