package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func eachBackend(t *testing.T, test func(t *testing.T, o mmap.Options)) {
	for _, backend := range []mmap.Backend{mmap.Auto, mmap.Pread} {
		t.Run(backend.String(), func(t *testing.T) { test(t, mmap.Options{Backend: backend}) })
	}
}

// checkAll reads every sample, in an order that jumps between shards.
func checkAll(t *testing.T, want set, s *Store, d *catalog.Dataset) {
	t.Helper()
	b := buffer(t)
	for i := range want.bytes {
		i = i * 7 % len(want.bytes)
		view, err := s.Read(sample(t, d, int64(i)), b)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want.bytes[i], view.Bytes()), "sample %d", i)
	}
	b.Free()
}

func TestEverySampleOfEveryKindOfDatasetIsReadAsItsBytes(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		packed := newPacked(t, 5, 10)
		s, d := openSet(t, packed.root, o)
		checkAll(t, packed, s, d)

		indexed := newIndexed(t, 20)
		s, d = openSet(t, indexed.root, o)
		require.Equal(t, catalog.Indexed, d.Kind())
		checkAll(t, indexed, s, d)

		for _, name := range []string{catalog.ManifestName, catalog.IndexFileName(0)} {
			require.NoError(t, os.Remove(filepath.Join(indexed.root, name)))
		}
		s, d = openSet(t, indexed.root, o)
		require.Equal(t, catalog.Listed, d.Kind())
		b := buffer(t)
		for i := range d.Len() {
			view, err := s.Read(sample(t, d, i), b)
			require.NoError(t, err)
			path, err := d.Path(i)
			require.NoError(t, err)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, data, view.Bytes())
		}
		b.Free()
	})
}

func TestMoreShardsThanMayBeOpenAreReadByManyThreads(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		want := newPacked(t, 40, 3)
		s, d := openSet(t, want.root, o)
		s.shards.most = 4
		before := countDescriptors(t)
		var group sync.WaitGroup
		for g := range 64 {
			group.Go(func() {
				var b mmap.Buffer
				defer b.Free()
				for i := range 200 {
					n := (g*31 + i*17) % len(want.bytes)
					found, err := d.Sample(int64(n))
					if !assert.NoError(t, err) {
						return
					}
					view, err := s.Read(found, &b)
					if !assert.NoError(t, err) || !assert.True(t, bytes.Equal(want.bytes[n], view.Bytes())) {
						return
					}
				}
			})
		}
		group.Wait()
		assert.LessOrEqual(t, countDescriptors(t), before+4)
		assert.LessOrEqual(t, s.shards.count, 4)
	})
}

func TestTheStoreReadsOnAfterTheProgramUsedUpTheDescriptors(t *testing.T) {
	want := newPacked(t, 12, 1)
	s, d := openSet(t, want.root, mmap.Options{})
	b := buffer(t)
	read := func(i int64) error {
		view, err := s.Read(sample(t, d, i), b)
		if err == nil {
			assert.Equal(t, want.bytes[i], view.Bytes())
		}
		return err
	}
	for i := range int64(10) {
		require.NoError(t, read(i))
	}
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = 3 // nothing can be opened, even if a file is closed first
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	err := read(10)
	low.Cur = uint64(highestDescriptor(t)) + 1
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	var failures []error
	for i := range int64(12) {
		failures = append(failures, read(i))
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	assert.ErrorIs(t, err, unix.EMFILE)
	assert.ErrorContains(t, err, catalog.ShardName(10))
	assert.NoError(t, errors.Join(failures...))
	b.Free()
}

// highestDescriptor is the highest descriptor in use. A limit of one more leaves only those below it that are closed.
func highestDescriptor(t *testing.T) int {
	t.Helper()
	highest := 0
	for fd := range 1000 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			highest = fd
		}
	}
	return highest
}

func TestAShardOfAnotherSizeThanTheManifestSaysIsAnErrorWithBothSizes(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		for _, change := range []struct {
			by   int64
			kind fault.Kind
		}{{-1, fault.KindTruncated}, {-30_000, fault.KindTruncated}, {1, fault.KindBadFile}} {
			want := newPacked(t, 2, 5)
			path := filepath.Join(want.root, catalog.ShardName(1))
			status, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(path, status.Size()+change.by))
			s, d := openSet(t, want.root, o)
			b := buffer(t)
			_, err = s.Read(sample(t, d, 4), b)
			require.NoError(t, err, "the other shard is whole")
			_, err = s.Read(sample(t, d, 5), b)
			var e *catalog.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, change.kind, e.Kind)
			assert.Equal(t, path, e.File)
			assert.EqualValues(t, 5, e.Record)
			assert.Contains(t, e.Text, "expected 32256 bytes, found")
			b.Free()
		}
	})
}

func TestAShardCutWhileItIsOpenIsTruncatedOnlyForTheSamplesThatItLost(t *testing.T) {
	eachBackend(t, func(t *testing.T, o mmap.Options) {
		want := newPacked(t, 1, 10)
		s, d := openSet(t, want.root, o)
		checkAll(t, want, s, d)
		path := filepath.Join(want.root, catalog.ShardName(0))
		require.NoError(t, os.Truncate(path, stride*5))
		b := buffer(t)
		for i := range 10 {
			view, err := s.Read(sample(t, d, int64(i)), b)
			if i < 5 {
				require.NoError(t, err)
				require.Equal(t, want.bytes[i], view.Bytes())
				continue
			}
			var e *catalog.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, fault.KindTruncated, e.Kind)
			assert.EqualValues(t, i, e.Record)
			assert.EqualValues(t, stride*5, e.Offset, "where the file ends")
			assert.Contains(t, err.Error(), "found 30720")
			assert.Equal(t, 1, strings.Count(err.Error(), path))
		}
	})
}

func TestAnIndexedFileThatChangedIsAnErrorThatSaysWhatToDo(t *testing.T) {
	want := newIndexed(t, 3)
	s, d := openSet(t, want.root, mmap.Options{})
	b := buffer(t)
	path, err := d.Path(1)
	require.NoError(t, err)
	status, err := os.Stat(path)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, make([]byte, status.Size()), 0o600))
	later := status.ModTime().Add(time.Millisecond)
	require.NoError(t, os.Chtimes(path, later, later))
	for _, c := range []struct {
		size int64
		kind fault.Kind
		says string
	}{
		{status.Size(), fault.KindChecksum, fmt.Sprintf("another checksum (expected %08x, found ", crc32.Checksum(want.bytes[1], castagnoli))},
		{status.Size() + 1, fault.KindBadFile, fmt.Sprintf("(expected %d bytes, found %d)", status.Size(), status.Size()+1)},
		{0, fault.KindBadFile, fmt.Sprintf("(expected %d bytes, found 0)", status.Size())},
	} {
		require.NoError(t, os.Truncate(path, c.size))
		_, err = s.Read(sample(t, d, 1), b)
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, c.kind, e.Kind)
		assert.Equal(t, path, e.File)
		assert.EqualValues(t, 1, e.Record)
		assert.Contains(t, e.Text, c.says)
		assert.Contains(t, e.Text, "; run headrace index again")
	}
	require.NoError(t, os.Remove(path))
	_, err = s.Read(sample(t, d, 1), b)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.Read(sample(t, d, 2), b)
	assert.NoError(t, err)
}

func TestAnIndexedFileWithAnotherTimeAndTheSameBytesIsRead(t *testing.T) {
	want := newIndexed(t, 3)
	s, d := openSet(t, want.root, mmap.Options{})
	b := buffer(t)
	for i := range want.bytes {
		path, err := d.Path(int64(i))
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
		view, err := s.Read(sample(t, d, int64(i)), b)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want.bytes[i], view.Bytes()))
	}
}

func TestAMissingShardIsAnErrorUntilItComesBack(t *testing.T) {
	want := newPacked(t, 2, 2)
	path := filepath.Join(want.root, catalog.ShardName(1))
	require.NoError(t, os.Rename(path, path+".away"))
	s, d := openSet(t, want.root, mmap.Options{})
	b := buffer(t)
	_, err := s.Read(sample(t, d, 2), b)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, path)
	require.NoError(t, os.Rename(path+".away", path))
	_, err = s.Read(sample(t, d, 2), b)
	assert.NoError(t, err)
}

func TestARecordOverTheLimitIsRefusedBeforeItIsRead(t *testing.T) {
	for _, want := range []set{newPacked(t, 1, 2), newIndexed(t, 2)} {
		_, d := openSet(t, want.root, mmap.Options{})
		s, err := Open(d, Options{MaxRecordBytes: 1000})
		require.NoError(t, err)
		_, err = s.Read(sample(t, d, 1), buffer(t))
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, fault.KindLimit, e.Kind)
		assert.Contains(t, e.Text, "max_record_bytes is 1000")
		s.Close()
	}
	// A listed file's length is known only once it is opened.
	path := filepath.Join(t.TempDir(), "long.jpg")
	require.NoError(t, os.WriteFile(path, make([]byte, 1001), 0o600))
	listed, err := catalog.FromFiles([]string{path}, nil, nil)
	require.NoError(t, err)
	defer listed.Release()
	inPlace, err := Open(listed, Options{MaxRecordBytes: 1000})
	require.NoError(t, err)
	defer inPlace.Close()
	_, err = inPlace.Read(sample(t, listed, 0), buffer(t))
	var limit *catalog.Error
	require.ErrorAs(t, err, &limit)
	assert.Equal(t, fault.KindLimit, limit.Kind)
	assert.Equal(t, "the record has 1001 bytes, max_record_bytes is 1000", limit.Clause())

	d, err := catalog.FromFiles([]string{"/dev/zero"}, nil, nil)
	require.NoError(t, err)
	defer d.Release()
	_, err = Open(d, Options{MaxRecordBytes: 0})
	assert.Error(t, err)
	s, err := Open(d, Options{MaxRecordBytes: 1000})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Read(catalog.Sample{Length: catalog.UnknownLength}, buffer(t))
	assert.ErrorIs(t, err, mmap.ErrNotRegular)
}

func TestAnIndexThatNamesBytesOutsideItsShardIsBad(t *testing.T) {
	want := newPacked(t, 1, 2)
	s, d := openSet(t, want.root, mmap.Options{})
	good := sample(t, d, 1)
	for _, change := range []func(*catalog.Sample){
		func(s *catalog.Sample) { s.Offset = -1 },
		func(s *catalog.Sample) { s.Offset = 1 << 62 },
		func(s *catalog.Sample) { s.Length = -1 },
		func(s *catalog.Sample) { s.Length = 1 << 20 },
		func(s *catalog.Sample) { s.Shard = 1 },
		func(s *catalog.Sample) { s.Shard = 1<<32 - 1 },
	} {
		bad := good
		change(&bad)
		_, err := s.Read(bad, buffer(t))
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, fault.KindBadFile, e.Kind)
		assert.EqualValues(t, 1, e.Record)
	}
}

func TestAClosedStoreReadsNothingAndLeavesViewsReadable(t *testing.T) {
	want := newPacked(t, 1, 2)
	s, d := openSet(t, want.root, mmap.Options{})
	d.Retain()
	defer d.Release()
	b := buffer(t)
	view, err := s.Read(sample(t, d, 1), b)
	require.NoError(t, err)
	s.Close()
	assert.Equal(t, want.bytes[1], view.Bytes())
	_, err = s.Read(sample(t, d, 0), b)
	assert.ErrorIs(t, err, mmap.ErrClosed)
	b.Free()
}

func TestWarmReadsOfShardsAllocateNothingOnTheGoHeap(t *testing.T) {
	want := newPacked(t, 3, 2)
	s, d := openSet(t, want.root, mmap.Options{})
	b := buffer(t)
	i := int64(0)
	read := func() {
		found, err := d.Sample(i % 6)
		if err != nil {
			panic(err)
		}
		if _, err = s.Read(found, b); err != nil {
			panic(err)
		}
		i++
	}
	testing.AllocsPerRun(6, read)
	assert.Zero(t, testing.AllocsPerRun(100, read))
}
