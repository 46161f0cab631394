package decoder

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/native"
)

// Tests keep nothing in the user's cache, nor find anything there.
func init() { os.Setenv(cache.Variable, "off") }

// decodedTwice makes a task in two decoders, one after the other, and counts the seek points found and kept.
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
		counts := d.learned.Counts()
		found, kept = found+counts.Found, kept+counts.Kept
	}
	return first, second, found, kept
}

func TestAnImageIsDecodedWithTheSeekPointsLearnedOfItsFileOrItsBytes(t *testing.T) {
	key := native.Key{Seed: 4, Sample: 9}
	for i, encoded := range photographs() {
		encoded = append(bytes.Clone(encoded), make([]byte, 5000)...) // nothing is learned of small files
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

func TestAFileThatAProgramOpensIsDecodedWithTheIndexBesideIt(t *testing.T) {
	t.Setenv(cache.Variable, filepath.Join(t.TempDir(), "cache"))
	key := native.Key{Seed: 4, Sample: 9}
	root := t.TempDir()
	encoded := append(bytes.Clone(photographs()[3]), make([]byte, 5000)...) // nothing is learned of small files
	path := filepath.Join(root, "class", "one.jpg")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, encoded, 0o600))
	_, err := pack.Index(context.Background(), pack.IndexConfig{Source: root}, nil)
	require.NoError(t, err)
	want := alone(t, encoded, key)
	first, second, found, kept := decodedTwice(t, func(into []byte) Task { return inFile(path, key, into) })
	require.Equal(t, [2][]byte{want, want}, [2][]byte{first, second})
	require.EqualValues(t, []int64{2, 0}, []int64{found, kept})

	require.NoError(t, os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	first, second, found, kept = decodedTwice(t, func(into []byte) Task { return inFile(path, key, into) })
	require.Equal(t, [2][]byte{want, want}, [2][]byte{first, second})
	require.EqualValues(t, []int64{1, 1}, []int64{found, kept}, "the file is another version than the indexed one")
}

func TestAFileThatWasReplacedWithItsSizeAndTimeKeptGivesItsOwnPixels(t *testing.T) {
	key := native.Key{Seed: 4, Sample: 9}
	padded := func(i int) []byte { // all to the same size
		return append(bytes.Clone(photographs()[i]), make([]byte, 20000-len(photographs()[i]))...)
	}
	for _, indexed := range []bool{false, true} {
		t.Setenv(cache.Variable, filepath.Join(t.TempDir(), "cache"))
		root := t.TempDir()
		path := filepath.Join(root, "class", "one.jpg")
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
		write := func(i int) {
			require.NoError(t, os.WriteFile(path, padded(i), 0o600))
			require.NoError(t, os.Chtimes(path, time.Unix(1e9, 5), time.Unix(1e9, 5)))
		}
		task := func(into []byte) Task { return inFile(path, key, into) }
		write(3)
		if indexed {
			_, err := pack.Index(context.Background(), pack.IndexConfig{Source: root}, nil)
			require.NoError(t, err)
		}
		first, second, _, _ := decodedTwice(t, task)
		want := alone(t, padded(3), key)
		require.Equal(t, [2][]byte{want, want}, [2][]byte{first, second})
		write(4)
		want = alone(t, padded(4), key)
		first, second, _, kept := decodedTwice(t, task)
		require.Equal(t, [2][]byte{want, want}, [2][]byte{first, second})
		require.EqualValues(t, 1, kept, "learned again, once")
	}
}

func TestTasksOfTheSameBytesLearnTheirSeekPointsOnce(t *testing.T) {
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
	require.EqualValues(t, 1, d.learned.Counts().Kept)
}

func TestNothingIsLearnedOfSmallImagesAndOfImagesThatAreNoJPEG(t *testing.T) {
	t.Setenv(cache.Variable, filepath.Join(t.TempDir(), "cache"))
	key := native.Key{Seed: 4, Sample: 9}
	raw := append([]byte("P6 64 64 255\n"), make([]byte, 3*64*64)...)
	for _, encoded := range [][]byte{photographs()[0], raw} {
		held := stored(t, encoded)
		_, _, found, kept := decodedTwice(t, func(into []byte) Task { return inMemory(held, key, into) })
		require.Zero(t, found+kept)
	}
}
