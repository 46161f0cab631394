package pack

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

func TestPackingTwiceWithAnyNumberOfThreadsGivesTheSameSeekFile(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 40)
	var first []byte
	for _, threads := range []int{1, 2, 5} {
		dst, s := packed(t, PackConfig{Source: src, Options: Options{Threads: threads}})
		seek, err := os.ReadFile(filepath.Join(dst, catalog.SeekFileName(0)))
		require.NoError(t, err)
		require.EqualValues(t, len(seek)-catalog.SeekHeadBytes, s.SeekBytes)
		require.InDelta(t, float64(s.SeekBytes)/float64(s.Bytes), s.SeekShare, 1e-12)
		if first == nil {
			first = seek
		}
		require.Equal(t, first, seek, "%d threads", threads)
	}
	// A folder indexed in place has the same seek file, because it has the same images.
	_, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	seek, err := os.ReadFile(filepath.Join(src, catalog.SeekFileName(0)))
	require.NoError(t, err)
	require.Equal(t, first, seek)
}

func TestGoodJPEGsAndNoOtherFilesHaveSeekPoints(t *testing.T) {
	checkNoLeaks(t)
	dst, _ := packed(t, PackConfig{Source: testFolder(t, 12)})
	d := open(t, dst)
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		jpeg := catalog.CodecName(s.Codec) == "jpeg"
		require.Equal(t, jpeg && s.Verdict == catalog.Good, s.Seek.Length > 0, "record %d: %+v", i, s)
	}
	require.EqualValues(t, 12, d.Manifest().Seek.Samples)
}

func TestNoSeekLeavesOutTheSeekPointsAndChangesNothingElse(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 6)
	with, a := packed(t, PackConfig{Source: src})
	without, b := packed(t, PackConfig{Source: src, SeekOptions: SeekOptions{NoSeek: true}})
	require.Equal(t, a.Fingerprint, b.Fingerprint)
	require.Zero(t, b.SeekBytes)
	require.Nil(t, open(t, without).Manifest().Seek)
	require.NoFileExists(t, filepath.Join(without, catalog.SeekFileName(0)))
	shard := func(dir string) string { return filepath.Join(dir, catalog.ShardName(0)) }
	one, err := os.ReadFile(shard(with))
	require.NoError(t, err)
	two, err := os.ReadFile(shard(without))
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, two))
	require.True(t, verify(t, VerifyConfig{Source: without}).OK)

	_, err = Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	_, err = Index(context.Background(), IndexConfig{Source: src, SeekOptions: SeekOptions{NoSeek: true}}, nil)
	require.NoError(t, err)
	found, _ := filepath.Glob(filepath.Join(src, "headrace*"))
	require.Len(t, found, 2, "the seek file of the old index is gone")
	require.True(t, verify(t, VerifyConfig{Source: src}).OK)
}

func TestADatasetWithoutJPEGsHasNoSeekFile(t *testing.T) {
	checkNoLeaks(t)
	src := t.TempDir()
	put(t, src, "a/x.png", testPNG())
	dst, s := packed(t, PackConfig{Source: src})
	require.Zero(t, s.SeekBytes)
	require.NoFileExists(t, filepath.Join(dst, catalog.SeekFileName(0)))
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
}

// reseal writes seek file and index of a packed dataset again, as an attacker would: the checksums are
// right whatever edit does to a record.
func reseal(t *testing.T, dir string, edit func(i int64, record []byte) []byte) {
	d, err := catalog.Open(dir, catalog.Options{})
	require.NoError(t, err)
	m := *d.Manifest()
	old, err := os.ReadFile(d.SeekFile().Path())
	require.NoError(t, err)
	index := filepath.Join(dir, m.Index.Name)
	w, err := catalog.NewWriter(index+".new", catalog.Packed, m.Fields)
	require.NoError(t, err)
	file := catalog.SeekHead()
	for i := range d.Len() {
		row, err := d.Row(i)
		require.NoError(t, err)
		if p := &row.Seek; p.Length > 0 {
			record := edit(i, bytes.Clone(old[p.Offset:p.Offset+p.Length]))
			*p = catalog.SeekPlace{Offset: int64(len(file)), Length: int64(len(record)), CRC32C: crc32.Checksum(record, castagnoli)}
			file = append(file, record...)
		}
		require.NoError(t, w.Append(&row))
	}
	d.Release()
	made, err := w.Finish()
	require.NoError(t, err)
	made.Index.Name, made.Shards, made.Classes = m.Index.Name, m.Shards, m.Classes
	made.Seek = &catalog.SeekFile{Name: m.Seek.Name, Size: int64(len(file)), Samples: m.Seek.Samples}
	text, err := made.Encode()
	require.NoError(t, err)
	require.NoError(t, os.Rename(index+".new", index))
	require.NoError(t, os.WriteFile(filepath.Join(dir, m.Seek.Name), file, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, catalog.ManifestName), text, 0o644))
}

func TestVerifyFindsWrongSeekPointsWhoseChecksumIsRight(t *testing.T) {
	checkNoLeaks(t)
	dst, _ := packed(t, PackConfig{Source: testFolder(t, 6)})
	reseal(t, dst, func(_ int64, record []byte) []byte { return record })
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
	d, err := catalog.Open(dst, catalog.Options{})
	require.NoError(t, err)
	const victim = 1
	place, err := d.Sample(victim)
	require.NoError(t, err)
	d.Release()
	require.Positive(t, place.Seek.Length)
	for at := range place.Seek.Length {
		// Small images have one point in each row, which is right for any step larger than their width.
		if at == stepAt {
			continue
		}
		flip := func(i int64, record []byte) []byte {
			if i == victim {
				record[at] ^= 1
			}
			return record
		}
		reseal(t, dst, flip)
		r := verify(t, VerifyConfig{Source: dst})
		require.EqualValues(t, 1, r.Faults.Total, "byte %d", at)
		found := r.Faults.Listed[0]
		require.EqualValues(t, victim, found.Record)
		require.Equal(t, filepath.Join(dst, catalog.SeekFileName(0)), found.File)
		require.NotEqual(t, found.Expected, found.Found)
		require.Equal(t, place.Seek.Offset+at, found.Offset, "%+v", found)
		reseal(t, dst, flip)
	}
	for what, edit := range map[string]func([]byte) []byte{
		"cut":      func(b []byte) []byte { return b[:len(b)-1] },
		"one byte": func(b []byte) []byte { return b[:1] },
		"longer":   func(b []byte) []byte { return append(b, 0) },
	} {
		altered, _ := packed(t, PackConfig{Source: testFolder(t, 6)})
		reseal(t, altered, func(i int64, record []byte) []byte {
			if i == victim {
				record = edit(record)
			}
			return record
		})
		r := verify(t, VerifyConfig{Source: altered})
		require.EqualValues(t, 1, r.Faults.Total, what)
		require.EqualValues(t, victim, r.Faults.Listed[0].Record, what)
	}
}

func TestVerifyNamesTheRecordWhoseSeekPointsWereAltered(t *testing.T) {
	checkNoLeaks(t)
	dst, _ := packed(t, PackConfig{Source: testFolder(t, 9)})
	d := open(t, dst)
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		if s.Seek.Length == 0 {
			continue
		}
		path := filepath.Join(dst, catalog.SeekFileName(0))
		flip := func(b []byte) []byte { b[s.Seek.Offset+s.Seek.Length-1] ^= 0x80; return b }
		change(t, path, flip)
		r := verify(t, VerifyConfig{Source: dst})
		require.EqualValues(t, 1, r.Faults.Total)
		require.Equal(t, fmt.Sprint(i, s.Seek.Offset), fmt.Sprint(r.Faults.Listed[0].Record, r.Faults.Listed[0].Offset))
		change(t, path, flip)
	}
}

func TestAReaderKeepsItsSeekPointsWhenTheFolderIsIndexedAgain(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 6)
	_, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	old := open(t, src)
	put(t, src, "class 0/a.jpg", testJPEG(50))
	_, err = Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	require.NoFileExists(t, old.SeekFile().Path())
	require.Equal(t, old.Manifest().Seek.Size, old.SeekFile().Size())
}
