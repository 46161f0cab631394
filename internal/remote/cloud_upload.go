//go:build !headrace_nocloud

package remote

import (
	"context"

	"gocloud.dev/blob"
)

// Parts of an upload: S3 takes 10,000, so that the largest object has 320 GB. As many at once as keep
// their memory below 128 MiB.
const (
	partBytes   = 32 << 20
	partsAtOnce = 4
)

type bucketUpload struct {
	ctx    context.Context
	cancel context.CancelFunc
	writer *blob.Writer
}

func (s *bucketStore) create(ctx context.Context, a address) (upload, error) {
	b, err := s.bucket(ctx, a.host, true)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.NewWriter(ctx, a.path, &blob.WriterOptions{
		BufferSize: partBytes, MaxConcurrency: partsAtOnce, ContentType: "application/octet-stream",
	})
	if err != nil {
		cancel()
		return nil, cloudFailure(ctx, err)
	}
	return &bucketUpload{ctx: ctx, cancel: cancel, writer: w}, nil
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
	if err := u.writer.Close(); err != nil {
		return cloudFailure(u.ctx, err)
	}
	return nil
}

// abort: a writer whose context has ended does not complete, and its library removes the parts.
func (u *bucketUpload) abort() error {
	u.cancel()
	u.writer.Close()
	return nil
}
