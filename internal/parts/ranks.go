package parts

import "slices"

// Ranks on other machines have caches of their own, so that what only they use next may be dropped here.

// mostAsked bounds the uses that are looked through for one of a rank that is here.
const mostAsked = 4096

// findRanks notes which ranks of each job are here. One that ended without a word counts until the next one joins or
// leaves.
func (c *Cache) findRanks() {
	c.ranks, c.victims = map[uint64][]uint64{}, nil
	for n := range uint32(mostSlots) {
		if s := &c.head.slots[n]; s.bound != 0 && c.alive(n) {
			c.ranks[s.job] = append(c.ranks[s.job], s.rank)
		}
	}
}

// next is a sample's first use at or behind a position, of all that are known of the ranks that are here.
func (s standing) next(sample int64, position uint64) uint64 {
	use := s.after(sample, position)
	// Bounded, for a rank may be one of thousands; where none of so many uses is here the last is as good a guess.
	for range mostAsked {
		if s.here(use) {
			break
		}
		use = s.after(sample, use+1)
	}
	return use
}

// here is true of a use that is to be waited for.
func (s standing) here(use uint64) bool {
	return s.rankOf == nil || use >= Unknown || slices.Contains(s.ranks, uint64(s.rankOf(use)))
}

// reconsider has the next uses of a job's samples looked for anew, for other ranks of it are here than before.
func (u *User) reconsider() {
	if u.plan.RankOf == nil {
		return
	}
	for i := range uint32(u.cache.head.entryTop) {
		if e := &u.cache.entries[i]; e.job == u.job && !unknown(e.next) {
			e.next = anew
		}
	}
}

// anew is the next use of an entry for which it is to be looked.
const anew = 0
