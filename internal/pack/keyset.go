package pack

import "hash/maphash"

// keySet finds duplicate keys without holding the keys: 128 bits of each under two random seeds.
// Two keys of one hash would need 2^64 samples before it is likely.
// A hundred million keys of 40 bytes would be 4 GB; so they are 24 bytes each, and what the map adds.
type keySet struct {
	// Seeds of the process: who chooses keys cannot choose two of one hash.
	seeds [2]maphash.Seed
	seen  map[[2]uint64]int64
}

func newKeySet() *keySet {
	return &keySet{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, make(map[[2]uint64]int64)}
}

// add notes the key of a record, or says which record has it already.
func (s *keySet) add(key string, record int64) (first int64, added bool) {
	h := s.hash(key)
	if first, ok := s.seen[h]; ok {
		return first, false
	}
	s.seen[h] = record
	return record, true
}

// seenAs is the record that has the key.
func (s *keySet) seenAs(key string) (int64, bool) {
	record, ok := s.seen[s.hash(key)]
	return record, ok
}

// hash has 128 bits: 64 would collide once in some billions of keys, and a dataset would be refused for it.
func (s *keySet) hash(key string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], key), maphash.String(s.seeds[1], key)}
}
