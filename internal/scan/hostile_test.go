package scan

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
)

// mutations of each fixture: 1,000, and as many times more as TIMES says (3 in tools/hostile.sh).
func mutations() int {
	times, err := strconv.Atoi(os.Getenv("TIMES"))
	if err != nil {
		times = 1
	}
	return 1000 * times
}

// repair makes a damaged container's own checksums right again, or nothing behind them would be tested.
var repair = map[string]func([]byte){"webdataset.tar": repairTar, "gnu.tar": repairTar, "folders.tar": repairTar, "slim.tfrecord": repairTFRecord, "folders.zip": func([]byte) {}, "deflated.zip": func([]byte) {},
	"saved/data-00000-of-00002.arrow": func([]byte) {}, "table.arrow": func([]byte) {}, "views.arrow": func([]byte) {}, "lz4.arrow": func([]byte) {}, "zstd.arrow": func([]byte) {},
	"photos.parquet": func([]byte) {}, "plain1.parquet": func([]byte) {}, "entries.parquet": func([]byte) {}, "snappy.parquet": func([]byte) {}, "zstd2.parquet": func([]byte) {}, "gzip.parquet": func([]byte) {},
	"litdata/classic/chunk-0-0.bin": func([]byte) {}, "litdata/framed/chunk-0-0.bin": func([]byte) {}, "litdata/sample/chunk-0-0.bin": func([]byte) {},
	"litdata/whole/chunk-0-0.zstd.bin": func([]byte) {}, "litdata/footer/chunk-0-0.bin": func([]byte) {}, "litdata/footer-zstd/chunk-0-0.bin": func([]byte) {},
	"mds/shard.00000.mds": func([]byte) {}, "mdszstd/shard.00000.mds.zstd": func([]byte) {}, "plain.lmdb": func([]byte) {}, "datum.lmdb": func([]byte) {}, "lz4.lmdb": func([]byte) {}, "pixels.lmdb": func([]byte) {},
	"jpeg.beton": func([]byte) {}, "mixed.beton": func([]byte) {}, "labels.rec": func([]byte) {}, "vectors.rec": func([]byte) {}}

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
		case 3: // a number as large as it goes, in whatever form one stands there
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

func TestDamagedContainersAreErrorsThatNameThemOrDatasetsThatCanBeRead(t *testing.T) {
	count := mutations()
	for name, again := range repair {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, 11))
			whole, file := fixture(t, name), filepath.Join(t.TempDir(), filepath.Base(name))
			if index, err := os.ReadFile(filepath.Join("testdata", filepath.Dir(name), litIndexName)); err == nil {
				require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), litIndexName), index, 0o644))
			}
			opened := 0
			for range count {
				data := mutate(r, whole)
				if r.IntN(4) > 0 {
					again(data)
				}
				require.NoError(t, os.WriteFile(file, data, 0o644))
				if survives(t, file) {
					opened++
				}
			}
			require.Greater(t, opened, count/50, "of so many mutations some leave a container that opens")
			require.Less(t, opened, count)
		})
	}
}

// survives opens a container and reads all that it then has.
func survives(t *testing.T, file string) bool {
	format := []string{"", "webdataset", "tar"}
	if filepath.Ext(file) != ".tar" {
		format = format[:1]
	}
	any := false
	for _, f := range format {
		d, err := Open(file, Options{Format: f})
		if err != nil {
			require.NotContains(t, []fault.Kind{fault.KindInternal, fault.KindMemory}, fault.KindOf(err), err)
			require.Contains(t, err.Error(), filepath.Base(file))
			continue
		}
		any = true
		readAll(t, d)
		d.Release()
	}
	return any
}

func readAll(t *testing.T, d *catalog.Dataset) {
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	var buffer mmap.Buffer
	defer buffer.Free()
	check := func(err error) {
		if err != nil {
			require.NotEqual(t, fault.KindInternal, fault.KindOf(err), err)
		}
	}
	for i := range d.Len() {
		at, err := d.Sample(i)
		require.NoError(t, err)
		_, err = s.Read(at, &buffer)
		check(err)
		_, err = d.Key(i)
		require.NoError(t, err)
		for _, f := range d.Fields() {
			_, err := d.FieldValue(i, f.Name)
			check(err)
		}
	}
}

func TestTruncationAtEveryBlockIsAnErrorOrASmallerDataset(t *testing.T) {
	whole, file := fixture(t, "webdataset.tar"), filepath.Join(t.TempDir(), "a.tar")
	for end := 0; end <= len(whole); end += 256 {
		require.NoError(t, os.WriteFile(file, whole[:end], 0o644))
		survives(t, file)
	}
}

func TestAMillionEmptyMembersTakeBoundedMemory(t *testing.T) {
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

// survivesAs is survives of a file of that name that holds the data.
func survivesAs(t *testing.T, name string, data []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	survives(t, file)
}

func FuzzAnyBytesAsATar(f *testing.F) {
	for _, name := range []string{"webdataset.tar", "gnu.tar", "folders.tar"} {
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
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.arrow", data)
	})
}
