package pipeline

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
)

// epochOf reads one epoch: the samples that came, and those that were replaced.
func epochOf(t *testing.T, l *Loader) (came []int64) {
	t.Helper()
	for {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			return came
		}
		require.NoError(t, err)
		came = append(came, b.Indices()...)
		require.NoError(t, b.Release())
	}
}

func TestATruncatedShardLosesOnlyTheSamplesThatItNoLongerHolds(t *testing.T) {
	const samples = 60
	for _, backend := range []mmap.Backend{mmap.Auto, mmap.Pread} {
		d := dataset(t, samples, nil)
		path := d.ShardPath(0)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		first, err := d.Sample(0)
		require.NoError(t, err)
		middle, err := d.Sample(samples / 2)
		require.NoError(t, err)
		// If one sample of sixty is left, sixteen random tries would miss it two times in three.
		for _, cut := range []int64{first.Offset + first.Length, middle.Offset, middle.Offset + middle.Length/2, int64(len(whole)) - 1} {
			require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
			l := open(t, d, settings{order.Config{BatchSize: 8, Shuffle: true, Seed: 3},
				Config{Threads: 2, VerifyCRC: true, OnError: Replace, Store: mmap.Options{Backend: backend}}})
			lost := map[int64]bool{}
			for i := range int64(samples) {
				s, err := d.Sample(i)
				require.NoError(t, err)
				if s.Offset+s.Length > cut {
					lost[i] = true
				}
			}
			times := map[int64]int{}
			for _, i := range epochOf(t, l) {
				require.False(t, lost[i])
				times[i]++
			}
			for i := range int64(samples) {
				require.True(t, lost[i] || times[i] > 0, "sample %d, cut at %d", i, cut)
			}
			report := l.Report()
			require.Len(t, report, len(lost))
			for _, line := range report {
				require.True(t, lost[line.Index])
				require.Equal(t, fault.KindTruncated, line.Err.Code)
				require.Equal(t, cut, line.Err.Offset)
				require.Equal(t, path, line.Err.File)
				require.NotEmpty(t, line.Key)
				delete(lost, line.Index)
			}
			require.Empty(t, lost, "each lost sample is in the report once")
			l.Close()
		}
		// Without replacement the damage is reported at once, whatever sample comes first.
		l := open(t, d, settings{order.Config{BatchSize: 8}, Config{Threads: 2, Store: mmap.Options{Backend: backend}}})
		_, err = next(t, l)
		var found *SampleError
		require.ErrorAs(t, err, &found)
		require.Equal(t, fault.KindTruncated, found.Code)
		require.EqualValues(t, len(whole)-1, found.Offset)
		l.Close()
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
}

func TestTheMissingOnlyShardIsAnErrorEvenIfSamplesMayBeReplaced(t *testing.T) {
	d := dataset(t, 2000, func(i int, row *catalog.Row, data []byte) []byte { return data[:20] })
	require.NoError(t, os.Remove(d.ShardPath(0)))
	l := open(t, d, settings{order.Config{BatchSize: 8}, Config{Threads: 2, OnError: Replace}})
	_, err := next(t, l)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "no substitute was good either, 0 were tried")
}
