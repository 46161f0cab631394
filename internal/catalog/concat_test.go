package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/fault"
	"github.com/stretchr/testify/require"
)

func opened(t *testing.T, path string) *Dataset {
	t.Helper()
	d, err := Open(path, Options{})
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func concatenated(t *testing.T, list ...*Dataset) *Dataset {
	t.Helper()
	d, err := Concat(list, []string{})
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func TestAConcatenationHasTheRowsOfItsPartsNumberedAnew(t *testing.T) {
	first, second := opened(t, writeDataset(t, 2*RowsPerBatch+3)), opened(t, writeDataset(t, 20))
	files, err := FromFiles([]string{"x.jpg", "y.jpg"}, []int64{7, 8}, nil)
	require.NoError(t, err)
	t.Cleanup(files.Release)
	inner := concatenated(t, files, second)
	d := concatenated(t, files, first, inner, files)
	list := []*Dataset{files, first, files, second, files}
	require.Len(t, d.Shards(), len(first.Shards())+len(second.Shards()))
	i, shards := int64(0), 0
	for _, part := range list {
		for row := range part.Len() {
			want, errWant := part.Sample(row)
			want.Index, want.Shard = i, want.Shard+uint32(shards)
			found, err := d.Sample(i)
			// Not with require, which is slower.
			if errWant != nil || err != nil || want != found || d.Holder(i) != part {
				t.Fatalf("row %d: %+v (%v), in the concatenation %+v (%v)", i, want, errWant, found, err)
			}
			for _, ask := range []func(*Dataset, int64) (string, error){(*Dataset).Key, (*Dataset).Path} {
				want, errWant := ask(part, row)
				found, err := ask(d, i)
				if errWant != nil || err != nil || want != found {
					t.Fatalf("row %d: %q (%v), in the concatenation %q (%v)", i, want, errWant, found, err)
				}
			}
			if part.Kind() == Packed && part.ShardPath(int(found.Shard)-shards) != d.ShardPath(int(found.Shard)) {
				t.Fatalf("row %d: in %s", i, d.ShardPath(int(found.Shard)))
			}
			i++
		}
		shards += len(part.Shards())
	}
	require.Equal(t, i, d.Len())
	for _, outside := range []int64{-1, i} {
		_, err := d.Sample(outside)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, outside, e.Record)
		require.Equal(t, fault.KindArgument, e.Kind)
	}
}

func TestAnErrorInAPartsIndexNamesThePartsFileAndTheConcatenationsRecord(t *testing.T) {
	dir := writeDataset(t, 3*RowsPerBatch)
	m, err := ReadManifest(filepath.Join(dir, ManifestName))
	require.NoError(t, err)
	file := filepath.Join(dir, m.Index.Name)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[m.Index.Batches[1].Offset+m.Index.Batches[1].Length/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
	before, broken := opened(t, writeDataset(t, 50)), opened(t, dir)
	d := concatenated(t, before, broken)
	_, err = d.Sample(50)
	require.NoError(t, err)
	_, alone := broken.Sample(RowsPerBatch + 4)
	var of *Error
	require.ErrorAs(t, alone, &of)
	for range 2 { // and is the same the second time
		_, err = d.Sample(50 + RowsPerBatch + 4)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, file, e.File)
		require.Equal(t, of.Kind, e.Kind)
		if of.Record >= 0 {
			require.Equal(t, of.Record+50, e.Record)
		}
	}
}

func TestConcatenationKeepsItsPartsUntilItsLastReferenceIsReleased(t *testing.T) {
	part, err := Open(writeDataset(t, 10), Options{})
	require.NoError(t, err)
	d, err := Concat([]*Dataset{part, part}, nil)
	require.NoError(t, err)
	part.Release()
	d.Retain()
	d.Release()
	_, err = d.Sample(13)
	require.NoError(t, err)
	d.Release()
	require.Panics(t, func() { _, _ = part.Sample(3) }, "nothing of it is mapped any more")
}

func TestFieldValuesOfAConcatenationAreThoseOfItsParts(t *testing.T) {
	part := opened(t, writeDataset(t, 10))
	d := concatenated(t, part, part)
	require.Equal(t, part.Fields(), d.Fields())
	for _, field := range d.Fields() {
		want, err := part.FieldValue(7, field.Name)
		require.NoError(t, err)
		found, err := d.FieldValue(17, field.Name)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	require.Empty(t, concatenated(t, part, opened(t, filepath.Dir(imageFolder(t)))).Fields())
}

// imageFolder is the one class of a folder with one image.
func imageFolder(t *testing.T) string {
	t.Helper()
	class := filepath.Join(t.TempDir(), "class")
	require.NoError(t, os.Mkdir(class, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(class, "1.jpg"), nil, 0o600))
	return class
}
