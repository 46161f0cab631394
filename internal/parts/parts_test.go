package parts

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// content is what the store has at an offset.
func content(offset int64, to []byte) {
	for i := range to {
		x := uint64(offset+int64(i)) * 0x9e3779b97f4a7c15
		to[i] = byte(x >> 56)
	}
}

type source struct{ requests, bytes atomic.Int64 }

func open(t *testing.T, dir string, bytes int64) *Cache {
	t.Helper()
	c, warning, err := Open(dir, bytes)
	require.NoError(t, err)
	require.Empty(t, warning)
	return c
}

// one reads a sample as a loader does, and compares its bytes.
func (s *source) one(t *testing.T, u *User, sample, length int64, next uint64) {
	t.Helper()
	offset := sample << 20
	list := []Part{{Key: KeyOf("object", offset, length), Sample: sample, Next: next, Bytes: make([]byte, length)}}
	want := make([]byte, length)
	content(offset, want)
	crc := crc32.Checksum(want, castagnoli)
	list[0].CRC = &crc
	u.Read(context.Background(), list, func(context.Context, int, int) error {
		s.requests.Add(1)
		s.bytes.Add(length)
		content(offset, list[0].Bytes)
		return nil
	})
	require.NoError(t, list[0].Err)
	require.Equal(t, want, list[0].Bytes)
}

// hit reads a sample as a decode thread does; it returns false if the sample is not in the cache.
func (s *source) hit(t *testing.T, u *User, sample, length int64, next uint64) bool {
	t.Helper()
	offset := sample << 20
	part := Part{Key: KeyOf("object", offset, length), Sample: sample, Next: next, Bytes: make([]byte, length)}
	found := u.Hit(&part)
	require.Equal(t, []bool{found}, u.Here([]Part{part}))
	if found {
		want := make([]byte, length)
		content(offset, want)
		require.Equal(t, want, part.Bytes)
	}
	return found
}

func allocated(t *testing.T, dir string) int64 {
	t.Helper()
	sum := int64(0)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		status, err := e.Info()
		require.NoError(t, err)
		sum += status.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return sum
}

func TestAFetchedPartIsReadFromTheDiskByLaterCachesToo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var s source
	for round := range 3 {
		c := open(t, dir, 8<<20)
		u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
		for i := range int64(50) {
			s.one(t, u, i, 1000+i*777, 0)
		}
		require.Equal(t, int64(50), s.requests.Load())
		require.Equal(t, int64(50*min(1, round)), u.Stats().Hits)
		u.Leave()
		c.Close()
	}
	status, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), status.Mode().Perm())
}

func TestADamagedPartIsDroppedAndFetchedOnceMore(t *testing.T) {
	dir := t.TempDir()
	var s source
	c := open(t, dir, 8<<20)
	defer c.Close()
	u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
	defer u.Leave()
	s.one(t, u, 1, 5000, 0)
	_, err := c.data.WriteAt([]byte("other bytes"), 100)
	require.NoError(t, err)
	s.one(t, u, 1, 5000, 0)
	s.one(t, u, 1, 5000, 0)
	require.Equal(t, int64(2), s.requests.Load())
	require.Equal(t, int64(1), u.Stats().Dropped)
}

func TestADamagedPartIsNoHit(t *testing.T) {
	var s source
	c := open(t, t.TempDir(), 8<<20)
	defer c.Close()
	u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
	defer u.Leave()
	require.False(t, s.hit(t, u, 1, 5000, 0))
	s.one(t, u, 1, 5000, 0)
	require.True(t, s.hit(t, u, 1, 5000, 0))
	_, err := c.data.WriteAt([]byte("other bytes"), 100)
	require.NoError(t, err)
	require.False(t, u.Hit(&Part{Key: KeyOf("object", 1<<20, 5000), Bytes: make([]byte, 5000)}))
	require.Equal(t, int64(1), u.Stats().Hits)
}

func TestWithoutAPlanThePartsUsedLastStayHoweverTheyAreRead(t *testing.T) {
	const length, bound = 20_000, 4 << 20 // about 200 samples
	var s source
	c := open(t, t.TempDir(), bound)
	defer c.Close()
	u := c.Join(Plan{Bytes: bound, Dataset: "d"})
	defer u.Leave()
	for sample := range int64(150) {
		s.one(t, u, sample, length, 0)
	}
	// The first 50 samples are used again and again, and the others are dropped.
	for sample := int64(150); sample < 600; sample++ {
		s.one(t, u, sample, length, 0)
		require.True(t, s.hit(t, u, sample%50, length, 0), sample)
	}
	require.False(t, s.hit(t, u, 100, length, 0))
}

func TestAClaimThatCouldNotBeReleasedDelaysNobodyOnceTheTablesCanBeLocked(t *testing.T) {
	c := open(t, t.TempDir(), 8<<20)
	defer c.Close()
	u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
	defer u.Leave()
	var s source
	locks := c.locks
	closed, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	part := Part{Key: KeyOf("object", 1<<20, 5000), Sample: 1, Bytes: make([]byte, 5000)}
	list := []Part{part}
	u.Read(context.Background(), list, func(context.Context, int, int) error {
		c.locks = closed // cannot be locked, as if another process was stopped while it held the tables
		content(1<<20, list[0].Bytes)
		return nil
	})
	require.NoError(t, list[0].Err)
	c.locks = locks
	began := time.Now()
	s.one(t, u, 1, 5000, 0)
	s.one(t, u, 1, 5000, 0)
	require.Equal(t, int64(1), s.requests.Load(), "the second read did not find what the first one kept")
	require.Less(t, time.Since(began), patience, "the read waited for the claim")
}

func TestAPartThatManyUsersWantAtOnceIsFetchedOnce(t *testing.T) {
	c := open(t, t.TempDir(), 8<<20)
	defer c.Close()
	var s source
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			u := c.Join(Plan{Bytes: 8 << 20, Dataset: "d", Job: "j"})
			defer u.Leave()
			for i := range int64(20) {
				s.one(t, u, i, 20000, 0)
			}
		})
	}
	group.Wait()
	require.Equal(t, int64(20), s.requests.Load())
}

func TestTheCacheStaysWithinItsBoundAndFetchesNearlyAsLittleAsFarthestNextUse(t *testing.T) {
	for _, run := range []struct {
		share int64
		hits  bool
	}{{10, false}, {25, false}, {50, false}, {10, true}, {25, true}, {50, true}} {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			share := run.share
			const samples, epochs = 2000, 3
			random := rand.New(rand.NewPCG(1, uint64(share)))
			lengths, whole := make([]int64, samples), int64(0)
			for i := range lengths {
				lengths[i] = 5000 + random.Int64N(20000)
				whole += lengths[i]
			}
			var order []int64
			positions := make([][]uint64, epochs)
			for e := range positions {
				positions[e] = make([]uint64, samples)
				for p, sample := range random.Perm(samples) {
					positions[e][sample] = uint64(e*samples + p)
					order = append(order, int64(sample))
				}
			}
			after := func(sample int64, at uint64) uint64 {
				for _, epoch := range positions {
					if epoch[sample] >= at {
						return epoch[sample]
					}
				}
				return Never
			}
			bound := whole * share / 100
			dir := t.TempDir()
			c := open(t, dir, bound)
			defer c.Close()
			u := c.Join(Plan{Bytes: bound, Dataset: "d", Job: "j", Step: 8, After: after})
			defer u.Leave()
			var s source
			for p, sample := range order {
				u.At(uint64(p))
				next := after(sample, uint64(p)+1)
				if !run.hits || !s.hit(t, u, sample, lengths[sample], next) {
					s.one(t, u, sample, lengths[sample], next)
				}
			}
			ideal := farthest(order, lengths, bound)
			t.Logf("fetched %d, farthest next use %d: %.4f", s.bytes.Load(), ideal, float64(s.bytes.Load())/float64(ideal))
			require.LessOrEqual(t, float64(s.bytes.Load()), 1.02*float64(ideal))
			require.LessOrEqual(t, float64(allocated(t, dir)), 1.05*float64(bound))
		})
	}
}

// farthest is a slow version of the rule of bench/farthest.py: it drops the sample that is used farthest in the future.
func farthest(order, lengths []int64, room int64) (total int64) {
	next, at := make([]int, len(order)), map[int64]int{}
	for p := len(order) - 1; p >= 0; p-- {
		next[p] = len(order)
		if q, ok := at[order[p]]; ok {
			next[p] = q
		}
		at[order[p]] = p
	}
	held, used := map[int64]int{}, int64(0)
	for p, sample := range order {
		if _, ok := held[sample]; !ok {
			total += lengths[sample]
			used += lengths[sample]
		}
		held[sample] = next[p]
		for used > room {
			last, worst := int64(-1), -1
			for one, when := range held {
				if when > worst {
					last, worst = one, when
				}
			}
			delete(held, last)
			used -= lengths[last]
		}
	}
	return total
}
