package store

import (
	"errors"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// BlocksDecoded is the number of blocks that were decoded so far.
func (s *Store) BlocksDecoded() int64 { return s.blocks.Decoded() }

// PrepareBlock decodes the block of a sample that will soon be read, if several samples share it and it is not decoded
// yet.
func (s *Store) PrepareBlock(sample catalog.Sample, fetched *time.Duration) {
	if sample.Length == int64(sample.Block.Size) || int64(sample.Shard) >= int64(len(s.shards.list)) {
		return
	}
	var stored *mmap.Buffer
	s.blocks.Prepare(sample.InBlock(), func() (block []byte, err error) {
		stored = s.spare.take()
		return s.fetch(sample, stored, fetched)
	})
	s.spare.keep(stored)
}

// readBlock copies a sample out of its block, which was decoded not long ago or is decoded now.
func (s *Store) readBlock(sample catalog.Sample, b *mmap.Buffer, fetched *time.Duration) (mmap.View, error) {
	room, err := b.Reserve(sample.Length)
	if err != nil {
		return mmap.View{}, explain(err, s.shards.list[sample.Shard].path, sample.Index)
	}
	return b.Part(0, sample.Length), s.copyBlock(room, sample, fetched)
}

// copyOnce copies a sample out of its block. If the block cannot be decoded, the error is a blocks.MalformedError.
func (s *Store) copyOnce(room []byte, sample catalog.Sample, fetched *time.Duration) (err error) {
	var stored *mmap.Buffer
	if sample.Block.Codec == blocks.Tiled {
		err = s.copyTiled(room, sample, func(tile catalog.Sample) ([]byte, error) {
			if stored == nil {
				stored = s.spare.take()
			}
			return s.fetch(tile, stored, fetched)
		})
	} else {
		err = s.blocks.Copy(room, int64(sample.Block.Inner), sample.InBlock(), func() ([]byte, error) {
			stored = s.spare.take()
			return s.fetch(sample, stored, fetched)
		})
	}
	s.spare.keep(stored)
	return err
}

// refused adds the sample to an error about its block.
func (s *Store) refused(err error, sample catalog.Sample) error {
	var malformed *blocks.MalformedError
	if errors.As(err, &malformed) {
		return s.refuse(sample, fault.KindBadFile, "the block cannot be decoded: %v", err)
	}
	var large *blocks.TooLargeError
	if errors.As(err, &large) {
		return s.refuse(sample, fault.KindLimit, "%v", large)
	}
	return err
}

// fetch reads a stored block. It uses pread with every backend: blocks are kept decoded, and so would be the result of
// a mapped block that was cut meanwhile.
func (s *Store) fetch(sample catalog.Sample, stored *mmap.Buffer, fetched *time.Duration) ([]byte, error) {
	began := time.Now()
	block, err := s.readStretch(sample, sample.Stored(), stored, (*mmap.File).ReadCopy)
	if fetched != nil {
		*fetched += time.Since(began)
	}
	return block.Bytes(), err
}

// copyTiled copies a sample out of a block that is assembled from chunks of an array.
func (s *Store) copyTiled(room []byte, sample catalog.Sample, fetch func(tile catalog.Sample) ([]byte, error)) error {
	tiles, first := s.dataset.Tiles(sample.Index)
	return s.blocks.CopyTiled(room, int64(sample.Block.Inner), sample.InBlock(), tiles, func(b blocks.Block) ([]byte, error) {
		tile := sample
		tile.Shard, tile.Offset = first+b.Container, b.Offset
		tile.Block = catalog.BlockPlace{Stored: b.Stored, Size: b.Size, Codec: b.Codec}
		return fetch(tile)
	})
}

// spare keeps buffers for stored blocks between two reads. Pages that the system takes back and gives again cost a page
// fault each, and more on a virtual machine.
type spare struct {
	mu     sync.Mutex
	kept   []*mmap.Buffer
	closed bool
}

const (
	mostSpare      = 4
	mostSpareBytes = 32 << 20 // of one buffer
)

func (s *spare) take() *mmap.Buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.kept); n > 0 {
		b := s.kept[n-1]
		s.kept = s.kept[:n-1]
		return b
	}
	return new(mmap.Buffer)
}

// keep takes a buffer back; nil is ignored.
func (s *spare) keep(b *mmap.Buffer) {
	if b == nil {
		return
	}
	b.Empty()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.kept) >= mostSpare || b.Size() > mostSpareBytes {
		b.Free()
		return
	}
	s.kept = append(s.kept, b)
}

func (s *spare) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, b := range s.kept {
		b.Free()
	}
	s.kept = nil
}
