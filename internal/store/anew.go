package store

import (
	"context"
	"errors"
	"hash/crc32"
	"time"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/mmap"
)

// A store may have the right bytes although wrong ones arrived: the memory of a proxy or of a network card changes them
// behind TCP's checksum, and a cache on disk may have kept such bytes. So they are fetched once more before that is an
// error.

// FetchedAgain ends the clause of an error about bytes that were wrong twice.
const FetchedAgain = ", also when it was fetched once more"

// ReadAnew reads a sample again whose bytes, as returned by Read, do not have the index's checksum. It returns false if
// that would give the same bytes, because they came from a file.
func (s *Store) ReadAnew(sample catalog.Sample, b *mmap.Buffer) (view mmap.View, ok bool, err error) {
	if !s.dataset.Holder(sample.Index).Away() {
		return mmap.View{}, false, nil
	}
	s.forget(s.waits, sample)
	view, err = s.Read(sample, b)
	return view, true, err
}

// forget drops what is kept of the block that a sample lies in. Records outside blocks are never kept with a wrong
// checksum.
func (s *Store) forget(ctx context.Context, sample catalog.Sample) {
	if sample.Block.Codec == blocks.None || int64(sample.Shard) >= int64(len(s.shards.list)) {
		return
	}
	s.blocks.Forget(sample.InBlock())
	from := s.shards.list[sample.Shard].away
	if s.kept == nil || from == nil {
		return
	}
	// Without an identity the cache has nothing of the object.
	if identity, err := from.Identity(ctx); err == nil && identity != "" {
		s.kept.Forget([]parts.Part{{Key: parts.KeyOf(identity, sample.Offset, sample.Stored())}})
	}
}

// copyBlock copies a sample out of its block. A block that cannot be decoded is fetched once more.
func (s *Store) copyBlock(room []byte, sample catalog.Sample, fetched *time.Duration) error {
	err := s.copyOnce(room, sample, fetched)
	if malformed := (*blocks.MalformedError)(nil); errors.As(err, &malformed) && s.dataset.Holder(sample.Index).Away() {
		s.forget(s.waits, sample)
		err = s.copyOnce(room, sample, fetched)
	}
	return s.refused(err, sample)
}

// copyField is copyBlock for a field's value, of which the index has a checksum.
func (s *Store) copyField(to []byte, value catalog.Sample) error {
	err := s.copyBlock(to, value, nil)
	if err == nil && value.HasCRC && s.dataset.Holder(value.Index).Away() && crc32.Checksum(to, castagnoli) != value.CRC32C {
		s.forget(s.waits, value)
		err = s.copyBlock(to, value, nil)
	}
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
