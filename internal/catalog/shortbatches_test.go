package catalog

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// writeLong writes an index in which a column holds at most so many bytes in a batch.
func writeLong(t *testing.T, kind Kind, most int, fields []Field, rows int64, row func(i int64) Row) (string, *Manifest) {
	dir := t.TempDir()
	w, err := NewWriter(filepath.Join(dir, IndexFileName(0)), kind, fields)
	require.NoError(t, err)
	for _, c := range w.columns[len(sampleColumns):] {
		c.most = most
	}
	for i := range rows {
		r := row(i)
		require.NoError(t, w.Append(&r))
	}
	m, err := w.Finish()
	require.NoError(t, err)
	m.Index.Name = IndexFileName(0)
	m.Classes = []string{"a", "b", "c", "d", "e", "f", "g"}
	if kind == Packed {
		m.Shards = []ShardInfo{{Name: ShardName(0), Size: 1024 * (rows + 1), Rows: rows}}
		addSeekFile(t, dir, m)
	}
	writeManifest(t, dir, m)
	return dir, m
}

// batchRows are the rows that the manifest has of each batch.
func batchRows(m *Manifest) (rows []int64) {
	for _, b := range m.Index.Batches {
		rows = append(rows, b.Rows)
	}
	return rows
}

// textOfRow has 10 bytes for most rows, and 100 for every seventh.
func textOfRow(i int64) string { return strings.Repeat(fmt.Sprintf("%d", i%10), 10+90*int(i%7/6)) }

func TestRecordBatchesHaveFewerRowsWhereValuesAreLong(t *testing.T) {
	fields := append(append([]Field{}, testFields...), Field{Name: "long", Type: Str}, Field{Name: "grid", Type: ArrayType, DType: "uint8", Shape: []int64{30}})
	row := func(i int64) Row {
		r := testRow(i)
		r.Fields = append(r.Fields, textOfRow(i), Array{"uint8", []int64{30}, make([]byte, 30)})
		return r
	}
	const rows = 100
	dir, m := writeLong(t, Packed, 300, fields, rows, row)
	require.Equal(t, 7, m.Version)
	require.Equal(t, 6, m.MinReader)
	require.GreaterOrEqual(t, len(m.Index.Batches), 10)
	all := int64(0)
	for _, n := range batchRows(m) {
		require.LessOrEqual(t, n, int64(10), "ten arrays of 30 bytes fill 300")
		all += n
	}
	require.Equal(t, int64(rows), all)

	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	end := d.BatchEnd(0)
	for i := int64(0); i < rows; i++ {
		want := row(i)
		want.Index, want.HasCRC = i, true
		found, err := d.Row(i)
		require.NoError(t, err)
		require.Equal(t, want.Sample, found.Sample)
		require.Equal(t, want.Key, found.Key)
		require.Equal(t, want.Fields, found.Fields)
		if i == end {
			end = d.BatchEnd(i)
		}
		require.Equal(t, end, d.BatchEnd(i))
	}
	require.Equal(t, int64(rows), end)
	most, err := d.MostBytes("long")
	require.NoError(t, err)
	require.Equal(t, int64(100), most)

	_, one := writeLong(t, Packed, 300*rows, fields, rows, row)
	require.Equal(t, 2, one.Version, "an index without short batches keeps the version that all readers know")
	require.Equal(t, []int64{0}, batchRows(one))
	require.Equal(t, one.Fingerprint, m.Fingerprint)
}

func TestFilesAreFoundInAnIndexOfShortRecordBatches(t *testing.T) {
	row := func(i int64) Row {
		r := Row{Key: fmt.Sprintf("a/%03d", i), Path: fmt.Sprintf("a/%03d.jpg", i)}
		r.Length, r.Verdict, r.Width, r.Height = 1, Good, 1, 1
		return r
	}
	dir, m := writeLong(t, Indexed, 40, nil, 100, row) // a path has 9 bytes
	require.Equal(t, int64(4), m.Index.Batches[0].Rows)
	d, err := OpenIndexed(dir)
	require.NoError(t, err)
	defer d.Release()
	for i := range int64(100) {
		at, found, err := d.Find(row(i).Path)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, i, at)
	}
	for _, name := range []string{"a/0001.jpg", "0", "z"} {
		_, found, err := d.Find(name)
		require.NoError(t, err)
		require.False(t, found, name)
	}
}

func TestAValueTooLongForARecordBatchIsAnErrorThatNamesItsField(t *testing.T) {
	w, err := NewWriter(filepath.Join(t.TempDir(), "index"), Packed, []Field{{Name: "caption", Type: Str}})
	require.NoError(t, err)
	defer w.Abort()
	w.columns[len(w.columns)-1].most = 50
	for _, length := range []int{50, 51} {
		r := testRow(w.Len())
		r.Fields = []any{strings.Repeat("x", length)}
		err = w.Append(&r)
		if length == 50 {
			require.NoError(t, err)
		}
	}
	require.Equal(t, fault.KindArgument, fault.KindOf(err))
	require.ErrorContains(t, err, `field "caption": a value of 51 bytes (expected at most 50); keep it in a file of its own`)
}

func TestRowCountsOfRecordBatchesThatDoNotFitTheDatasetAreAnError(t *testing.T) {
	for text, change := range map[string]func(m *Manifest){
		"index.batches say their rows, in an index with min_reader 1": func(m *Manifest) { m.MinReader = 1 },
		"index.batches[0] has -1 rows (expected 1 to 20)":             func(m *Manifest) { m.Index.Batches[0].Rows = -1 },
		"index.batches[1] has 0 rows (expected 1 to 17)":              func(m *Manifest) { m.Index.Batches[1].Rows = 0 },
		"index.batches[0] has 65537 rows (expected 1 to 20)":          func(m *Manifest) { m.Index.Batches[0].Rows = RowsPerBatch + 1 },
		"index.batches have 19 rows, the dataset 20":                  func(m *Manifest) { m.Index.Batches[len(m.Index.Batches)-1].Rows-- },
	} {
		dir, m := writeLong(t, Packed, 30, []Field{{Name: "caption", Type: Str}}, 20, func(i int64) Row {
			r := testRow(i)
			r.Fields = []any{strings.Repeat("x", 10)}
			return r
		})
		change(m)
		writeManifest(t, dir, m)
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, text)
		require.Equal(t, fault.KindBadFile, fault.KindOf(err))
	}
	dir, m := writeLong(t, Packed, 30, []Field{{Name: "caption", Type: Str}}, 20, func(i int64) Row {
		r := testRow(i)
		r.Fields = []any{strings.Repeat("x", 10)}
		return r
	})
	m.Index.Batches[0].Rows, m.Index.Batches[1].Rows = 2, 4
	writeManifest(t, dir, m)
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	_, err = d.Sample(0)
	require.ErrorContains(t, err, "record batch 0 of the index: it has 3 rows (expected 2)")
}
