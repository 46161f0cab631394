package store

import (
	"context"
	"errors"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// Range is where in a store of objects the bytes of a sample lie, for who fetches them ahead; not ok where
// Read has to be asked: for files, samples in compressed blocks, and samples that Read refuses.
func (s *Store) Range(sample catalog.Sample) (shard *catalog.Shard, ok bool) {
	if sample.Length < 0 || sample.Length > s.limit || !s.kind(sample).InShards() ||
		sample.Block.Codec != blocks.None || int64(sample.Shard) >= int64(len(s.shards.list)) {
		return nil, false
	}
	shard = s.shards.list[sample.Shard].away
	return shard, shard != nil && sample.Offset >= 0 && sample.Offset <= shard.Size()-sample.Length
}

// Explain says which sample an error is about that reading its Range met.
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

// readAway reads so many bytes from where a sample begins into b's own memory.
func (s *Store) readAway(sample catalog.Sample, length int64, b *mmap.Buffer, read func(context.Context, []byte, int64) error) (mmap.View, error) {
	room, err := b.Reserve(length)
	if err == nil {
		err = read(s.waits, room, sample.Offset)
	}
	if err != nil {
		return mmap.View{}, s.Explain(err, sample)
	}
	return b.Part(0, length), nil
}
