package store

import (
	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
)

// WillNeed says that these neighbouring samples will all be read soon, in any order. If they are in shards, the storage
// is asked for each stretch as a whole. It is only a hint, so it returns no error.
func (s *Store) WillNeed(first, count int64) {
	var begin, last catalog.Sample
	open := false // a stretch from begin to last is not announced yet
	var announced *blocks.Tiles
	for i := range count {
		if !s.dataset.Holder(first + i).Kind().InShards() {
			// Single files may be anywhere. In a concatenated dataset another part may begin after them.
			if s.dataset.Kind() != catalog.Concatenated {
				return
			}
			continue
		}
		sample, err := s.dataset.Sample(first + i)
		if err != nil {
			return
		}
		switch sample.Block.Codec {
		case blocks.Fill: // such a block has no bytes anywhere
			continue
		case blocks.Tiled:
			if tiles, number := s.dataset.Tiles(first + i); tiles != announced {
				s.announceTiles(tiles, number, sample)
				announced = tiles
			}
			continue
		}
		// A stretch ends with its shard, or if the next record lies before the last one.
		if open && (sample.Shard != begin.Shard || sample.Offset < last.Offset) {
			s.announce(begin, last)
			begin = sample
		} else if !open {
			begin, open = sample, true
		}
		last = sample
	}
	if open {
		s.announce(begin, last)
	}
}

// announce asks for the bytes from the beginning of one record to the end of another.
func (s *Store) announce(begin, last catalog.Sample) {
	if int64(begin.Shard) >= int64(len(s.shards.list)) || s.shards.list[begin.Shard].away != nil {
		return
	}
	if file, err := s.shards.open(begin); err == nil {
		file.WillNeed(begin.Offset, last.Offset+last.Stored()-begin.Offset)
	}
}

// announceTiles asks for all chunks that a sample's block is assembled from.
func (s *Store) announceTiles(tiles *blocks.Tiles, first uint32, sample catalog.Sample) {
	for i := range tiles.Parts {
		if b := &tiles.Parts[i]; b.Codec != blocks.Fill {
			sample.Shard, sample.Offset = first+b.Container, b.Offset
			sample.Block = catalog.BlockPlace{Stored: b.Stored, Size: b.Size, Codec: b.Codec}
			s.announce(sample, sample)
		}
	}
}
