package scan

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/internal/catalog"
)

func TestMain(m *testing.M) {
	os.Setenv(cache.Variable, "off") // except in tests of the cache
	os.Exit(m.Run())
}

// containers are the fixtures that can be scanned, by their kinds.
func containers(t testing.TB) map[string]string {
	files, err := filepath.Glob("testdata/*")
	require.NoError(t, err)
	found := make(map[string]string)
	for _, file := range files {
		if kind, err := kindOf(file, nil); err == nil && kind.name != "" && kind.refused == "" {
			if _, err := scan([]string{file}, kind.name, Options{}); err == nil {
				found[file] = kind.name
			}
		}
	}
	require.Greater(t, len(found), 10)
	return found
}

func TestTheScanOfEachContainerIsEncodedAndDecodedUnchanged(t *testing.T) {
	for file, kind := range containers(t) {
		want, err := scan([]string{file}, kind, Options{})
		require.NoError(t, err)
		data, err := encodeTable(want)
		require.NoError(t, err)
		found, err := decodeTable(data)
		require.NoError(t, err, file)
		again, err := encodeTable(found) // bytes are compared, because NaN does not equal NaN
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, again), file)
		for i := range want.Keys.Len() {
			require.Equal(t, want.Keys.Bytes(i), found.Keys.Bytes(i), file)
		}
	}
}

func TestEveryColumnOfAScanIsOfATypeThatIsCached(t *testing.T) {
	// What a table has once is kept as JSON, and columns are not.
	said := map[string]bool{"Root": true, "Source": true, "Shards": true, "Classes": true, "Fields": true, "Warnings": true}
	table := reflect.TypeFor[catalog.Table]()
	for i := range table.NumField() {
		f := table.Field(i)
		listed := f.Type.Kind() == reflect.Slice && isNumbers(f.Type.Elem())
		require.True(t, f.IsExported())
		require.NotEqual(t, said[f.Name], f.Type == namesType || f.Type == namesListType || isNumbers(f.Type) || listed, f.Name)
	}
}

// largeTar writes a tar that is old enough for its scan to be cached. It is so long that the label in its middle is in
// neither of the two ends that are checked.
func largeTar(t testing.TB, middle string) string {
	path := filepath.Join(t.TempDir(), "photos.tar")
	var members []string
	for i := range 400 {
		label := "0"
		if i == 200 {
			label = middle
		}
		key := strings.Repeat("k", i%9+1) + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		members = append(members, key+".jpg", "\xff\xd8"+strings.Repeat("j", 100), key+".cls", label)
	}
	require.NoError(t, os.WriteFile(path, archive(members...), 0o644))
	makeOld(t, path)
	return path
}

func makeOld(t testing.TB, path string) {
	then := time.Unix(1_700_000_000, 0)
	require.NoError(t, os.Chtimes(path, then, then))
}

// labelSum is the sum of the dataset's labels. It differs if the scan was made of other bytes.
func labelSum(t testing.TB, path string, o Options) (sum int64) {
	d := open(t, path, o)
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		sum += s.Label
	}
	return sum
}

// relabelled writes another label into the middle of the file, and keeps its size and time.
func relabelled(t testing.TB, path string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(data, []byte("\x007\x00"))
	require.Greater(t, at, 128<<10)
	data[at+1] = '8'
	require.NoError(t, os.WriteFile(path, data, 0o644))
	makeOld(t, path)
}

// useOwnCache gives the test a cache of its own.
func useOwnCache(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv(cache.Variable, dir)
	return dir
}

func TestUnchangedFilesAreScannedOnce(t *testing.T) {
	useOwnCache(t)
	path := largeTar(t, "7")
	require.EqualValues(t, 7, labelSum(t, path, Options{}))
	relabelled(t, path)
	require.EqualValues(t, 7, labelSum(t, path, Options{}), "it was scanned again")
	require.EqualValues(t, 8, labelSum(t, path, Options{Label: "cls"}), "other options need another scan")
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1_700_000_001, 0)))
	require.EqualValues(t, 8, labelSum(t, path, Options{}), "a file with another time is scanned again")
}

func TestAScanThatIsTooLargeForTheCacheIsNotCached(t *testing.T) {
	dir := useOwnCache(t)
	t.Setenv(cache.SizeVariable, "1048576")
	path := largeTar(t, "7")
	require.EqualValues(t, 7, labelSum(t, path, Options{}))
	relabelled(t, path)
	require.EqualValues(t, 7, labelSum(t, path, Options{}), "a scan of 20 kB was not cached")
	require.NoError(t, os.RemoveAll(dir))
	k := newKeeper([]string{path}, "tar", &Options{})
	defer k.cache.Close()
	table, err := scan([]string{path}, "tar", Options{})
	require.NoError(t, err)
	table.Warnings = []string{strings.Repeat("w", 1<<18)}
	k.put(table)
	require.Nil(t, k.find())
}

func TestNoScanIsCachedWithoutACache(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	path := largeTar(t, "7")
	require.EqualValues(t, 7, labelSum(t, path, Options{}))
	relabelled(t, path)
	require.EqualValues(t, 8, labelSum(t, path, Options{}))
	require.NoDirExists(t, filepath.Join(os.Getenv("HOME"), ".cache"))
}

func TestFilesThatWereJustWrittenAreScannedEachTime(t *testing.T) {
	dir := useOwnCache(t)
	path := largeTar(t, "7")
	now := time.Now()
	require.NoError(t, os.Chtimes(path, now, now))
	require.EqualValues(t, 7, labelSum(t, path, Options{}))
	require.NoDirExists(t, dir)
}

func TestAFileWhoseBeginningChangedIsScannedAgain(t *testing.T) {
	useOwnCache(t)
	path := largeTar(t, "7")
	require.EqualValues(t, 7, labelSum(t, path, Options{}))
	relabelled(t, path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("z"), 600) // inside the first image
	require.NoError(t, err)
	require.NoError(t, f.Close())
	makeOld(t, path)
	require.EqualValues(t, 8, labelSum(t, path, Options{}))
}

func TestADamagedCachedScanIsDoneAgain(t *testing.T) {
	dir := useOwnCache(t)
	path := largeTar(t, "7")
	require.EqualValues(t, 7, labelSum(t, path, Options{}))
	relabelled(t, path)
	files, err := filepath.Glob(filepath.Join(dir, "*.data"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		data[len(data)/2] ^= 1
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
	require.EqualValues(t, 8, labelSum(t, path, Options{}))
	relabelledBack := func() {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		data[bytes.Index(data, []byte("\x008\x00"))+1] = '7'
		require.NoError(t, os.WriteFile(path, data, 0o644))
		makeOld(t, path)
	}
	relabelledBack()
	require.EqualValues(t, 8, labelSum(t, path, Options{}), "the second scan was not cached")
}

func TestOnlyOneOfManyThreadsThatOpenTheSameFilesScansThem(t *testing.T) {
	dir := useOwnCache(t)
	path := largeTar(t, "7")
	hold := cache.Open(dir, cache.LeastBound*64) // keeps the cache open, as a loader of this process does
	require.NotNil(t, hold)
	defer hold.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d, err := Open(path, Options{})
			if err == nil {
				d.Release()
			}
			require.NoError(t, err)
		})
	}
	all.Wait()
	keys, err := filepath.Glob(filepath.Join(dir, "*.keys"))
	require.NoError(t, err)
	require.Len(t, keys, 1)
	info, err := os.Stat(keys[0])
	require.NoError(t, err)
	require.EqualValues(t, 32+2*32, info.Size(), "more than one head and one part was put")
}

func FuzzAnyBytesAsATableThatWasKept(f *testing.F) {
	for file, kind := range containers(f) {
		if table, err := scan([]string{file}, kind, Options{}); err == nil {
			data, err := encodeTable(table)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := decodeTable(data)
		if err != nil {
			return
		}
		d, err := catalog.FromTable(table)
		if err != nil {
			return
		}
		defer d.Release()
		for i := range d.Len() {
			s, err := d.Sample(i)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.Offset, int64(0))
		}
	})
}

func TestACachedScanWithRawImagesLargerThanTheirBytesIsNotUsed(t *testing.T) {
	table, err := scan([]string{"testdata/pixels.lmdb"}, "lmdb", Options{})
	require.NoError(t, err)
	require.NotEmpty(t, table.Raw)
	whole := table.Raw
	for what, raw := range map[string][]catalog.RawSize{
		"one too few":           whole[:len(whole)-1],
		"larger than its bytes": append([]catalog.RawSize{{Width: 60000, Height: 60000, Channels: 3}}, whole[1:]...),
		"of five channels":      append([]catalog.RawSize{{Width: 1, Height: table.Length[0] / 5, Channels: 5}}, whole[1:]...),
	} {
		table.Raw = raw
		data, err := encodeTable(table)
		require.NoError(t, err)
		_, err = decodeTable(data)
		require.ErrorIs(t, err, errKept, what)
	}
}

func TestACachedScanWithAnImageOutsideItsBlockIsNotUsed(t *testing.T) {
	table, err := scan([]string{"testdata/deflated.zip"}, "zip", Options{})
	require.NoError(t, err)
	row := slices.IndexFunc(table.Blocks, func(b catalog.BlockPlace) bool { return b.Codec != 0 })
	require.GreaterOrEqual(t, row, 0)
	for inner, want := range map[uint32]error{0: nil, 1: errKept} {
		table.Blocks[row].Inner = inner
		data, err := encodeTable(table)
		require.NoError(t, err)
		_, err = decodeTable(data)
		require.ErrorIs(t, err, want)
	}
}

func TestASelectionOfRowsAppliesToEveryColumn(t *testing.T) {
	table := &catalog.Table{Shards: make([]catalog.ShardInfo, 1), Shard: make([]uint32, 3), Offset: []int64{1, 2, 3}, Length: make([]uint32, 3),
		Label: make([]int64, 3), Blocks: make([]catalog.BlockPlace, 3), Raw: make([]catalog.RawSize, 3), Frames: make([]catalog.Frame, 3)}
	for _, key := range []string{"a", "b", "c"} {
		table.Keys.Append(key)
	}
	pickRows(table, []int64{2, 0})
	require.Equal(t, []int64{3, 1}, table.Offset)
	columns := reflect.ValueOf(table).Elem()
	for i := range columns.NumField() {
		if name := columns.Type().Field(i).Name; isNumbers(columns.Field(i).Type()) {
			require.Equal(t, 2, columns.Field(i).Len(), name)
		}
	}
}
