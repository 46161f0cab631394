package store

import "github.com/headrace/headrace/internal/catalog"

// WillNeed says that these neighbouring samples will all be read soon, in whatever order: where they
// lie in shards, the storage is asked for each stretch as a whole. A hint, so nothing is an error.
func (s *Store) WillNeed(first, count int64) {
	if s.dataset.Kind() != catalog.Packed {
		return // files of their own lie anywhere
	}
	var begin, last catalog.Sample
	for i := range count {
		sample, err := s.dataset.Sample(first + i)
		if err != nil {
			return
		}
		// A stretch ends with its shard, or where the next record is not behind the one before.
		if i > 0 && (sample.Shard != begin.Shard || sample.Offset < last.Offset) {
			s.announce(begin, last)
			begin = sample
		} else if i == 0 {
			begin = sample
		}
		last = sample
	}
	if count > 0 {
		s.announce(begin, last)
	}
}

// announce asks for the bytes from the beginning of one record to the end of another.
func (s *Store) announce(begin, last catalog.Sample) {
	if int64(begin.Shard) >= int64(len(s.shards.list)) {
		return
	}
	if file, err := s.shards.open(begin); err == nil {
		file.WillNeed(begin.Offset, last.Offset+last.Length-begin.Offset)
	}
}
