package trace

import (
	"sync"
	"sync/atomic"
)

// Current holds the trace under way of the type that embeds it, if there is one.
type Current struct {
	changing sync.Mutex // held while one begins or ends
	now      atomic.Pointer[Trace]
}

// BeginTrace writes everything from now on to a file, until EndTrace. It returns the file's name: path, or path with a
// number. A trace that was under way ends. refused is called while no trace can begin or end, and says why none may
// begin.
func (c *Current) BeginTrace(path string, workers int, counts func() Counts, refused func() error) (string, error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	if err := refused(); err != nil {
		return "", err
	}
	if err := c.end(); err != nil {
		return "", err
	}
	t, err := Open(path, workers, counts)
	if err != nil {
		return "", err
	}
	c.now.Store(t)
	return t.Path(), nil
}

// EndTrace completes the file. It returns the first error of writing; nil if there is no trace.
func (c *Current) EndTrace() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.end()
}

func (c *Current) end() error {
	t := c.now.Swap(nil)
	if t == nil {
		return nil
	}
	return t.Close()
}

// Traced returns the trace under way, or nil.
func (c *Current) Traced() *Trace { return c.now.Load() }

// TracePath returns the file of the trace under way, or "".
func (c *Current) TracePath() string {
	if t := c.now.Load(); t != nil {
		return t.Path()
	}
	return ""
}

// Span notes what a thread of the program did with a batch; without a trace it does nothing.
func (c *Current) Span(thread int, e Event) {
	if t := c.now.Load(); t != nil {
		t.Span(thread, e)
	}
}
