package store

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// FieldValue returns a field of a sample. A value in a container is read as images are: from a store through the cache
// on disk, and from a compressed block through the kept blocks, which may hold images as well. The context ends the
// wait for a store.
func (s *Store) FieldValue(ctx context.Context, index int64, field string) (any, error) {
	if !s.dataset.InContainers(index) {
		return s.dataset.FieldValue(index, field)
	}
	return s.dataset.FieldValueBy(index, field, catalog.FieldReader{
		Away: func(container *catalog.Shard, to []byte, offset int64) error {
			return s.readValue(ctx, index, container, to, offset)
		},
		Block:      func(to []byte, value catalog.Sample) error { return s.copyValue(ctx, to, value) },
		Unverified: !s.checks,
	})
}

// copyValue copies a value out of its block. If the caller's context ends, the read goes on, because others may wait
// for the block. It ends with the Store.
func (s *Store) copyValue(ctx context.Context, to []byte, value catalog.Sample) error {
	if ctx == s.waits || s.dataset.Shard(int(value.Shard)) == nil {
		return s.copyField(to, value)
	}
	copied := make(chan error, 1)
	s.left.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				copied <- fault.New(fault.KindInternal, fmt.Sprintf("panic: %v", p))
			}
		}()
		copied <- s.copyField(to, value)
	})
	select {
	case err := <-copied:
		return err
	case <-ctx.Done():
		return s.refuse(value, fault.KindClosed, "the wait for it was ended")
	}
}
