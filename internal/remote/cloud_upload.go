//go:build !headrace_nocloud

package remote

import (
	"context"
	"time"

	"gocloud.dev/blob"
)

type bucketUpload struct {
	ctx    context.Context
	cancel context.CancelFunc
	writer *blob.Writer
	// clear removes the parts of an upload that has failed with an error; nil where a store does that itself.
	clear func(context.Context, error) error
}

func (s *bucketStore) create(ctx context.Context, a address, part int) (_ upload, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, true)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.NewWriter(ctx, a.path, &blob.WriterOptions{
		BufferSize: part, MaxConcurrency: partsAtOnce, ContentType: "application/octet-stream",
	})
	if err != nil {
		cancel()
		return nil, cloudFailure(ctx, err)
	}
	u := &bucketUpload{ctx: ctx, cancel: cancel, writer: w}
	if s.clear != nil {
		u.clear = func(ctx context.Context, err error) error { return s.clear(ctx, a, err) }
	}
	return u, nil
}

func (u *bucketUpload) write(p []byte) (int, error) {
	n, err := u.writer.Write(p)
	if err != nil {
		return n, cloudFailure(u.ctx, err)
	}
	return n, nil
}

func (u *bucketUpload) commit() error {
	defer u.cancel()
	err := u.writer.Close()
	if err == nil {
		return nil
	}
	f := cloudFailure(u.ctx, err)
	if u.clear != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), clearing)
		defer cancel()
		if u.clear(ctx, err) != nil {
			left := *classify(f)
			left.text += "; parts of the incomplete upload may be left"
			return &left
		}
	}
	return f
}

// abort: a writer whose context has ended does not complete. What removes the parts must not end with it.
func (u *bucketUpload) abort() error {
	u.cancel()
	err := u.writer.Close()
	if err == nil || u.clear == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), clearing)
	defer cancel()
	return u.clear(ctx, err)
}

// clearing bounds the removal of parts, for which Ctrl-C waits.
const clearing = 10 * time.Second

func (s *bucketStore) remove(ctx context.Context, a address) (err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, false)
	if err != nil {
		return err
	}
	if err := b.Delete(ctx, a.path); err != nil {
		return cloudFailure(ctx, err)
	}
	return nil
}
