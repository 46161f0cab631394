package parts

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn is an order of samples, of which the positions below known are known in advance.
type drawn struct {
	order []int64
	known uint64
}

func (d *drawn) after(sample int64, position uint64) uint64 {
	for p := position; p < d.known; p++ {
		if d.order[p] == sample {
			return p
		}
	}
	return Unknown | position
}

func (d *drawn) plan(job string) Plan {
	return Plan{Bytes: 2 << 20, Dataset: "d", Job: job, Step: 8, After: d.after, Known: func() uint64 { return d.known }}
}

// readAll reads samples of 100 kB in the order, of which so many are known in advance, and returns how many were
// fetched.
func (d *drawn) readAll(t *testing.T, ahead int) int64 {
	t.Helper()
	c := open(t, t.TempDir(), 2<<20)
	defer c.Close()
	d.known = uint64(min(ahead, len(d.order)))
	u := c.Join(d.plan("j"))
	defer u.Leave()
	var s source
	for p, sample := range d.order {
		u.At(uint64(p))
		d.known = uint64(min(p+ahead, len(d.order)))
		s.one(t, u, sample, 100_000, d.after(sample, uint64(p+1)))
	}
	return s.requests.Load()
}

// No sample that is known to come again is dropped for one that is not.
func TestTheFartherAheadAnOrderIsKnownTheLessIsFetched(t *testing.T) {
	const samples, room = 60, 20
	random := rand.New(rand.NewPCG(20, 1))
	d := drawn{}
	lengths := make([]int64, samples)
	for i := range lengths {
		lengths[i] = 1
	}
	for range 1200 {
		d.order = append(d.order, random.Int64N(samples))
	}
	// For comparison, a cache that drops the sample used longest ago.
	recent, least := int64(0), farthest(d.order, lengths, room)
	var list []int64
	for _, sample := range d.order {
		at := -1
		for i, one := range list {
			if one == sample {
				at = i
			}
		}
		if at < 0 {
			recent++
			if at = 0; len(list) < room {
				list = append([]int64{-1}, list...)
			}
		}
		list = append(append(append([]int64{}, list[:at]...), list[at+1:]...), sample)
	}
	none, some, all := d.readAll(t, 1), d.readAll(t, 200), d.readAll(t, len(d.order))
	t.Logf("fetched %d, %d and %d; used longest ago %d, farthest next use %d", none, some, all, recent, least)
	require.InEpsilon(t, recent, none, 0.03)
	require.LessOrEqual(t, float64(some), 0.8*float64(none))
	require.LessOrEqual(t, float64(all), 1.05*float64(least))
}

func TestSamplesThatALoaderIsKnownToNeedStayWhileAnotherFillsTheCache(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		c := open(t, t.TempDir(), 2<<20)
		first, second := &drawn{}, &drawn{}
		if wanted {
			first.order, first.known = []int64{0, 1, 2, 3, 4}, 5
		}
		u, other := c.Join(first.plan("a")), c.Join(second.plan("b"))
		var s source
		for sample := range int64(60) {
			s.one(t, other, sample, 100_000, Unknown)
		}
		for sample := range int64(5) {
			s.one(t, u, sample, 100_000, Unknown)
		}
		if wanted {
			require.Equal(t, int64(60), s.requests.Load())
			require.Equal(t, int64(5), u.Stats().Ahead)
		} else {
			require.Equal(t, int64(65), s.requests.Load())
		}
		require.False(t, u.Stats().Planned)
		other.Leave()
		u.Leave()
		c.Close()
	}
}
