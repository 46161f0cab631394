package decoder

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/native"
)

// Tests keep nothing in the user's cache, nor find anything there.
func init() { os.Setenv(cache.Variable, "off") }

// decodedTwice makes each task in a decoder of its own and then again, and says what was found and kept.
func decodedTwice(t *testing.T, make func(into []byte) Task) (first, second []byte, found, kept int64) {
	t.Helper()
	into := memory(t, size)
	for range 2 {
		d, err := Open(Config{Threads: 1, Compile: compile})
		require.NoError(t, err)
		w, err := d.Submit([]Task{make(into)})
		require.NoError(t, err)
		failed, err := w.Wait(time.Minute)
		require.NoError(t, err)
		require.Zero(t, failed)
		w.Close()
		d.Close()
		<-d.gone
		first, second = second, bytes.Clone(into)
		f, k := d.learned.Counts()
		found, kept = found+f, kept+k
	}
	return first, second, found, kept
}

func TestAnImageIsMadeByThePointsThatWereLearnedOfItsFileOrItsBytes(t *testing.T) {
	key := native.Key{Seed: 4, Sample: 9}
	for i, encoded := range photographs() {
		encoded = append(bytes.Clone(encoded), make([]byte, 5000)...) // small ones are not worth it
		want := alone(t, encoded, key)
		t.Setenv(cache.Variable, filepath.Join(t.TempDir(), "cache"))
		path := writeFile(t, encoded)
		first, second, found, kept := decodedTwice(t, func(into []byte) Task { return inFile(path, key, into) })
		require.Equal(t, want, first)
		require.Equal(t, want, second)
		require.EqualValues(t, []int64{1, 1}, []int64{found, kept}, "photograph %d", i)

		held := stored(t, encoded)
		first, second, found, kept = decodedTwice(t, func(into []byte) Task { return inMemory(held, key, into) })
		require.Equal(t, want, first)
		require.Equal(t, want, second)
		require.EqualValues(t, []int64{1, 1}, []int64{found, kept}, "bytes of photograph %d", i)
	}
}

func TestOtherImagesOfTheSameBytesUseWhatTheFirstOneLearned(t *testing.T) {
	t.Setenv(cache.Variable, filepath.Join(t.TempDir(), "cache"))
	encoded := append(bytes.Clone(photographs()[3]), make([]byte, 5000)...)
	held := stored(t, encoded)
	d, err := Open(Config{Threads: 1, Compile: compile})
	require.NoError(t, err)
	var tasks []Task
	var results [][]byte
	for i := range uint64(4) {
		into := memory(t, size)
		task := inMemory(held, native.Key{Seed: i}, into)
		task.SameImage = i > 0
		tasks, results = append(tasks, task), append(results, into)
	}
	w, err := d.Submit(tasks)
	require.NoError(t, err)
	_, err = w.Wait(time.Minute)
	require.NoError(t, err)
	for i := range results {
		require.Equal(t, alone(t, encoded, native.Key{Seed: uint64(i)}), results[i])
	}
	w.Close()
	d.Close()
	<-d.gone
	_, kept := d.learned.Counts()
	require.EqualValues(t, 1, kept)
}

func TestOfPNGsAndSmallImagesNothingIsAskedNorKept(t *testing.T) {
	t.Setenv(cache.Variable, filepath.Join(t.TempDir(), "cache"))
	key := native.Key{Seed: 4, Sample: 9}
	raw := append([]byte("P6 64 64 255\n"), make([]byte, 3*64*64)...)
	for _, encoded := range [][]byte{photographs()[0], raw} {
		held := stored(t, encoded)
		_, _, found, kept := decodedTwice(t, func(into []byte) Task { return inMemory(held, key, into) })
		require.Zero(t, found+kept)
	}
}
