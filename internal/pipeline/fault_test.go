package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/native"
	"github.com/headrace/headrace/pinned"
)

// faulty is a dataset in which two samples are faulty: 17, whose bytes were altered after the checksum was
// taken, and 30, which was already truncated when it was indexed.
func faulty(t *testing.T) *catalog.Dataset {
	return dataset(t, 40, func(i int, row *catalog.Row, data []byte) []byte {
		switch i {
		case 17:
			data[len(data)/2] ^= 4
		case 30:
			data = data[:len(data)*2/3]
			row.CRC32C, row.Verdict = native.CRC32C(0, data), catalog.Truncated
		}
		return data
	})
}

func TestAFaultySampleIsAnErrorInPlaceOfItsBatchUntilSeek(t *testing.T) {
	d := faulty(t)
	for _, threads := range []int{1, 3} {
		l := open(t, d, settings{order.Config{BatchSize: 4}, Config{Threads: threads, VerifyCRC: true}})
		for step := range int64(4) {
			b, err := next(t, l)
			require.NoError(t, err, "batches before the fault are delivered first")
			require.Equal(t, step, b.Step)
			require.NoError(t, b.Release())
		}
		for range 3 {
			requireFault(t, l, 17, fault.KindChecksum, native.Checksum)
		}
		epoch, step := l.Position()
		require.NoError(t, l.SeekTo(epoch, step), "the same place anew")
		requireFault(t, l, 17, fault.KindChecksum, native.Checksum)
		require.NoError(t, l.SeekTo(0, 20))
		for step := int64(5); step < 7; step++ {
			b, err := next(t, l)
			require.NoError(t, err)
			require.Equal(t, step, b.Step)
			require.NoError(t, b.Release())
		}
		requireFault(t, l, 30, fault.KindTruncated, native.Truncated)
		l.Close()
	}
}

func requireFault(t *testing.T, l *Loader, sample int64, kind fault.Kind, code native.Code) {
	t.Helper()
	_, err := next(t, l)
	var found *SampleError
	require.ErrorAs(t, err, &found)
	row, _ := l.config.Dataset.Sample(sample)
	path, _ := l.config.Dataset.Path(sample)
	key, _ := l.config.Dataset.Key(sample)
	require.Equal(t, kind, found.Code, found.Error())
	require.Equal(t, sample, found.Record)
	require.Equal(t, path, found.File)
	require.Equal(t, key, found.Key)
	require.GreaterOrEqual(t, found.Offset, row.Offset)
	require.LessOrEqual(t, found.Offset, row.Offset+row.Length)
	require.NotEmpty(t, found.Text)
	require.Contains(t, err.Error(), path)
	var pixels *native.Error
	require.ErrorAs(t, err, &pixels)
	require.Equal(t, code, pixels.Code)
}

func TestTheFirstOfSeveralFaultsInABatchIsReportedForAnyNumberOfThreads(t *testing.T) {
	d := faulty(t)
	for range 20 {
		l := open(t, d, settings{order.Config{BatchSize: 40}, Config{Threads: 8, VerifyCRC: true}})
		requireFault(t, l, 17, fault.KindChecksum, native.Checksum)
		l.Close()
	}
}

func TestSubstitutesKeepTheEpochsLengthAndHaveTheirOwnLabels(t *testing.T) {
	d := faulty(t)
	var first streamed
	for _, threads := range []int{1, 2, 8} {
		l := open(t, d, settings{order.Config{BatchSize: 8, Shuffle: true, Seed: 2}, Config{Threads: threads, VerifyCRC: true, OnError: Replace}})
		samples, replaced := 0, int32(0)
		var s streamed
		for {
			b, err := next(t, l)
			if errors.Is(err, ErrEnd) {
				break
			}
			require.NoError(t, err)
			for i, index := range b.Indices() {
				samples++
				require.Equal(t, index%10, b.Labels()[i])
				require.NotContains(t, []int64{17, 30}, index)
			}
			replaced += b.Replaced
			s.batches = append(s.batches, describe(b))
			require.NoError(t, b.Release())
		}
		require.Equal(t, 40, samples)
		require.EqualValues(t, 2, replaced)
		report := l.Report()
		require.Len(t, report, 2)
		for _, line := range report {
			require.Contains(t, []int64{17, 30}, line.Index)
			require.Equal(t, line.Index, line.Err.Record)
			require.Equal(t, l.order.Substitute(0, line.Index, 0), line.Substitute)
			require.NotEmpty(t, line.Key)
		}
		require.EqualValues(t, 2, l.Stats().Replaced)
		if first.batches == nil {
			first = s
		}
		require.Equal(t, first, s, "%d threads", threads)
		l.Close()
	}
}

func TestADatasetWithoutAnyGoodSampleFailsInsteadOfTryingForEver(t *testing.T) {
	d := dataset(t, 30, func(i int, row *catalog.Row, data []byte) []byte { return data[:40] })
	l := open(t, d, settings{order.Config{BatchSize: 4}, Config{Threads: 2, OnError: Replace}})
	_, err := next(t, l)
	var found *SampleError
	require.ErrorAs(t, err, &found)
	require.EqualValues(t, 0, found.Record)
	require.Contains(t, found.Text, "substitute")
}

func TestAMissingFileIsAnErrorThatNamesItAndCanBeReplaced(t *testing.T) {
	root := t.TempDir()
	var paths []string
	for i := range 6 {
		path := filepath.Join(root, string(rune('a'+i))+".jpg")
		require.NoError(t, os.WriteFile(path, photograph(t, i), 0o600))
		paths = append(paths, path)
	}
	require.NoError(t, os.Remove(paths[3]))
	d, err := catalog.FromFiles(paths, []int64{0, 1, 2, 3, 4, 5}, nil)
	require.NoError(t, err)
	defer d.Release()
	l := open(t, d, settings{order.Config{BatchSize: 6}, Config{Threads: 2}})
	_, err = next(t, l)
	require.ErrorIs(t, err, os.ErrNotExist)
	var found *SampleError
	require.ErrorAs(t, err, &found)
	require.Equal(t, paths[3], found.File)
	require.Equal(t, fault.KindIO, found.Code)
	l.Close()
	l = open(t, d, settings{order.Config{BatchSize: 6}, Config{Threads: 2, OnError: Replace}})
	b, err := next(t, l)
	require.NoError(t, err)
	require.EqualValues(t, 1, b.Replaced)
	require.Equal(t, b.Indices(), b.Labels())
	require.NoError(t, b.Release())
}

func TestAFaultInARecordThatWasReadAheadIsReportedTheSame(t *testing.T) {
	s := settings{order.Config{BatchSize: 4}, Config{Threads: 2, VerifyCRC: true}}
	s.Store.ReadDelay = 10 * time.Millisecond
	l := open(t, faulty(t), s)
	require.NoError(t, l.SeekTo(0, 12))
	b, err := next(t, l)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	requireFault(t, l, 17, fault.KindChecksum, native.Checksum)
}

func TestAPanicIsAnInternalErrorOfItsBatchAndIsNotReplaced(t *testing.T) {
	l := open(t, dataset(t, 8, nil), settings{order.Config{BatchSize: 4}, Config{Threads: 2, OnError: Replace}})
	context, err := native.NewContext(native.DefaultLimits())
	require.NoError(t, err)
	defer context.Close()
	w := &worker{loader: l, context: context}
	defer w.buffer.Free()
	d := newDraft(l.stream, 0, 0, 0, 4) // a bug: it has no slot
	w.fill(task{draft: d, i: 2})
	var found *SampleError
	require.ErrorAs(t, d.fault, &found)
	require.Equal(t, fault.KindInternal, found.Code)
	require.EqualValues(t, 2, found.Record)
	require.Contains(t, found.Text, "panic")
}

func TestABatchTooLargeForMemoryIsRefusedAtOpenWithTheBytesItNeeds(t *testing.T) {
	c := settings{order.Config{BatchSize: 1 << 34}, Config{Threads: 2}}.configure(t, dataset(t, 4, nil))
	defer c.Recipe.Close()
	_, err := Open(c)
	layouts, wrong := newLayouts(&c.Recipe, nil, 1<<34)
	require.NoError(t, wrong)
	require.ErrorContains(t, err, fmt.Sprintf("%d bytes", layouts[0].SlotBytes))
	require.ErrorIs(t, err, pinned.ErrMemory)
}

func TestAFaultySampleOfASubsetOfOneHasNoSubstitute(t *testing.T) {
	d := faulty(t)
	one, err := order.Subset(d.Len(), order.Part{List: []int64{17}})
	require.NoError(t, err)
	l := open(t, d, settings{order.Config{BatchSize: 1, Selection: one}, Config{Threads: 1, VerifyCRC: true, OnError: Replace}})
	_, err = next(t, l)
	var failed *SampleError
	require.ErrorAs(t, err, &failed)
	require.EqualValues(t, 17, failed.Record)
	require.Contains(t, failed.Text, "0 were tried")
}
