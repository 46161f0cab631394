package pack

import (
	"bytes"
	"context"
	"io"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
)

// Together these limit what one source, or one thread of verify, requests in advance.
const (
	// So many single objects of a store are requested at a time, with so many bytes together, because a request mostly
	// waits.
	filesAhead = 64
	bytesAhead = 64 << 20
)

// ahead is an object of a store that was requested before it is needed.
// One goroutine sets data and err and closes done; they may be read only after that. Folders that are packed or indexed
// use it (folderaway.go), and so does verify (verifyaway.go).
type ahead struct {
	ctx   context.Context
	size  int64
	fetch func(to []byte, offset int64) error // reads a range of the object
	done  chan struct{}                       // closed when data and err are set; nil if the object is not held in memory
	data  []byte                              // nil if there is no memory for it
	err   error
}

// askFor requests an object of size bytes, unless it is so large that it will be read in pieces when it is needed.
// The context is the source's, so that the end of the job ends the request.
func askFor(ctx context.Context, size int64, fetch func(to []byte, offset int64) error) *ahead {
	a := &ahead{ctx: ctx, size: size, fetch: fetch}
	// One such object would take more memory than all of them may take together.
	if size > bytesAhead {
		return a
	}
	a.done = make(chan struct{})
	// A lack of memory is an error of this object alone; the caller decides whether the job goes on without it.
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
// It returns at once for an object that is read in pieces.
func (a *ahead) wait() {
	if a.done != nil {
		<-a.done
	}
}

// forget drops the bytes that are held, so that ReadAt fetches them again.
func (a *ahead) forget() {
	a.wait()
	a.done, a.data = nil, nil
}

// ReadAt implements io.ReaderAt, with the bytes that are held or from the store.
// If the request failed, it requests the piece again and returns that answer.
func (a *ahead) ReadAt(to []byte, offset int64) (int, error) {
	if a.wait(); a.done != nil && a.err == nil {
		return bytes.NewReader(a.data).ReadAt(to, offset)
	}
	// io.ReaderAt requires io.EOF with fewer bytes than were asked for.
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
