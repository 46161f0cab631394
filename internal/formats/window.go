package formats

import (
	"fmt"
	"io"
)

// Window reads ahead for a walker that goes through a container's headers, which are small and may be close together or
// far apart. After a long jump it reads one page; if headers follow each other, it reads up to 256 KiB. So a small
// sample needs no call of its own, and of a large one no content is read.
type Window struct {
	r     io.ReaderAt
	at    int64 // place of held
	held  []byte
	space []byte
	want  int // size of the next read
}

const (
	leastWindow = 4 << 10
	mostWindow  = 256 << 10
)

// NewWindow reads from r. It is for one goroutine.
func NewWindow(r io.ReaderAt) *Window { return &Window{r: r, want: leastWindow} }

// ReadAt implements io.ReaderAt.
func (w *Window) ReadAt(b []byte, at int64) (int, error) {
	if inside := at - w.at; inside >= 0 && inside <= int64(len(w.held)) && int64(len(w.held))-inside >= int64(len(b)) {
		return copy(b, w.held[inside:]), nil
	}
	// Reading so much ahead would only copy it.
	if len(b) >= mostWindow {
		return w.r.ReadAt(b, at)
	}
	// A step that is no longer than what was held continues a sequence; anything else is a jump.
	if gap := at - w.at - int64(len(w.held)); gap > int64(len(w.held)) || at < w.at {
		w.want = leastWindow
	} else {
		w.want = min(2*w.want, mostWindow)
	}
	size := max(w.want, len(b))
	// The memory grows with the need, so that thousands of small containers are walked with a page each.
	if cap(w.space) < size {
		w.space = make([]byte, size)
	}
	n, err := w.r.ReadAt(w.space[:size], at)
	w.at, w.held = at, w.space[:n]
	// At the end of a file the read is shorter than asked for, which does not matter if b can be filled.
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
