package store

import (
	"context"
	"errors"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/mmap"
)

// Range returns where the bytes of a sample are in a store of objects, for fetching them ahead. ok is false if only
// Read can read them: for files, samples in compressed blocks, and samples that Read refuses.
func (s *Store) Range(sample catalog.Sample) (shard *catalog.Shard, ok bool) {
	if sample.Length < 0 || sample.Length > s.limit || !s.kind(sample).InShards() ||
		sample.Block.Codec != blocks.None || int64(sample.Shard) >= int64(len(s.shards.list)) {
		return nil, false
	}
	shard = s.shards.list[sample.Shard].away
	return shard, shard != nil && sample.Offset >= 0 && sample.Offset <= shard.Size()-sample.Length
}

// Explain adds the sample to an error that reading its Range gave.
func (s *Store) Explain(err error, sample catalog.Sample) error {
	if err == nil {
		return nil
	}
	explained := &catalog.Error{Kind: fault.KindOf(err), Record: sample.Index, Offset: max(sample.Offset, 0), Text: "cannot read it", Err: err}
	explained.File, _ = s.dataset.Path(sample.Index)
	var known *catalog.Error
	if errors.As(err, &known) {
		own := *known // requests are shared, and so are their errors
		explained = &own
		explained.Record, explained.Offset = sample.Index, max(sample.Offset, 0)
	}
	s.addKey(explained, sample.Index)
	return explained
}

// Keep makes reads from stores of objects use a cache on disk. It must be called before the first read.
func (s *Store) Keep(kept *parts.User) { s.kept = kept }

// ranged is an object that ranges are read from.
type ranged interface {
	// Identity names store, object and version; empty if nothing distinguishes versions.
	Identity(ctx context.Context) (string, error)
	ReadAt(ctx context.Context, to []byte, offset int64) error
}

// readAway reads length bytes into b's own memory, from where a sample or its block begins.
func (s *Store) readAway(ctx context.Context, sample catalog.Sample, length int64, b *mmap.Buffer, from ranged) (mmap.View, error) {
	room, err := b.Reserve(length)
	if err == nil {
		err = s.readRange(ctx, sample, room, from)
	}
	if err != nil {
		return mmap.View{}, s.Explain(err, sample)
	}
	return b.Part(0, length), nil
}

// readValue reads the value of a sample's field from its container in a store.
func (s *Store) readValue(ctx context.Context, index int64, container *catalog.Shard, to []byte, offset int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.waits, cancel)()
	return s.readRange(ctx, catalog.Sample{Index: index, Offset: offset}, to, container)
}

// readRange reads through the cache on disk, if there is one and the object's versions can be distinguished.
func (s *Store) readRange(ctx context.Context, sample catalog.Sample, to []byte, from ranged) error {
	if s.kept == nil {
		return from.ReadAt(ctx, to, sample.Offset)
	}
	identity, err := from.Identity(ctx)
	if err != nil {
		return err
	}
	if identity == "" {
		return from.ReadAt(ctx, to, sample.Offset)
	}
	// The next use of a block is assumed to be that of the sample for which it is read.
	one := []parts.Part{{Key: parts.KeyOf(identity, sample.Offset, int64(len(to))), Sample: sample.Index, Next: s.kept.NextUse(sample.Index), Bytes: to}}
	if sample.HasCRC && sample.Block.Codec == blocks.None {
		one[0].CRC = &sample.CRC32C
	}
	s.kept.Read(ctx, one, func(ctx context.Context, _, _ int) error { return from.ReadAt(ctx, to, sample.Offset) })
	return one[0].Err
}
