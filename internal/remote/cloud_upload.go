//go:build !headrace_nocloud

package remote

import (
	"context"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
)

// bucketUpload is an upload by the library of a store, which cuts what is written into parts, sends several at once and
// puts them together at Close. The object is visible from then on.
type bucketUpload struct {
	ctx    context.Context
	cancel context.CancelFunc
	writer *blob.Writer
	client *client
	late   atomic.Bool // one of the waits was longer than the caller allows
	closed bool        // the writer is
	failed error       // what closing it said
	// clear removes the parts of an upload that has failed with an error; nil where a store does that itself.
	clear func(context.Context, error) error
}

// create begins an upload. It takes part bytes of memory for each part that is on its way.
func (s *bucketStore) create(ctx context.Context, a address, part int) (_ upload, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, true)
	if err != nil {
		return nil, err
	}
	// Its end is the only way to leave a write without an object (gocloud.dev/blob, NewWriter: "To abort a write,
	// cancel ctx").
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.NewWriter(ctx, a.path, &blob.WriterOptions{
		BufferSize: part, MaxConcurrency: partsAtOnce, ContentType: "application/octet-stream",
	})
	if err != nil {
		cancel()
		return nil, cloudFailure(ctx, err)
	}
	u := &bucketUpload{ctx: ctx, cancel: cancel, writer: w, client: s.client}
	if s.clear != nil {
		u.clear = func(ctx context.Context, err error) error { return s.clear(ctx, a, err) }
	}
	return u, nil
}

// timely does what waits for the store. Where that takes longer than the caller allows the upload ends.
// A write may wait for a part to be sent, so that it is bounded as a read is.
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
	// First: the error is the cancel's then, and would be taken for the caller's own.
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

// commit ends the context as well, as long as which the library keeps what it holds.
func (u *bucketUpload) commit() error {
	err := u.timely(u.close)
	if err == nil {
		u.cancel()
	}
	return err
}

func (u *bucketUpload) close() error {
	// Once: abort may follow on a commit that failed, and a blob.Writer is not made to be closed again.
	if !u.closed {
		u.closed, u.failed = true, u.writer.Close()
	}
	return u.failed
}

// abort: a writer whose context has ended does not complete. What removes the parts does not end with it.
func (u *bucketUpload) abort(ctx context.Context) error {
	u.cancel()
	err := u.close()
	if err == nil || u.clear == nil {
		return nil
	}
	return u.clear(ctx, err)
}

// remove makes one request; Remove tries again.
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
