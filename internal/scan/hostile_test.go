package scan

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
)

// mutations returns how many mutations each fixture gets: 50, multiplied by the variable TIMES if it is set (60 in
// tools/hostile.sh).
func mutations() int {
	times, err := strconv.Atoi(os.Getenv("TIMES"))
	if err != nil {
		times = 1
	}
	return 50 * times
}

// repair corrects a damaged container's own checksums. Otherwise most damage would be noticed only by them.
var repair = map[string]func([]byte){".tar": repairTar, ".tfrecord": repairTFRecord}

// endings of the fixtures that are containers.
var endings = []string{".tar", ".tfrecord", ".zip", ".arrow", ".parquet", ".bin", ".mds", ".zstd", ".gz", ".bz2", ".br", ".snappy", ".lmdb", ".beton", ".rec"}

// unreadable fixtures cannot be opened, whether whole or damaged.
var unreadable = []string{"several.lmdb", "mixed.lmdb", "encrypted.parquet"}

// openable are all fixtures that open.
func openable(t testing.TB) (names []string) {
	require.NoError(t, filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && slices.Contains(endings, filepath.Ext(path)) && !slices.Contains(unreadable, e.Name()) {
			names = append(names, strings.TrimPrefix(path, "testdata/"))
		}
		return err
	}))
	require.Greater(t, len(names), 50)
	return names
}

// putBeside copies the index that belongs to a fixture into the folder of the fixture's copy.
func putBeside(t testing.TB, name, dir string) {
	if index, err := os.ReadFile(filepath.Join("testdata", filepath.Dir(name), litIndexName)); err == nil {
		require.NoError(t, os.WriteFile(filepath.Join(dir, litIndexName), index, 0o644))
	}
}

// repairTar gives a right checksum to every block that was a header or looks like one.
func repairTar(data []byte) {
	for at := 0; at+512 <= len(data); at += 512 {
		block := data[at : at+512]
		if string(block[257:262]) != "ustar" {
			continue
		}
		sum := 8 * int(' ')
		for i, c := range block {
			if i < 148 || i >= 156 {
				sum += int(c)
			}
		}
		copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	}
}

// repairTFRecord gives right checksums to the lengths, as far as they lead from record to record.
func repairTFRecord(data []byte) {
	for at := 0; at+12 <= len(data); {
		crc := crc32.Checksum(data[at:at+8], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(data[at+8:], (crc>>15|crc<<17)+0xa282ead8)
		length := binary.LittleEndian.Uint64(data[at:])
		if length > uint64(len(data)) {
			return
		}
		at += 12 + int(length) + 4
	}
}

// mutate damages a copy of data in one to four places.
func mutate(r *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	for range 1 + r.IntN(4) {
		if len(data) < 2 {
			return data
		}
		at := r.IntN(len(data))
		switch r.IntN(8) {
		case 0, 1:
			data[at] ^= 1 << r.IntN(8)
		case 2:
			data[at] = byte(r.Uint32())
		case 3: // a number as large as possible, in one of several forms
			copy(data[at:], [][]byte{bytes.Repeat([]byte{0xff}, 8), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, []byte("77777777777\x00"), bytes.Repeat([]byte{0}, 16)}[r.IntN(4)])
		case 4:
			data = data[:at]
		case 5: // a stretch is there twice
			end := at + r.IntN(min(1024, len(data)-at)+1)
			data = append(data[:end:end], data[at:]...)
		case 6: // a stretch is gone
			end := at + r.IntN(min(1024, len(data)-at)+1)
			data = append(data[:at:at], data[end:]...)
		case 7: // two stretches change places
			other, n := r.IntN(len(data)), r.IntN(512)
			for i := range min(n, len(data)-max(at, other)) {
				data[at+i], data[other+i] = data[other+i], data[at+i]
			}
		}
	}
	return data
}

func TestDamagedContainersAreErrorsThatNameThemOrAreReadable(t *testing.T) {
	count := mutations()
	for _, name := range openable(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := fnv.New64a()
			seed.Write([]byte(name))
			r := rand.New(rand.NewPCG(7, seed.Sum64()))
			whole, file := fixture(t, name), filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(name)), filepath.Base(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			putBeside(t, name, filepath.Dir(file))
			again := repair[filepath.Ext(name)]
			count, opened := count, 0
			if filepath.Ext(name) == ".bz2" { // each decoder of which takes megabytes
				count /= 4
			}
			for range count {
				data := mutate(r, whole)
				if again != nil && r.IntN(4) > 0 {
					again(data)
				}
				require.NoError(t, os.WriteFile(file, data, 0o644))
				if opensOrFailsCleanly(t, file) {
					opened++
				}
			}
			if ext := filepath.Ext(name); ext != ".gz" && ext != ".bz2" { // their checksums cover all bytes
				require.Positive(t, opened, "no mutation left a container that opens")
			}
			require.Less(t, opened, count)
		})
	}
}

// These are bounds for a container of some kilobytes: on its time, and on the memory that a block may have and a scan
// may hold. The memory that other cases take at the same time counts, too.
const (
	mostSeconds = 30
	mostMemory  = 1 << 30
)

// oneOf is how many containers have to open until one is indexed as well, which decodes each image.
const oneOf = 8

var cases atomic.Int64

// opensOrFailsCleanly opens a container and reads all its samples, or checks the error. It says whether the container
// opened.
func opensOrFailsCleanly(t testing.TB, file string) bool {
	formats := []string{"", "webdataset", "tar"}
	if filepath.Ext(file) != ".tar" {
		formats = formats[:1]
	}
	late := time.AfterFunc(mostSeconds*time.Second, func() {
		kept, _ := os.ReadFile(file)
		panic(fmt.Sprintf("%s takes more than %d s: %x", file, mostSeconds, kept))
	})
	defer late.Stop()
	before := allocated()
	any := false
	options := Options{}
	if filepath.Base(filepath.Dir(file)) == "mdsall" {
		options.Image = "pixels"
	}
	if filepath.Ext(file) == ".parquet" && strings.HasPrefix(filepath.Base(file), "vectors") {
		options.Fields = vectorColumns
	}
	for _, options.Format = range formats {
		d, err := Open(file, options)
		if err != nil {
			require.NotContains(t, []fault.Kind{fault.KindInternal, fault.KindMemory}, fault.KindOf(err), err)
			require.Contains(t, err.Error(), filepath.Base(file))
			requirePlace(t, err)
			continue
		}
		any = true
		ReadAll(t, d)
		d.Release()
		if n := cases.Add(1); n%oneOf == 0 {
			AlsoIndex(t, file, options)
		}
	}
	require.Less(t, allocated()-before, uint64(mostMemory), file)
	return any
}

// allocated is how many bytes were allocated on Go's heap so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// requirePlace requires that an error about something inside a container has the record or the offset.
func requirePlace(t testing.TB, err error) {
	var e *catalog.Error
	require.ErrorAs(t, err, &e)
	// Kinds of errors that are about the whole file.
	whole := []fault.Kind{fault.KindUnsupported, fault.KindEmpty, fault.KindArgument}
	if e.Record < 0 && e.Offset < 0 && !strings.Contains(e.Text, "of another kind than format says") {
		require.Contains(t, whole, e.Kind, err)
	}
}

// ReadAll reads every sample and field, as a loader and a program do.
func ReadAll(t testing.TB, d *catalog.Dataset) {
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	var buffer mmap.Buffer
	defer buffer.Free()
	check := func(i int64, err error) {
		if err == nil {
			return
		}
		require.NotEqual(t, fault.KindInternal, fault.KindOf(err), err)
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		require.NotEmpty(t, e.File, err)
		require.Equal(t, i, e.Record, err)
		require.True(t, e.Offset >= 0 || e.Key != "", err)
	}
	for i := range d.Len() {
		at, err := d.Sample(i)
		require.NoError(t, err)
		_, err = s.Read(at, &buffer)
		check(i, err)
		_, err = d.Key(i)
		require.NoError(t, err)
		for _, f := range d.Fields() {
			_, err := d.FieldValue(i, f.Name)
			check(i, err)
		}
	}
}

// Small containers are cut at every byte, and so at every boundary in them; Arrow at every word, archives at each half
// of a block, an LMDB every few words and at each page.
func TestAContainerTruncatedAnywhereIsAnErrorOrASmallerDataset(t *testing.T) {
	for name, step := range map[string]int{"webdataset.tar": 256, "gnu.tar": 256, "folders.tar": 256, "nested.tar": 256, "slim.tfrecord": 1, "folders.zip": 1, "deflated.zip": 1,
		"mds/shard.00000.mds": 1, "mdszstd/shard.00000.mds.zstd": 1, "plain.lmdb": 56, "datum.lmdb": 56, "table.arrow": 4, "saved/data-00000-of-00002.arrow": 4, "grown.arrow": 8, "replacedzstd.arrow": 8, "labels.rec": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, file := fixture(t, name), filepath.Join(t.TempDir(), filepath.Base(name))
			if again := repair[filepath.Ext(name)]; again != nil {
				again(whole)
			}
			require.NoError(t, os.WriteFile(file, whole, 0o644))
			require.True(t, opensOrFailsCleanly(t, file))
			for end := len(whole) - 1; end >= 0; end-- {
				if end%step == 0 || step > 1 && end%4096 < 2 {
					require.NoError(t, os.Truncate(file, int64(end)))
					opensOrFailsCleanly(t, file)
				}
			}
		})
	}
}

func TestAMillionEmptyMembersOfATarTakeBoundedMemory(t *testing.T) {
	count := 1_000_000
	if testing.Short() {
		count /= 10
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "0.jpg", Mode: 0o644}))
	block := bytes.Clone(b.Bytes())
	file := filepath.Join(t.TempDir(), "a.tar")
	f, err := os.Create(file)
	require.NoError(t, err)
	buffer := make([]byte, 0, 512*1000)
	for i := range count {
		copy(block, fmt.Sprintf("%08d.cls", i))
		if i == 0 {
			copy(block, "00000000.jpg")
		}
		repairTar(block)
		if buffer = append(buffer, block...); len(buffer) == cap(buffer) || i == count-1 {
			_, err := f.Write(buffer)
			require.NoError(t, err)
			buffer = buffer[:0]
		}
	}
	require.NoError(t, f.Close())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := open(t, file, Options{Format: "webdataset"})
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Equal(t, int64(count), d.Len())
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(count)*128, "bytes a member")
}

// survivesAs writes data into a file of the given name and calls opensOrFailsCleanly.
func survivesAs(t *testing.T, name string, data []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	opensOrFailsCleanly(t, file)
}

func FuzzAnyBytesAsATar(f *testing.F) {
	for _, name := range []string{"webdataset.tar", "gnu.tar", "folders.tar", "nested.tar"} {
		f.Add(fixture(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		repairTar(data)
		survivesAs(t, "a.tar", data)
	})
}

func FuzzAnyBytesAsRecordIO(f *testing.F) {
	f.Add(fixture(f, "labels.rec"))
	f.Add(fixture(f, "vectors.rec"))
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.rec", data)
	})
}

func FuzzAnyBytesAsABeton(f *testing.F) {
	f.Add(fixture(f, "jpeg.beton"))
	f.Add(fixture(f, "mixed.beton"))
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.beton", data)
	})
}

func FuzzAnyBytesAsLMDB(f *testing.F) {
	f.Add(fixture(f, "plain.lmdb"))
	f.Add(fixture(f, "datum.lmdb"))
	f.Add(fixture(f, "lz4.lmdb"))
	f.Add(fixture(f, "pixels.lmdb"))
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.lmdb", data)
	})
}

func FuzzAnyBytesAsMDS(f *testing.F) {
	f.Add(fixture(f, "mds/shard.00000.mds"))
	f.Add(fixture(f, "mdszstd/shard.00000.mds.zstd"))
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.mds", data)
	})
}

func FuzzAnyBytesAsAZip(f *testing.F) {
	f.Add(fixture(f, "folders.zip"))
	f.Add(fixture(f, "deflated.zip"))
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.zip", data)
	})
}

func FuzzAnyBytesAsTFRecords(f *testing.F) {
	f.Add(fixture(f, "slim.tfrecord"))
	f.Fuzz(func(t *testing.T, data []byte) {
		repairTFRecord(data)
		survivesAs(t, "a.tfrecord", data)
	})
}

func FuzzAnyBytesAsArrow(f *testing.F) {
	f.Add(fixture(f, "saved/data-00000-of-00002.arrow"))
	f.Add(fixture(f, "table.arrow"))
	f.Add(fixture(f, "dictionaries.arrow"))
	f.Add(fixture(f, "grownzstd.arrow"))
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.arrow", data)
	})
}

func TestColumnsThatBeginLateInAFileAreBoundedByTheFilesSize(t *testing.T) {
	note := func(size int64) (columns int, err error) {
		p := &part{size: size, columns: make(map[string]*column)}
		for err == nil && columns < 30 {
			columns++
			err = p.note(1<<20, &cell{name: fmt.Sprint(columns), kind: floatCell}, false)
		}
		return columns, err
	}
	columns, err := note(1000)
	require.ErrorIs(t, err, formats.ErrLimit)
	require.Equal(t, 17, columns)
	_, err = note(1 << 40)
	require.NoError(t, err)
}
