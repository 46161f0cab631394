package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var testFields = []Field{
	{Name: "age", Type: Int}, {Name: "score", Type: Float}, {Name: "caption", Type: Str}, {Name: "mask", Type: Bytes},
	{Name: "box", Type: ArrayType, DType: "float32", Shape: []int64{2, 2}}, {Name: "points", Type: ArrayType, DType: "uint16"},
}

// seekStride is from one row's seek points to the next's; a third of the rows has none.
const seekStride = 32

func testSeek(i int64) SeekPlace {
	if i%3 == 2 {
		return SeekPlace{}
	}
	return SeekPlace{Offset: SeekHeadBytes + seekStride*i, Length: 1 + i%seekStride, CRC32C: uint32(3 * i)}
}

// addSeekFile writes the file of seek points for a dataset of testRows.
func addSeekFile(t testing.TB, dir string, m *Manifest) {
	m.Seek = &SeekFile{Name: SeekFileName(0), Size: SeekHeadBytes + seekStride*m.Rows, Samples: 1}
	path := filepath.Join(dir, m.Seek.Name)
	require.NoError(t, os.WriteFile(path, SeekHead(), 0o644))
	require.NoError(t, os.Truncate(path, m.Seek.Size))
}

func testRow(i int64) Row {
	return Row{
		Sample: Sample{Shard: uint32(i / 40000), Offset: 512 + 1024*(i%40000), Length: 100 + i%400, Label: i % 7, Verdict: Good,
			Facts: Facts{Width: uint32(i%500) + 1, Height: 3, CRC32C: uint32(i), Channels: 3, Codec: 1, Sampling: 3, Process: 1, Orientation: 6},
			Seek:  testSeek(i)},
		Key: fmt.Sprintf("class %d/bild-ü-%d", i%7, i),
		Fields: []any{i, float64(i) / 2, fmt.Sprint("text ", i), []byte{byte(i), 0, 1}[:i%4],
			Array{"float32", []int64{2, 2}, make([]byte, 16)}, Array{"uint16", []int64{1, i % 3}, make([]byte, 2*(i%3))}},
	}
}

// writeDataset makes a packed dataset without the shards' bytes, because only the index is tested here.
func writeDataset(t testing.TB, rows int64) string {
	dir := t.TempDir()
	w, err := NewWriter(filepath.Join(dir, IndexFileName(0)), Packed, testFields)
	require.NoError(t, err)
	for i := range rows {
		r := testRow(i)
		require.NoError(t, w.Append(&r))
	}
	m, err := w.Finish()
	require.NoError(t, err)
	m.Index.Name = IndexFileName(0)
	m.Classes = []string{"a", "b", "c", "d", "e", "f", "g"}
	for i := int64(0); i < rows; i += 40000 {
		m.Shards = append(m.Shards, ShardInfo{Name: ShardName(len(m.Shards)), Size: 1024 * 40001, Rows: min(40000, rows-i)})
	}
	addSeekFile(t, dir, m)
	writeManifest(t, dir, m)
	return dir
}

func writeManifest(t testing.TB, dir string, m *Manifest) {
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestName), data, 0o644))
}

func TestEveryRowAndFieldIsReadBackAsItWasWritten(t *testing.T) {
	for _, rows := range []int64{1, 100, RowsPerBatch, RowsPerBatch + 1, 2*RowsPerBatch + 77} {
		d, err := Open(writeDataset(t, rows), Options{})
		require.NoError(t, err)
		require.Equal(t, rows, d.Len())
		for i := int64(0); i < rows; i += 1 + rows/1000 {
			want := testRow(i)
			want.Index, want.HasCRC = i, true
			s, err := d.Sample(i)
			require.NoError(t, err)
			require.Equal(t, want.Sample, s)
			key, err := d.Key(i)
			require.NoError(t, err)
			require.Equal(t, want.Key, key)
			for f, field := range testFields {
				v, err := d.FieldValue(i, field.Name)
				require.NoError(t, err)
				require.Equal(t, want.Fields[f], v, field.Name)
			}
		}
		d.Release()
	}
}
