package catalog

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSixtyFourThreadsThatReadAnIndexFirstSeeTheSameRows(t *testing.T) {
	const rows = 3*RowsPerBatch + 11
	dir := writeDataset(t, rows)
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	var readers sync.WaitGroup
	for n := range uint64(64) {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(n, 1))
			for range 500 {
				i := r.Int64N(rows)
				s, err := d.Sample(i)
				want := testRow(i)
				if !assert.NoError(t, err) || !assert.Equal(t, want.Offset, s.Offset) || !assert.Equal(t, want.CRC32C, s.CRC32C) {
					return
				}
				key, err := d.Key(i)
				if !assert.NoError(t, err) || !assert.Equal(t, want.Key, key) {
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestSampleAllocatesNothing(t *testing.T) {
	d, err := Open(writeDataset(t, 1000), Options{})
	require.NoError(t, err)
	defer d.Release()
	i := int64(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := d.Sample(i % 1000); err != nil {
			t.Fatal(err)
		}
		i += 7
	}))
}

func TestReferencesKeepTheIndexUntilTheLastIsReleased(t *testing.T) {
	d, err := Open(writeDataset(t, 10), Options{})
	require.NoError(t, err)
	d.Retain()
	d.Release()
	_, err = d.Sample(3)
	require.NoError(t, err)
	d.Release()
	require.Panics(t, func() { _, _ = d.Sample(3) }, "nothing of it is mapped any more")
}

func BenchmarkSample(b *testing.B) {
	d, err := Open(writeDataset(b, RowsPerBatch), Options{})
	require.NoError(b, err)
	defer d.Release()
	for i := int64(0); b.Loop(); i++ {
		if _, err := d.Sample(i * 7919 % RowsPerBatch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirstTouchOfABatch(b *testing.B) {
	d, err := Open(writeDataset(b, RowsPerBatch), Options{})
	require.NoError(b, err)
	defer d.Release()
	for b.Loop() {
		d.index.batches[0].valid.Store(nil)
		if _, err := d.Sample(0); err != nil {
			b.Fatal(err)
		}
	}
}
