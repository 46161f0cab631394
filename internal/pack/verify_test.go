package pack

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

func verify(t testing.TB, c VerifyConfig) Report {
	r, err := Verify(context.Background(), c, NewTracker())
	require.NoError(t, err)
	require.Equal(t, r.OK, r.Faults.Total == 0)
	return r
}

func change(t testing.TB, path string, edit func([]byte) []byte) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, edit(data), 0o644))
}

func TestVerifyFindsNoFaultInAnUndamagedDataset(t *testing.T) {
	checkNoLeaks(t)
	dst, s := packed(t, PackConfig{Source: testFolder(t, 30), ShardBytes: minShardBytes})
	r := verify(t, VerifyConfig{Source: dst, Decode: true})
	require.True(t, r.OK, "%+v", r.Faults)
	require.Equal(t, s.Bytes, r.Bytes)
	require.Equal(t, s.Rows, r.Rows)
}

func TestVerifyFindsEveryFlippedBitOfAnyFile(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 8)
	clean, _ := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
	entries, err := os.ReadDir(clean)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for _, e := range entries {
		path := filepath.Join(clean, e.Name())
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for range 150 {
			at, bit := r.IntN(len(whole)), byte(1)<<r.IntN(8)
			data := bytes.Clone(whole)
			data[at] ^= bit
			require.NoError(t, os.WriteFile(path, data, 0o644))
			report, err := Verify(context.Background(), VerifyConfig{Source: clean}, nil)
			if err == nil && report.OK && unusedTarByte(t, clean, e.Name(), whole, at) {
				continue
			}
			require.True(t, err != nil || !report.OK, "%s: bit %d of byte %d", e.Name(), bit, at)
		}
		require.NoError(t, os.WriteFile(path, whole, 0o644))
	}
}

// unusedTarByte reports whether a byte of a shard is padding, after a member's content or after the end. No
// reader reads it, so no checksum covers it.
func unusedTarByte(t testing.TB, dir, name string, shard []byte, at int) bool {
	if filepath.Ext(name) != ".tar" {
		return false
	}
	used := make([]bool, len(shard))
	d, err := catalog.Open(dir, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	last := 0
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		if d.Shards()[s.Shard].Name != name {
			continue
		}
		label := int(s.Offset+s.Length+511) / 512 * 512
		for _, part := range [][2]int{{int(s.Offset) - 512, int(s.Offset + s.Length)}, {label, label + 512 + 1}} {
			for n := part[0]; n < part[1]; n++ {
				used[n] = true
			}
		}
		last = label + 1024
	}
	for n := last; n < last+512; n++ {
		used[n] = true // the first block of zeros
	}
	return !used[at]
}

func TestAFaultNamesShardRecordOffsetExpectedAndFound(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 30)
	dst, _ := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
	d := open(t, dst)
	s, err := d.Sample(17)
	require.NoError(t, err)
	shard, err := d.Path(17)
	require.NoError(t, err)
	key, err := d.Key(17)
	require.NoError(t, err)
	change(t, shard, func(b []byte) []byte { b[s.Offset+s.Length/2] ^= 4; return b })
	r := verify(t, VerifyConfig{Source: dst})
	require.Len(t, r.Faults.Listed, 1)
	p := r.Faults.Listed[0]
	require.Equal(t, shard, p.File)
	require.EqualValues(t, 17, p.Record)
	require.Equal(t, key, p.Key)
	require.Equal(t, s.Offset, p.Offset)
	require.Equal(t, fmt.Sprintf("%08x", s.CRC32C), p.Expected)
	require.Regexp(t, "^[0-9a-f]{8}$", p.Found)
	require.NotEqual(t, p.Expected, p.Found)
}

func TestVerifyFindsCutSwappedAndMissingShards(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 60)
	for name, damage := range map[string]func(a, b string){
		"cut":     func(a, _ string) { change(t, a, func(d []byte) []byte { return d[:len(d)/2] }) },
		"emptied": func(a, _ string) { change(t, a, func(d []byte) []byte { return nil }) },
		"longer":  func(a, _ string) { change(t, a, func(d []byte) []byte { return append(d, 0) }) },
		"missing": func(a, _ string) { require.NoError(t, os.Remove(a)) },
		"swapped": func(a, b string) {
			require.NoError(t, os.Rename(a, a+"x"))
			require.NoError(t, os.Rename(b, a))
			require.NoError(t, os.Rename(a+"x", b))
		},
	} {
		dst, s := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
		require.Greater(t, s.Shards, 1)
		a, b := filepath.Join(dst, catalog.ShardName(0)), filepath.Join(dst, catalog.ShardName(1))
		damage(a, b)
		r := verify(t, VerifyConfig{Source: dst})
		require.False(t, r.OK, name)
		files := map[string]bool{}
		for _, p := range r.Faults.Listed {
			files[p.File] = true
		}
		require.True(t, files[a], name)
	}
}

func TestVerifyFindsAChangedLabel(t *testing.T) {
	checkNoLeaks(t)
	dst, _ := packed(t, PackConfig{Source: testFolder(t, 6)})
	d := open(t, dst)
	s, err := d.Sample(2)
	require.NoError(t, err)
	shard, _ := d.Path(2)
	change(t, shard, func(b []byte) []byte { b[(s.Offset+s.Length+511)/512*512+512]++; return b })
	r := verify(t, VerifyConfig{Source: dst})
	require.Len(t, r.Faults.Listed, 1)
	require.EqualValues(t, 2, r.Faults.Listed[0].Record)
	require.Contains(t, r.Faults.Listed[0].Text, "label")
}

// labelAt is where the label's member of a record begins in its shard: after the image, which ends at a multiple of
// 512 bytes. The member is a header and a block of content.
func labelAt(t testing.TB, d *catalog.Dataset, record int64) int64 {
	s, err := d.Sample(record)
	require.NoError(t, err)
	return (s.Offset + s.Length + 511) / 512 * 512
}

func TestVerifyFindsALabelBeforeTheImagesOfAShard(t *testing.T) {
	checkNoLeaks(t)
	dst, s := packed(t, PackConfig{Source: testFolder(t, 60), ShardBytes: minShardBytes})
	require.Greater(t, s.Shards, 1)
	d := open(t, dst)
	// The label comes from the shard before, whose last row has it.
	at := labelAt(t, d, d.Shards()[0].Rows-1)
	first, err := os.ReadFile(d.ShardPath(0))
	require.NoError(t, err)
	change(t, d.ShardPath(1), func(b []byte) []byte { return append(bytes.Clone(first[at:at+1024]), b...) })
	require.Contains(t, texts(verify(t, VerifyConfig{Source: dst})), "a label without an image before it")
}

func TestVerifyFindsAMissingLabelInAShard(t *testing.T) {
	checkNoLeaks(t)
	dst, _ := packed(t, PackConfig{Source: testFolder(t, 6)})
	d := open(t, dst)
	// It is the label of the last record, because after others something would have to move.
	last := d.Len() - 1
	at := labelAt(t, d, last)
	change(t, d.ShardPath(0), func(b []byte) []byte { clear(b[at : at+1024]); return b })
	r := verify(t, VerifyConfig{Source: dst})
	require.Len(t, r.Faults.Listed, 1)
	require.EqualValues(t, last, r.Faults.Listed[0].Record)
	require.Contains(t, r.Faults.Listed[0].Text, "label")
}

func texts(r Report) (all []string) {
	for _, f := range r.Faults.Listed {
		all = append(all, f.Text)
	}
	return all
}

func TestVerifyFindsChangedFilesOfAnIndexedFolder(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 12)
	_, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	require.True(t, verify(t, VerifyConfig{Source: src}).OK)
	d := open(t, src)
	path := func(i int64) string { p, err := d.Path(i); require.NoError(t, err); return p }
	info, err := os.Stat(path(1))
	require.NoError(t, err)
	change(t, path(1), func(b []byte) []byte { b[20] ^= 1; return b })
	require.NoError(t, os.Chtimes(path(1), time.Time{}, info.ModTime()))
	change(t, path(2), func(b []byte) []byte { return append(b, 1) })
	require.NoError(t, os.Remove(path(3)))
	require.NoError(t, os.Chtimes(path(4), time.Time{}, time.Unix(1, 0)))
	found := map[int64]string{}
	for _, p := range verify(t, VerifyConfig{Source: src}).Faults.Listed {
		found[p.Record] = p.Text
	}
	require.Len(t, found, 3, "a file of which only the time changed is no fault")
	require.Contains(t, found[1], "CRC")
	require.Contains(t, found[2], "size")
	require.Contains(t, found[3], "cannot be read")
}

func TestSamplesThatWereFaultyWhenPackedAreListedSeparatelyAndAreNoFault(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 12)
	dst, made := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
	require.EqualValues(t, testFaults, made.Faults.Total)
	indexed := t.TempDir()
	_, err := Index(context.Background(), IndexConfig{Source: src, IndexDir: indexed}, nil)
	require.NoError(t, err)
	for _, c := range []VerifyConfig{{Source: dst}, {Source: dst, Decode: true}, {Source: src, IndexDir: indexed}} {
		r := verify(t, c)
		require.True(t, r.OK, "the bytes are those that were packed: %+v", r.Faults)
		require.EqualValues(t, testFaults, r.KnownFaults)
		require.Len(t, r.Known, testFaults)
		for n, p := range r.Known {
			was := made.Faults.Listed[n]
			require.Equal(t, was.Record, p.Record)
			require.Equal(t, was.Verdict, p.Found)
			require.Equal(t, was.Reason, p.Text)
			require.NotEmpty(t, p.Key)
			if c.IndexDir == "" {
				require.Equal(t, dst, filepath.Dir(p.File))
				s, err := open(t, dst).Sample(p.Record)
				require.NoError(t, err)
				require.Equal(t, s.Offset+max(was.Offset, 0), p.Offset)
			}
		}
	}
	clean := t.TempDir()
	put(t, clean, "a/1.jpg", testJPEG(1))
	dst, _ = packed(t, PackConfig{Source: clean})
	r := verify(t, VerifyConfig{Source: dst})
	require.Zero(t, r.KnownFaults)
	require.NotNil(t, r.Known, "JSON would have null instead of a list")
}

func TestAFaultySampleWhoseBytesChangedSincePackingIsAFault(t *testing.T) {
	checkNoLeaks(t)
	dst, _ := packed(t, PackConfig{Source: testFolder(t, 3)})
	known := verify(t, VerifyConfig{Source: dst}).Known
	require.NotEmpty(t, known)
	s, err := open(t, dst).Sample(known[0].Record)
	require.NoError(t, err)
	change(t, known[0].File, func(b []byte) []byte { b[s.Offset+9] ^= 1; return b })
	r := verify(t, VerifyConfig{Source: dst})
	require.False(t, r.OK)
	require.EqualValues(t, len(known)-1, r.KnownFaults)
}
