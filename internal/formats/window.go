package formats

import (
	"fmt"
	"io"
)

// Window reads ahead of a walker that goes through a container's headers, which are small and lie close
// together or far apart. Behind a long hop it asks for one page, where headers follow each other for up
// to 256 KiB, so that a small sample costs no call of its own and a large one no bytes of its content.
type Window struct {
	r     io.ReaderAt
	at    int64 // of held
	held  []byte
	space []byte
	want  int // what the next read asks for
}

const (
	leastWindow = 4 << 10
	mostWindow  = 256 << 10
)

// NewWindow reads from r. It is for one goroutine.
func NewWindow(r io.ReaderAt) *Window { return &Window{r: r, want: leastWindow} }

// ReadAt is io.ReaderAt's.
func (w *Window) ReadAt(b []byte, at int64) (int, error) {
	if inside := at - w.at; inside >= 0 && inside <= int64(len(w.held)) && int64(len(w.held))-inside >= int64(len(b)) {
		return copy(b, w.held[inside:]), nil
	}
	// To read ahead of so much would only copy it.
	if len(b) >= mostWindow {
		return w.r.ReadAt(b, at)
	}
	// A step over no more than what was held goes on in sequence; anything else is a hop.
	if gap := at - w.at - int64(len(w.held)); gap > int64(len(w.held)) || at < w.at {
		w.want = leastWindow
	} else {
		w.want = min(2*w.want, mostWindow)
	}
	size := max(w.want, len(b))
	// Memory grows with what is wanted: thousands of small containers are walked with a page each.
	if cap(w.space) < size {
		w.space = make([]byte, size)
	}
	n, err := w.r.ReadAt(w.space[:size], at)
	w.at, w.held = at, w.space[:n]
	// At the end of a file less comes than was asked for ahead, which is enough all the same.
	if n >= len(b) {
		return copy(b, w.held), nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return copy(b, w.held), err
}

// readAt fills b. The size was known before, so a short read means that the file has changed.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the file was cut while it was read", ErrTruncated)
	}
	return err
}
