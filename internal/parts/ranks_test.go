package parts

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// job has many ranks, which take one sample at a time. Its order is known for some epochs.
type job struct {
	ranks     uint64
	lengths   []int64
	order     []int64
	positions [][]uint64
}

func newJob(ranks uint64, samples, epochs int) *job {
	j := &job{ranks: ranks, lengths: make([]int64, samples), positions: make([][]uint64, epochs)}
	random := rand.New(rand.NewPCG(2, ranks))
	for i := range j.lengths {
		j.lengths[i] = 5000 + random.Int64N(20000)
	}
	for e := range j.positions {
		j.positions[e] = make([]uint64, samples)
		for p, sample := range random.Perm(samples) {
			j.positions[e][sample] = uint64(e*samples + p)
			j.order = append(j.order, int64(sample))
		}
	}
	return j
}

func (j *job) after(sample int64, at uint64) uint64 {
	for _, epoch := range j.positions {
		if epoch[sample] >= at {
			return epoch[sample]
		}
	}
	return Never
}

func (j *job) rankOf(use uint64) int64 { return int64(use % j.ranks) }

func (j *job) plan(bound, rank int64) Plan {
	return Plan{Bytes: bound, Dataset: "d", Job: "j", Rank: rank, Step: int64(j.ranks), After: j.after, RankOf: j.rankOf}
}

func (j *job) bound() (bound int64) {
	for _, length := range j.lengths {
		bound += length
	}
	return bound / 4
}

func TestSamplesThatOnlyRanksOfOtherMachinesUseNextAreDropped(t *testing.T) {
	for _, here := range []int64{1, 2} {
		j := newJob(4, 2000, 6)
		bound := j.bound()
		c := open(t, t.TempDir(), bound)
		defer c.Close()
		var users []*User
		for rank := range here {
			users = append(users, c.Join(j.plan(bound, rank)))
			defer users[rank].Leave()
		}
		var s source
		var order []int64
		for p, sample := range j.order {
			if rank := j.rankOf(uint64(p)); rank < here {
				users[rank].At(uint64(p))
				s.one(t, users[rank], sample, j.lengths[sample], j.after(sample, uint64(p)+1))
				order = append(order, sample)
			}
		}
		ideal := farthest(order, j.lengths, bound)
		t.Logf("%d of 4 ranks fetched %d, farthest next use %d: %.4f", here, s.bytes.Load(), ideal, float64(s.bytes.Load())/float64(ideal))
		require.LessOrEqual(t, float64(s.bytes.Load()), 1.02*float64(ideal))
	}
}

func TestSamplesAreKeptForARankThatJoinsLaterAndNotForOneThatLeft(t *testing.T) {
	j := newJob(2, 40, 4)
	c := open(t, t.TempDir(), 8<<20)
	defer c.Close()
	first := c.Join(j.plan(8<<20, 0))
	defer first.Leave()
	var s source
	for p := range 40 { // as if this rank used all samples
		first.At(uint64(p))
		s.one(t, first, j.order[p], j.lengths[j.order[p]], j.after(j.order[p], uint64(p)+1))
	}
	nexts := func() (of [2]int) {
		c.with(func() {
			jobs := c.standings()
			for i := range uint32(c.head.entryTop) {
				e := &c.entries[i]
				c.distance(e, jobs)
				if e.next < Unknown {
					of[e.next%2]++
				}
			}
		})
		return of
	}
	alone := nexts()
	require.Zero(t, alone[1])
	require.Positive(t, alone[0])
	second := c.Join(j.plan(8<<20, 1))
	both := nexts()
	require.Positive(t, both[1])
	require.Equal(t, 40, both[0]+both[1])
	second.Leave()
	require.Equal(t, alone, nexts())
}
