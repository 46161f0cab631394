//go:build !headrace_nocloud

package remote

import (
	"context"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
)

// bucketUpload is an upload by a store's library. The library cuts the bytes into parts, sends several at once and
// joins them at Close. From then on the object is visible.
type bucketUpload struct {
	ctx     context.Context    // the caller's
	cancel  context.CancelFunc // ends the library's requests
	forget  func() bool        // the end of the caller's context then does nothing any more
	writer  *blob.Writer
	client  *client
	commits atomic.Bool // the commit has begun
	late    atomic.Bool // one of the waits took longer than the caller allows
	closed  bool        // the writer was closed
	failed  error       // the error of closing the writer
	// clear removes the parts of an upload that failed with an error; nil if the store does that itself.
	clear func(context.Context, error) error
}

// create begins an upload. Each part that is being sent takes part bytes of memory.
func (s *bucketStore) create(ctx context.Context, a address, part int) (_ upload, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, true)
	if err != nil {
		return nil, err
	}
	// Ending the context is the only way to end a write without making an object (gocloud.dev/blob, NewWriter: "To abort a
	// write, cancel ctx").
	library, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w, err := b.NewWriter(library, a.path, &blob.WriterOptions{
		BufferSize: part, MaxConcurrency: partsAtOnce, ContentType: "application/octet-stream",
	})
	if err != nil {
		cancel()
		return nil, cloudFailure(ctx, err)
	}
	u := &bucketUpload{ctx: ctx, cancel: cancel, writer: w, client: s.client}
	u.forget = context.AfterFunc(ctx, u.ended)
	if s.clear != nil {
		u.clear = func(ctx context.Context, err error) error { return s.clear(ctx, a, err) }
	}
	return u, nil
}

// ended is called when the caller's context has ended. A store goes on with a commit of which it has all bytes, even if
// the client closes the connection: the object appears later, and a removal before that finds nothing. So the commit's
// answer is waited for.
func (u *bucketUpload) ended() {
	if u.commits.Load() {
		time.AfterFunc(AnswerTime, u.cancel)
		return
	}
	u.cancel()
}

// timely runs a function that waits for the store. If that takes longer than the caller allows, the upload ends.
// A write may wait until a part is sent, so it is limited like a read.
func (u *bucketUpload) timely(wait func() error) error {
	limit := u.client.storage.Timeout
	if limit > 0 {
		timer := time.AfterFunc(limit, func() {
			u.late.Store(true)
			u.cancel()
		})
		defer timer.Stop()
	}
	err := wait()
	switch {
	case err == nil:
		return nil
	// This case comes first, because the error is then that of our own cancel and would look like the caller's.
	case u.late.Load():
		return u.client.late(nil)
	}
	return cloudFailure(u.ctx, err)
}

func (u *bucketUpload) write(p []byte) (n int, err error) {
	err = u.timely(func() (err error) {
		n, err = u.writer.Write(p)
		return err
	})
	return n, err
}

// commit also ends the context, because the library keeps its memory until then.
func (u *bucketUpload) commit() error {
	u.commits.Store(true)
	// If the caller's context ended before, nothing is sent.
	if u.ctx.Err() != nil {
		u.cancel()
	}
	err := u.timely(u.close)
	if err == nil {
		u.end()
	}
	return err
}

// end ends the library's requests.
func (u *bucketUpload) end() {
	u.forget()
	u.cancel()
}

func (u *bucketUpload) close() error {
	// The writer is closed once: abort may follow a commit that failed, and a blob.Writer must not be closed twice.
	if !u.closed {
		u.closed, u.failed = true, u.writer.Close()
	}
	return u.failed
}

// abort ends the upload. A writer whose context has ended does not complete. The parts are removed with another
// context.
func (u *bucketUpload) abort(ctx context.Context) error {
	u.end()
	err := u.close()
	if err == nil || u.clear == nil {
		return nil
	}
	return u.clear(ctx, err)
}

// remove makes one request; Remove retries it.
func (s *bucketStore) remove(ctx context.Context, a address) (err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, false)
	if err != nil {
		return err
	}
	if err := b.Delete(ctx, a.path); err != nil {
		return s.failure(ctx, err)
	}
	return nil
}
