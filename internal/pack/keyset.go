package pack

import "hash/maphash"

// keySet finds duplicate keys without storing the keys. It keeps 128 bits of each, hashed with two random seeds.
// Two keys with one hash would become likely only with 2^64 samples.
// A hundred million keys of 40 bytes would take 4 GB; so each takes 24 bytes and the map's overhead.
type keySet struct {
	// The seeds are random for each process, so nobody can choose two keys with one hash.
	seeds [2]maphash.Seed
	seen  map[[2]uint64]int64
}

func newKeySet() *keySet {
	return &keySet{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, make(map[[2]uint64]int64)}
}

// add notes the key of a record, or returns the record that has it already.
func (s *keySet) add(key string, record int64) (first int64, added bool) {
	h := s.hash(key)
	if first, ok := s.seen[h]; ok {
		return first, false
	}
	s.seen[h] = record
	return record, true
}

// seenAs returns the record that has the key.
func (s *keySet) seenAs(key string) (int64, bool) {
	record, ok := s.seen[s.hash(key)]
	return record, ok
}

// hash has 128 bits: 64 would collide once in some billions of keys, and then a dataset would be refused.
func (s *keySet) hash(key string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], key), maphash.String(s.seeds[1], key)}
}
