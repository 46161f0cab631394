package parts

import "slices"

// Ranks on other machines have their own caches, so parts that only they use next may be dropped here.

// mostAsked bounds how many uses are searched for one by a rank of this machine.
const mostAsked = 4096

// findRanks notes which ranks of each job are here. A rank that was killed counts until the next one joins or leaves.
func (c *Cache) findRanks() {
	c.ranks, c.victims = map[uint64][]uint64{}, nil
	for n := range uint32(mostSlots) {
		if s := &c.head.slots[n]; s.bound != 0 && c.alive(n) {
			c.ranks[s.job] = append(c.ranks[s.job], s.rank)
		}
	}
}

// next returns a sample's first known use at or after a position by a rank of this machine.
func (s standing) next(sample int64, position uint64) uint64 {
	use := s.after(sample, position)
	// The search is bounded, because a rank may be one of thousands. If none of so many uses is here, the last one is
	// as good a guess as any.
	for range mostAsked {
		if s.here(use) {
			break
		}
		use = s.after(sample, use+1)
	}
	return use
}

// here is true for a use that this machine should wait for.
func (s standing) here(use uint64) bool {
	return s.rankOf == nil || use >= Unknown || slices.Contains(s.ranks, uint64(s.rankOf(use)))
}

// reconsider makes the next uses of a job's samples be looked up again, because other ranks of the job are here than
// before.
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

// anew stands for a next use that has to be looked up again.
const anew = 0
