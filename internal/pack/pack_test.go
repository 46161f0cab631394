package pack

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/limits"
)

func TestPackedBytesAreTheSameForAnyNumberOfThreads(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 60)
	var first string
	for _, threads := range []int{1, 2, 3, 8} {
		dst, s := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes, Options: Options{Threads: threads}})
		require.Greater(t, s.Shards, 1)
		if first == "" {
			first = digest(t, dst)
		}
		require.Equal(t, first, digest(t, dst), "%d threads", threads)
	}
}

func TestEveryRecordEqualsItsFileAndTarReadsTheShards(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 40)
	dst, s := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
	listed, d := open(t, src), open(t, dst)
	require.Equal(t, listed.Len(), d.Len())
	require.Equal(t, listed.Classes(), d.Classes())
	require.EqualValues(t, testFaults, s.Faults.Total)
	members := map[string]string{}
	for _, shard := range d.Shards() {
		f, err := os.Open(filepath.Join(dst, shard.Name))
		require.NoError(t, err)
		for r := tar.NewReader(f); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			require.Equal(t, tar.FormatUSTAR, h.Format)
			data, err := io.ReadAll(r)
			require.NoError(t, err)
			members[h.Name] = string(data)
		}
		f.Close()
	}
	require.Len(t, members, 2*int(d.Len()))
	for i := range d.Len() {
		source, err := listed.Path(i)
		require.NoError(t, err)
		want, err := os.ReadFile(source)
		require.NoError(t, err)
		a, err := listed.Key(i)
		require.NoError(t, err)
		b, err := d.Key(i)
		require.NoError(t, err)
		require.Equal(t, a, b)
		sample, err := d.Sample(i)
		require.NoError(t, err)
		path, err := d.Path(i)
		require.NoError(t, err)
		shard, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(shard[sample.Offset:sample.Offset+sample.Length]))
		name := strings.NewReplacer(" ", "%20", ".", "%2E").Replace(b)
		ext := strings.ToLower(filepath.Ext(source))
		require.Equal(t, string(want), members[name+ext])
		require.Equal(t, string('0'+rune(sample.Label)), members[name+".cls"])
	}
}

func TestFaultyFilesAreKeptAndListedOrAreAnErrorOnRequest(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 6)
	_, s := packed(t, PackConfig{Source: src})
	require.EqualValues(t, testFaults, s.Faults.Total)
	verdicts := map[string]string{}
	for _, f := range s.Faults.Listed {
		require.NotEmpty(t, f.Reason)
		verdicts[filepath.Base(f.File)] = f.Verdict
	}
	require.Equal(t, "truncated", verdicts["y-cut.jpg"])
	require.Contains(t, verdicts, "z-empty.jpg")
	require.Contains(t, verdicts, "text.png")
	require.EqualValues(t, s.Rows-testFaults, s.Counts["verdict"]["good"])

	dst := filepath.Join(t.TempDir(), "none")
	_, err := Pack(context.Background(), PackConfig{Source: src, Destination: dst, OnFault: RaiseFaults}, nil)
	require.Equal(t, fault.KindTruncated, kindOf(err))
	require.ErrorContains(t, err, "y-cut.jpg")
	requireNothing(t, filepath.Dir(dst))
}

// requireNothing fails the test if a job left any file.
func requireNothing(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestTwoFilesWithOneKeyAreAnErrorThatNamesBoth(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 3)
	put(t, src, "class 0/a.jpg", testJPEG(1))
	put(t, src, "class 0/a.PNG", testPNG())
	dst := filepath.Join(t.TempDir(), "none")
	_, err := Pack(context.Background(), PackConfig{Source: src, Destination: dst}, nil)
	require.Equal(t, fault.KindDuplicateKey, kindOf(err))
	require.ErrorContains(t, err, "a.jpg")
	require.ErrorContains(t, err, "a.PNG")
	requireNothing(t, filepath.Dir(dst))
}

func TestEmptyFolderAndEmptyClassAreErrorsThatNameThem(t *testing.T) {
	checkNoLeaks(t)
	src := t.TempDir()
	_, err := Pack(context.Background(), PackConfig{Source: src, Destination: filepath.Join(t.TempDir(), "x")}, nil)
	require.Equal(t, fault.KindEmpty, kindOf(err))
	require.ErrorContains(t, err, src)
	put(t, src, "full/a.jpg", testJPEG(1))
	require.NoError(t, os.Mkdir(filepath.Join(src, "hollow"), 0o755))
	_, err = Pack(context.Background(), PackConfig{Source: src, Destination: filepath.Join(t.TempDir(), "x")}, nil)
	require.Equal(t, fault.KindEmpty, kindOf(err))
	require.ErrorContains(t, err, "hollow")
	_, s := packed(t, PackConfig{Source: src, AllowEmpty: true})
	require.Equal(t, 2, s.Classes)
}

func TestMissingFileIsAnErrorThatNamesItAndLeavesNothing(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 3)
	require.NoError(t, os.Symlink("nowhere.jpg", filepath.Join(src, "class 0", "broken.jpg")))
	dst := filepath.Join(t.TempDir(), "none")
	_, err := Pack(context.Background(), PackConfig{Source: src, Destination: dst}, nil)
	require.Equal(t, fault.KindIO, kindOf(err))
	require.ErrorContains(t, err, "broken.jpg")
	requireNothing(t, filepath.Dir(dst))
}

func TestCancelledPackingEndsSoonAndLeavesNothing(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 60)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dst := filepath.Join(t.TempDir(), "none")
	_, err := Pack(ctx, PackConfig{Source: src, Destination: dst}, nil)
	require.ErrorIs(t, err, context.Canceled)
	requireNothing(t, filepath.Dir(dst))
}

func TestFileOverTheRecordLimitIsKeptWithItsVerdict(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 3)
	put(t, src, "class 0/large.jpg", append(testJPEG(1), make([]byte, 3<<20)...))
	dst, s := packed(t, PackConfig{Source: src, Options: Options{Limits: limits.Limits{MaxRecordBytes: 1 << 20}}})
	require.EqualValues(t, 1, s.Counts["verdict"]["limit"])
	r, err := Verify(context.Background(), VerifyConfig{Source: dst}, nil)
	require.NoError(t, err)
	require.True(t, r.OK, "%+v", r.Faults)
}

func TestADestinationIsReplacedOnlyOnRequestAndOnlyIfItIsADataset(t *testing.T) {
	checkNoLeaks(t)
	a, b := testFolder(t, 3), testFolder(t, 9)
	dst, first := packed(t, PackConfig{Source: a})
	_, err := Pack(context.Background(), PackConfig{Source: b, Destination: dst}, nil)
	require.Equal(t, fault.KindArgument, kindOf(err))
	_, second := packed(t, PackConfig{Source: b, Destination: dst, Overwrite: true})
	require.NotEqual(t, first.Fingerprint, second.Fingerprint)
	require.Equal(t, second.Fingerprint, open(t, dst).Fingerprint())
	entries, err := os.ReadDir(filepath.Dir(dst))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	put(t, dst, "thesis.tex", []byte("years of work"))
	_, err = Pack(context.Background(), PackConfig{Source: b, Destination: dst, Overwrite: true}, nil)
	require.Equal(t, fault.KindArgument, kindOf(err))
	require.ErrorContains(t, err, "thesis.tex")
}

func TestAJobWithMoreThreadsThanALoaderMayHaveIsRefusedBeforeAnyWork(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 10)
	dst, _ := packed(t, PackConfig{Source: src})
	ctx, track := context.Background(), &Tracker{}
	for _, threads := range []int{-1, maxThreads + 1, 1 << 31, 1 << 62} {
		o, to := Options{Threads: threads}, filepath.Join(t.TempDir(), "never")
		_, packs := Pack(ctx, PackConfig{Options: o, Source: src, Destination: to}, track)
		_, indexes := Index(ctx, IndexConfig{Options: o, Source: src, IndexDir: to}, track)
		_, verifies := Verify(ctx, VerifyConfig{Options: o, Source: dst}, track)
		_, writes := NewWriter(WriterConfig{Options: o, Destination: to})
		for _, err := range []error{packs, indexes, verifies, writes} {
			require.ErrorContains(t, err, fmt.Sprintf("threads is %d (expected 1 to 1024", threads))
			require.Equal(t, fault.KindArgument, kindOf(err))
		}
		require.NoFileExists(t, to)
	}
}
