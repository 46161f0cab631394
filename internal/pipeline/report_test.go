package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
)

func TestASampleWithWarningsIsKeptAndReported(t *testing.T) {
	d := dataset(t, 12, func(i int, row *catalog.Row, data []byte) []byte {
		if i == 5 {
			row.Verdict = catalog.Warnings
		}
		return data
	})
	l := open(t, d, settings{order: order.Config{BatchSize: 4}})
	consumeQuietly(t, l, 2)
	report := l.Report()
	require.Len(t, report, 2, "one line for each epoch")
	for epoch, line := range report {
		require.Equal(t, Replacement{Epoch: int64(epoch), Step: 1, Place: 1, Index: 5, Key: "cat/5", Substitute: -1}, line)
	}
	require.EqualValues(t, 2, l.Stats().Warned)
	require.Zero(t, l.Stats().Replaced)
}

func TestTheReportHasABoundedListAndCountsEverything(t *testing.T) {
	var r report
	for range 5 {
		var d draft
		for place := range int64(3000) {
			d.notes = append(d.notes, Replacement{Place: place, Err: &SampleError{}}, Replacement{Place: place, Substitute: -1})
		}
		require.EqualValues(t, 3000, r.add(&d))
	}
	require.Len(t, r.replaced, replacedLines)
	require.Len(t, r.warned, warnedLines)
	require.EqualValues(t, 15_000, r.replacedInAll)
	require.EqualValues(t, 15_000, r.warnedInAll)
}

func TestReplacementsInUndeliveredBatchesAreNotReported(t *testing.T) {
	l := open(t, faulty(t), settings{order.Config{BatchSize: 4}, Config{OnError: Replace, VerifyCRC: true, Prefetch: 8}})
	require.Eventually(t, func() bool { return l.Stats().Ready == 8 }, waitLong, waitShort)
	require.Empty(t, l.Report())
	require.NoError(t, l.SeekTo(0, 36))
	b, err := next(t, l)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	require.Empty(t, l.Report())
}

func TestTheStatisticsAddUp(t *testing.T) {
	d := dataset(t, 40, nil)
	l := open(t, d, settings{order.Config{BatchSize: 8}, Config{Threads: 3}})
	consumeQuietly(t, l, 3)
	require.Eventually(t, func() bool { return l.Stats().Ready == 2 }, waitLong, waitShort)
	s := l.Stats()
	require.EqualValues(t, 15, s.Batches)
	require.EqualValues(t, 120, s.Samples)
	require.EqualValues(t, 136, s.Images)
	var bytes int64
	for i := range int64(136) {
		sample, err := d.Sample(i % 40)
		require.NoError(t, err)
		bytes += sample.Length
	}
	require.Equal(t, bytes, s.BytesRead)
	require.Positive(t, s.Reading)
	require.Positive(t, s.Decoding)
	require.LessOrEqual(t, s.StallP50, s.StallP99)
	require.LessOrEqual(t, s.StallP99, s.StallMax)
	require.LessOrEqual(t, s.StallMax, s.ConsumerWait)
	require.Positive(t, s.ImagesPerSecond)
	require.Equal(t, 2, s.Open)
}
