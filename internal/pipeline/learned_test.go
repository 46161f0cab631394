package pipeline

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
)

// Tests keep nothing in the user's cache, nor find anything there.
func init() { os.Setenv(cache.Variable, "off") }

// cached gives loaders of a test a cache of their own.
func cached(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv(cache.Variable, dir)
	return dir
}

// learning reads some epochs of a listed folder, and counts the seek points found and kept.
func learning(t testing.TB, path string, epochs int) (hash string, found, kept int64) {
	t.Helper()
	d, err := catalog.Open(path, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	return learningOf(t, d, epochs)
}

// learningOf is learning of a dataset of files without an index.
func learningOf(t testing.TB, d *catalog.Dataset, epochs int) (hash string, found, kept int64) {
	t.Helper()
	require.Equal(t, catalog.Listed, d.Kind())
	l := open(t, d, settings{order: order.Config{Seed: 3, Shuffle: true, BatchSize: 3}, Config: Config{Threads: 2}})
	hash = consume(t, l, epochs).hash
	l.Close() // the next epoch was begun, and counts too
	<-l.gone
	counts := l.learned.Counts()
	return hash, counts.Found, counts.Kept
}

// meanwhile is how many images of the second epoch may be begun before they are learned. There are two threads, and
// one may still be making an image of the first epoch when the other comes to the same image again.
const meanwhile = 1

// unlearned is the hash of the same epochs without a cache.
func unlearned(t testing.TB, path string, epochs int) string {
	dir := os.Getenv(cache.Variable)
	t.Setenv(cache.Variable, "off")
	defer t.Setenv(cache.Variable, dir)
	hash, found, kept := learning(t, path, epochs)
	require.Zero(t, found+kept)
	return hash
}

func TestLearnedSeekPointsAreUsedAndGiveTheSamePixels(t *testing.T) {
	root := folder(t, 12)
	cached(t)
	want := unlearned(t, root, 3)
	hash, found, kept := learning(t, root, 3)
	require.Equal(t, want, hash)
	require.EqualValues(t, 12, kept, "each file is learned once")
	require.GreaterOrEqual(t, found, int64(24-meanwhile), "from the second epoch on")
	hash, found, kept = learning(t, root, 3)
	require.Equal(t, want, hash)
	require.Zero(t, kept, "an earlier process has learned everything")
	require.GreaterOrEqual(t, found, int64(36))
}

func TestNoCacheIsMadeIfItIsSwitchedOff(t *testing.T) {
	root := folder(t, 4)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(cache.Variable, "off")
	learning(t, root, 1)
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, entries)
	t.Setenv(cache.Variable, "")
	_, _, kept := learning(t, root, 1)
	require.EqualValues(t, 4, kept)
	require.DirExists(t, filepath.Join(home, ".cache", "headrace"))
}

func TestAnInvalidCacheSizeIsAWarningAndTheEpochIsMade(t *testing.T) {
	root := folder(t, 4)
	dir := cached(t)
	t.Setenv(cache.SizeVariable, "much")
	d, err := catalog.Open(root, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	l := open(t, d, settings{order: order.Config{BatchSize: 2}})
	consume(t, l, 1)
	require.Contains(t, l.Warning(), `HEADRACE_CACHE_SIZE is "much"`)
	require.NoDirExists(t, dir)
}

// replace writes other images over those of a folder that keep their sizes and times.
func replace(t testing.TB, root string, images int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "*.jpg"))
	require.NoError(t, err)
	require.Len(t, files, images)
	for i, file := range files {
		before, err := os.Stat(file)
		require.NoError(t, err)
		// Bytes after an image are not part of it, so there may be any number of them.
		other := wide(t, 100+i)
		require.LessOrEqual(t, int64(len(other)), before.Size())
		require.NoError(t, os.WriteFile(file, append(other, make([]byte, int(before.Size())-len(other))...), 0o600))
		require.NoError(t, os.Chtimes(file, before.ModTime(), before.ModTime()))
	}
}

func TestFilesThatWereReplacedWithTheirSizeAndTimeKeptGiveTheirOwnPixels(t *testing.T) {
	const images = 8
	root := folder(t, images)
	files, err := filepath.Glob(filepath.Join(root, "*", "*.jpg"))
	require.NoError(t, err)
	for _, file := range files { // long enough for any other image
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(data, make([]byte, 60000-len(data))...), 0o600))
		require.NoError(t, os.Chtimes(file, time.Unix(1e9, 5), time.Unix(1e9, 5)))
	}
	cached(t)
	old, _, kept := learning(t, root, 2)
	require.EqualValues(t, images, kept)
	replace(t, root, images)
	want := unlearned(t, root, 2)
	require.NotEqual(t, old, want)
	hash, found, kept := learning(t, root, 2)
	require.Equal(t, want, hash)
	require.EqualValues(t, images, kept, "learned again")
	require.GreaterOrEqual(t, found, int64(images-meanwhile))
	hash, _, kept = learning(t, root, 2)
	require.Equal(t, want, hash)
	require.Zero(t, kept)
}

// tries counts for each of some epochs how many images the loader tried to learn. Each epoch has a loader of its own.
func tries(t testing.TB, root string, epochs int) (tried []int64) {
	t.Helper()
	for range epochs {
		d, err := catalog.Open(root, catalog.Options{})
		require.NoError(t, err)
		l := open(t, d, settings{order: order.Config{Seed: 3, Shuffle: true, BatchSize: 3}, Config: Config{Threads: 1}})
		consume(t, l, 1)
		l.Close()
		<-l.gone
		tried = append(tried, l.learned.Counts().Tried)
		d.Release()
	}
	return tried
}

func TestNothingIsLearnedWhereTheCacheIsReadOnlyOrFull(t *testing.T) {
	root := folder(t, 12)
	dir := cached(t)
	// Root may write anywhere, so the test puts a directory in the place of the lock file.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "lock"), 0o700))
	require.Equal(t, []int64{0, 0}, tries(t, root, 2))
	require.NoError(t, os.Remove(filepath.Join(dir, "lock")))
	tried := tries(t, root, 3)
	require.GreaterOrEqual(t, tried[0], int64(12), "all images, and those begun in the next epoch")
	require.Equal(t, []int64{0, 0}, tried[1:])
}

func TestNothingMoreIsLearnedAfterTheDiskWasFull(t *testing.T) {
	// This runs in a process of its own, because a limit on file sizes would also apply to the log of go test.
	const alone = "HEADRACE_TEST_FULL_DISK"
	if os.Getenv(alone) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), alone+"=1")
		text, err := command.CombinedOutput()
		require.NoError(t, err, "%s", text)
		return
	}
	root := folder(t, 40)
	dir := cached(t)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	low := before
	low.Cur = 16 // less than the head of a segment
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &low))
	tried := tries(t, root, 2)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
	require.Equal(t, []int64{0, 0}, tried)
	require.DirExists(t, dir)
}

func TestLearningIsTriedOnceForAFileThatCanHaveNoSeekPoints(t *testing.T) {
	root := folder(t, 6)
	for i, file := range filesOf(t, root) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if i%2 == 0 { // a fill byte before EOI, which an inspection does not call clean
			data = append(data[:len(data)-2:len(data)-2], 0xFF, 0xFF, 0xD9)
		}
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
	cached(t)
	want := unlearned(t, root, 1)
	hash, _, kept := learning(t, root, 1)
	require.Equal(t, want, hash)
	require.EqualValues(t, 6, kept, "for three of them it is kept that they can have none")
	require.Equal(t, []int64{0, 0}, tries(t, root, 2))
	hash, found, _ := learning(t, root, 1)
	require.Equal(t, want, hash)
	require.GreaterOrEqual(t, found, int64(3))
}

func TestADamagedCacheOfSeekPointsGivesTheSamePixels(t *testing.T) {
	root := folder(t, 6)
	dir := cached(t)
	want := unlearned(t, root, 2)
	learning(t, root, 2)
	random := rand.New(rand.NewPCG(4, 4))
	for range 30 {
		files, err := filepath.Glob(filepath.Join(dir, "*.[kd]*"))
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			for range 1 + random.IntN(40) {
				data[random.IntN(len(data))] ^= byte(1 + random.IntN(255))
			}
			require.NoError(t, os.WriteFile(file, data[:len(data)-random.IntN(len(data)/8)], 0o600))
		}
		hash, _, _ := learning(t, root, 2)
		require.Equal(t, want, hash)
	}
}

func TestDamagedFilesFailAsTheyDoWithoutACache(t *testing.T) {
	root := folder(t, 4)
	cached(t)
	learning(t, root, 1)
	files, err := filepath.Glob(filepath.Join(root, "*", "*.jpg"))
	require.NoError(t, err)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	// The damaged file keeps its length and its time.
	cut := append(bytes.Clone(data[:len(data)/3]), make([]byte, len(data)-len(data)/3)...)
	require.NoError(t, os.WriteFile(files[0], cut, 0o600))
	require.NoError(t, os.Chtimes(files[0], info.ModTime(), info.ModTime()))
	fails := func() string {
		d, err := catalog.Open(root, catalog.Options{})
		require.NoError(t, err)
		defer d.Release()
		l := open(t, d, settings{order: order.Config{Seed: 3, BatchSize: 1}, Config: Config{Threads: 1}})
		text := ""
		for range 4 * d.Len() { // several epochs, because some crops lie above the damage
			b, err := next(t, l)
			if err == nil {
				require.NoError(t, b.Release())
			} else if !errors.Is(err, ErrEnd) {
				text = err.Error()
				break
			}
		}
		l.Close()
		<-l.gone
		return text
	}
	with := fails()
	require.Contains(t, with, files[0])
	t.Setenv(cache.Variable, "off")
	require.Equal(t, fails(), with)
}
