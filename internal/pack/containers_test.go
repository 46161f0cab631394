package pack

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/internal/scan"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
)

// testArchives writes so many shards of four samples each into a folder data.
func testArchives(t *testing.T, shards int) (root string) {
	root = t.TempDir()
	for s := range shards {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := range 4 {
			key := fmt.Sprintf("%04d", 4*s+i)
			for _, m := range [][2]string{{"jpg", string(testJPEG(uint64(4*s + i)))}, {"cls", strconv.Itoa(i)}, {"txt", "caption " + key}} {
				require.NoError(t, w.WriteHeader(&tar.Header{Name: key + "." + m[0], Mode: 0o644, Size: int64(len(m[1]))}))
				_, err := w.Write([]byte(m[1]))
				require.NoError(t, err)
			}
		}
		require.NoError(t, w.Close())
		put(t, root, fmt.Sprintf("data/train-%d.tar", s), b.Bytes())
	}
	return root
}

func indexed(t *testing.T, source, out string) Summary {
	s, err := Index(context.Background(), IndexConfig{Source: source, Out: out}, nil)
	require.NoError(t, err)
	return s
}

// recordsOf are the bytes of all samples of a dataset.
func recordsOf(t *testing.T, d *catalog.Dataset) (all []string) {
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	var buffer mmap.Buffer
	defer buffer.Free()
	for i := range d.Len() {
		at, err := d.Sample(i)
		require.NoError(t, err)
		view, err := s.Read(at, &buffer)
		require.NoError(t, err)
		all = append(all, string(view.Bytes()))
	}
	return all
}

// contentOf is a text for each sample of a dataset, with its key, label, field and bytes.
func contentOf(t *testing.T, d *catalog.Dataset) (all []string) {
	for i, record := range recordsOf(t, d) {
		at, err := d.Sample(int64(i))
		require.NoError(t, err)
		key, err := d.Key(int64(i))
		require.NoError(t, err)
		text, err := d.FieldValue(int64(i), "txt")
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%s %d %v %x", key, at.Label, text, record))
	}
	return all
}

func opened(t *testing.T, path string, o catalog.Options) *catalog.Dataset {
	d, err := catalog.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func TestScannedIndexedAndPackedContainersHoldTheSameSamples(t *testing.T) {
	checkNoLeaks(t)
	root := testArchives(t, 3)
	pattern := root + "/data/train-{0..2}.tar"
	scanned, err := scan.Open(pattern, scan.Options{})
	require.NoError(t, err)
	defer scanned.Release()
	summary := indexed(t, pattern, root+"/train.hr")
	require.Equal(t, [2]int64{12, 3}, [2]int64{summary.Rows, int64(summary.Shards)})
	require.Positive(t, summary.SeekBytes)
	want := contentOf(t, scanned)
	require.Len(t, want, 12)
	require.Equal(t, want, contentOf(t, opened(t, root+"/train.hr", catalog.Options{})))
	for _, source := range []string{pattern, root + "/data", root + "/train.hr"} {
		destination := filepath.Join(t.TempDir(), "packed.hr")
		_, err := Pack(context.Background(), PackConfig{Source: source, Destination: destination}, nil)
		require.NoError(t, err)
		require.Equal(t, want, contentOf(t, opened(t, destination, catalog.Options{})), source)
		report, err := Verify(context.Background(), VerifyConfig{Source: destination, Decode: true}, nil)
		require.NoError(t, err)
		require.True(t, report.OK, "%v", report.Faults)
	}
}

func TestAnIndexFindsItsContainersFromAnyPlace(t *testing.T) {
	root := testArchives(t, 2)
	pattern := root + "/data/train-*.tar"
	beside := indexed(t, pattern, "")
	require.Equal(t, root+"/data/train.hr", beside.Destination)
	inside := indexed(t, root+"/data", "")
	require.Equal(t, root+"/data", inside.Destination)
	elsewhere := t.TempDir() + "/far/away/train.hr"
	indexed(t, pattern, elsewhere)
	want := contentOf(t, opened(t, elsewhere, catalog.Options{}))
	require.Equal(t, root+"/data", string(opened(t, elsewhere, catalog.Options{}).Manifest().Root))

	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(root, moved))
	require.Equal(t, want, contentOf(t, opened(t, moved+"/data/train.hr", catalog.Options{})),
		"an index and containers in one folder may be moved together")
	require.Equal(t, want, contentOf(t, opened(t, moved+"/data", catalog.Options{})))
	require.Equal(t, want, contentOf(t, opened(t, elsewhere, catalog.Options{Root: moved + "/data"})))
	require.ErrorContains(t, firstRead(t, elsewhere), root+"/data/train-0.tar: record 0")
}

// firstRead is the error of reading the first sample.
func firstRead(t *testing.T, path string) error {
	d := opened(t, path, catalog.Options{})
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	at, err := d.Sample(0)
	require.NoError(t, err)
	var buffer mmap.Buffer
	defer buffer.Free()
	_, err = s.Read(at, &buffer)
	return err
}

func TestAContainerThatIsNotTheIndexedOneIsRefused(t *testing.T) {
	root := testArchives(t, 1)
	file, index := root+"/data/train-0.tar", root+"/train.hr"
	indexed(t, file, index)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, firstRead(t, index))

	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(file, later, later))
	require.NoError(t, firstRead(t, index), "a copy has another time and the same bytes")

	require.NoError(t, os.WriteFile(file, append(whole, 0), 0o644))
	require.ErrorContains(t, firstRead(t, index), fmt.Sprintf("this is not the container that was indexed (expected %d bytes, found %d)", len(whole), len(whole)+1))

	other := bytes.Clone(whole)
	other[0] ^= 1
	require.NoError(t, os.WriteFile(file, other, 0o644))
	require.NoError(t, os.Chtimes(file, later, later.Add(time.Hour)))
	err = firstRead(t, index)
	require.Equal(t, fault.KindChecksum, fault.KindOf(err))
	require.ErrorContains(t, err, "the container has another time than when it was indexed, and its first and last bytes have another checksum")
}

func TestIndexingBesideContainersWithoutWritePermissionNamesTheOptionForAnotherPlace(t *testing.T) {
	root := testArchives(t, 1)
	require.NoError(t, os.Chmod(root+"/data/train-0.tar", 0o644))
	for _, dir := range []string{filepath.Dir(root), root, root + "/data"} {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	// Never unlocked, so the thread ends with the goroutine, and the user whose permissions it has with it.
	runtime.LockOSThread()
	if unix.Getuid() == 0 {
		_, err := unix.SetfsuidRetUid(65534)
		require.NoError(t, err)
		defer func() { _, _ = unix.SetfsuidRetUid(0) }()
	} else {
		require.NoError(t, os.Chmod(root+"/data", 0o555))
		defer func() { _ = os.Chmod(root+"/data", 0o755) }()
	}
	_, err := Index(context.Background(), IndexConfig{Source: root + "/data/train-0.tar"}, nil)
	require.ErrorContains(t, err, "an index goes beside its containers, where nothing may be written; out (--out) names another place for it: permission denied")
	require.Equal(t, fault.KindIO, fault.KindOf(err))
}

func TestASampleInABlockOverTheRecordLimitIsKeptWithThatVerdict(t *testing.T) {
	checkNoLeaks(t)
	for _, source := range []string{"deflated.zip", "snappy.parquet", "zstd.arrow"} {
		scanned, err := scan.Open("../scan/testdata/"+source, scan.Options{})
		require.NoError(t, err)
		defer scanned.Release()
		limited := Options{Limits: limits.Limits{MaxRecordBytes: 1}}
		dst, s := packed(t, PackConfig{Source: "../scan/testdata/" + source, Options: limited})
		require.Equal(t, map[string]int64{"limit": scanned.Len()}, s.Counts["verdict"], source)
		require.Equal(t, recordsOf(t, scanned), recordsOf(t, open(t, dst)), source)
		report, err := Verify(context.Background(), VerifyConfig{Source: dst}, nil)
		require.NoError(t, err)
		require.True(t, report.OK, "%v", report.Faults)
	}
}

func TestAnEmptyImageInAContainerIsTruncated(t *testing.T) {
	root := t.TempDir()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"0.jpg", "0.cls", "1.jpg", "1.cls"} {
		data := []byte("7")
		if name == "1.jpg" {
			data = nil
		}
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(root+"/a.tar", archive.Bytes(), 0o644))
	require.Equal(t, int64(2), indexed(t, root+"/a.tar", root+"/a.hr").Rows)
	s, err := opened(t, root+"/a.hr", catalog.Options{}).Sample(1)
	require.NoError(t, err)
	require.Equal(t, catalog.Truncated, s.Verdict)
}

func TestAnLMDBThatWasWrittenToIsRefusedEvenIfItsSizeAndTimeAreTheSame(t *testing.T) {
	data, err := os.ReadFile("../scan/testdata/plain.lmdb")
	require.NoError(t, err)
	root := t.TempDir()
	file, index := root+"/data.mdb", root+"/train.hr"
	require.NoError(t, os.WriteFile(file, data, 0o644))
	info, err := os.Stat(file)
	require.NoError(t, err)
	indexed(t, file, index)
	require.NoError(t, firstRead(t, index))

	const page, place = 4096, 16 + 128 // where a meta page has the transaction's number
	last := max(binary.LittleEndian.Uint64(data[place:]), binary.LittleEndian.Uint64(data[page+place:]))
	binary.LittleEndian.PutUint64(data[(last+1)%2*page+place:], last+1)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	require.NoError(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	require.ErrorContains(t, firstRead(t, index), fmt.Sprintf("the LMDB was written to since it was indexed, its last transaction is another (expected %d, found %d)", last, last+1))
}

func TestVerifyFindsADamagedSampleOfAContainer(t *testing.T) {
	root := testArchives(t, 1)
	file, index := root+"/data/train-0.tar", root+"/train.hr"
	indexed(t, file, index)
	verify := func() Report {
		report, err := Verify(context.Background(), VerifyConfig{Source: index}, nil)
		require.NoError(t, err)
		return report
	}
	require.True(t, verify().OK)
	d := opened(t, index, catalog.Options{})
	at, err := d.Sample(2)
	require.NoError(t, err)
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0, 0, 0}, at.Offset+30)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	report := verify()
	require.False(t, report.OK)
	require.Contains(t, fmt.Sprint(report.Faults.Listed), "the record's CRC-32C")
}

func TestVerifySaysThatContainersHaveNoIndex(t *testing.T) {
	root := testArchives(t, 2)
	for _, source := range []string{root + "/data/train-0.tar", root + "/data", root + "/data/*.tar", root + "/data/train-{0..1}.tar"} {
		_, err := Verify(context.Background(), VerifyConfig{Source: source}, nil)
		require.ErrorContains(t, err, source+": these containers have no index, so there is nothing to verify against; headrace index makes one")
		require.Equal(t, fault.KindArgument, fault.KindOf(err))
	}
	require.NoError(t, os.WriteFile(root+"/other", []byte("x"), 0o644))
	// The error stays the one that they cannot be read.
	for _, source := range []string{root + "/other", root + "/missing.tar"} {
		_, err := Verify(context.Background(), VerifyConfig{Source: source}, nil)
		require.Equal(t, fault.KindIO, fault.KindOf(err), err)
	}
}

func TestDamagedArchivesAreIndexedOrRefusedByName(t *testing.T) {
	root := testArchives(t, 1)
	file := root + "/data/train-0.tar"
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(5, 5))
	good := 0
	for range 200 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		}
		require.NoError(t, os.WriteFile(file, data[:len(data)-r.IntN(2)*r.IntN(len(data))], 0o644))
		_, err := Index(context.Background(), IndexConfig{Source: file, Out: root + "/train.hr"}, nil)
		if err != nil {
			require.NotEqual(t, fault.KindInternal, fault.KindOf(err), err)
			require.ErrorContains(t, err, file)
			continue
		}
		good++
		contentOf(t, opened(t, root+"/train.hr", catalog.Options{}))
	}
	require.Positive(t, good)
}

func TestARecordThatDiffersFromItsContainersChecksumEndsIndexingAndPacking(t *testing.T) {
	whole, err := os.ReadFile("../scan/testdata/slim.tfrecord")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a.tfrecord")
	whole[bytes.Index(whole, []byte("\xff\xd8"))+100] ^= 1 // inside the first image
	require.NoError(t, os.WriteFile(file, whole, 0o644))
	const want = "a.tfrecord: record 0 (a/0) at byte 12: bad: the checksum that the container has of the record differs"
	_, err = Index(context.Background(), IndexConfig{Source: file}, nil)
	require.ErrorContains(t, err, want)
	_, err = Pack(context.Background(), PackConfig{Source: file, Destination: file + ".hr"}, nil)
	require.ErrorContains(t, err, want)
}

func TestAPatternOfParquetFilesIsPackedAsTheFilesAre(t *testing.T) {
	data, err := os.ReadFile("../scan/testdata/photos.parquet")
	require.NoError(t, err)
	root := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet"} {
		put(t, root, name, data)
	}
	for _, text := range []string{"/*.parquet", "/{a,b}.parquet", "/a.parquet::" + root + "/b.parquet"} {
		want, err := scan.Open(root+text, scan.Options{})
		require.NoError(t, err)
		t.Cleanup(want.Release)
		dst, _ := packed(t, PackConfig{Source: root + text})
		require.Equal(t, recordsOf(t, want), recordsOf(t, open(t, dst)), text)
	}
}
