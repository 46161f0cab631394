package catalog

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
)

var captions = Field{Name: "caption", Type: Str, Located: true, Blocks: true}

// withValues is an index of one container of 1,000 bytes with a row for each value of the field.
func withValues(t testing.TB, field Field, values ...any) (dir string, m *Manifest) {
	dir = t.TempDir()
	w, err := NewWriterInBlocks(filepath.Join(dir, IndexFileName(0)), Contained, false, []Field{field})
	require.NoError(t, err)
	for i, value := range values {
		row := Row{Sample: Sample{Offset: 10, Length: 20, Verdict: Bad}, Key: string(rune('a' + i)), Fields: []any{value}}
		require.NoError(t, w.Append(&row))
	}
	m, err = w.Finish()
	require.NoError(t, err)
	m.Index.Name, m.Root, m.Source = IndexFileName(0), ".", &SourceInfo{Format: "parquet"}
	m.Shards = []ShardInfo{{Name: "a.parquet", Size: 1000, Rows: int64(len(values)), Ends: hexCRC(0)}}
	return dir, m
}

func openWritten(t testing.TB, dir string, m *Manifest) (*Dataset, error) {
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ManifestName), data, 0o644))
	d, err := Open(dir, Options{})
	if err == nil {
		t.Cleanup(d.Release)
	}
	return d, err
}

func TestThePlaceOfAFieldInABlockIsReadBackFromTheIndex(t *testing.T) {
	in := BlockExtent{Extent{100, 10}, ValuePlace{BlockPlace{Stored: 900, Size: 5000, Inner: 4990, Codec: blocks.Zstd}, 77}}
	none, outside := BlockExtent{}, BlockExtent{Extent: Extent{990, 10}}
	dir, m := withValues(t, captions, in, none, outside)
	d, err := openWritten(t, dir, m)
	require.NoError(t, err)
	for i, want := range []BlockExtent{in, none, outside} {
		found, err := d.StoredValue(int64(i), "caption")
		require.NoError(t, err)
		require.Equal(t, want, found)
		row, err := d.Row(int64(i))
		require.NoError(t, err)
		require.Equal(t, []any{want}, row.Fields)
	}
	most, err := d.MostBytes("caption")
	require.NoError(t, err)
	require.Equal(t, int64(10), most)
}

func TestAValueIsReadFromItsPlaceAndABlockThatCannotBeDecodedIsAnError(t *testing.T) {
	container := make([]byte, 1000)
	copy(container[100:], "caption")
	dir, m := withValues(t, captions, BlockExtent{Extent: Extent{100, 7}}, BlockExtent{Extent{0, 7}, ValuePlace{BlockPlace{Stored: 1000, Size: 9000, Codec: blocks.Zstd}, 0}})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.parquet"), container, 0o644))
	d, err := openWritten(t, dir, m)
	require.NoError(t, err)
	found, err := d.FieldValue(0, "caption")
	require.NoError(t, err)
	require.Equal(t, "caption", found)
	_, err = d.FieldValue(1, "caption")
	require.ErrorContains(t, err, `a.parquet: record 1 (b) at byte 0: bad: field "caption": the block cannot be decoded: the zstd block`)
}

func TestImpossiblePlacesOfFieldsInBlocksAreErrorsThatNameRecordAndField(t *testing.T) {
	place := func(offset, length int64, b BlockPlace) BlockExtent {
		return BlockExtent{Extent{offset, length}, ValuePlace{BlockPlace: b}}
	}
	for what, value := range map[string]BlockExtent{
		"behind the container":      place(101, 10, BlockPlace{Stored: 900, Size: 5000, Codec: blocks.Zstd}),
		"behind the block":          place(100, 11, BlockPlace{Stored: 900, Size: 5000, Inner: 4990, Codec: blocks.Zstd}),
		"begins behind the block":   place(100, 0, BlockPlace{Stored: 900, Size: 5000, Inner: 5001, Codec: blocks.Zstd}),
		"sums that wrap around":     place(100, 1, BlockPlace{Stored: 900, Size: 1<<32 - 1, Inner: 1<<32 - 1, Codec: blocks.Zstd}),
		"a bomb":                    place(100, 1, BlockPlace{Stored: 900, Size: blocks.MostBytes + 1, Codec: blocks.Zstd}),
		"a block over the limit":    place(0, 1, BlockPlace{Stored: blocks.MostBytes + 1, Size: 5, Codec: blocks.Zstd}),
		"an unknown codec":          place(100, 1, BlockPlace{Stored: 900, Size: 1, Codec: 99}),
		"a codec only of arrays":    place(100, 1, BlockPlace{Stored: 900, Size: 1, Codec: blocks.Tiled}),
		"a length of 2^63":          place(100, -1<<63, BlockPlace{Stored: 900, Size: 5000, Codec: blocks.Zstd}),
		"an offset of 2^63":         place(-1<<63, 1, BlockPlace{Stored: 900, Size: 5000, Codec: blocks.Zstd}),
		"in no block, behind it":    place(991, 10, BlockPlace{}),
		"in no block, of 2^63":      place(100, -1, BlockPlace{}),
		"in no block, before it":    place(-1, 1, BlockPlace{}),
		"2^63-1 bytes in a block":   place(0, 1<<63-1, BlockPlace{Stored: 900, Size: 5000, Codec: blocks.Zstd}),
		"in no block, 2^63-1 bytes": place(1, 1<<63-1, BlockPlace{}),
	} {
		dir, m := withValues(t, captions, BlockExtent{}, value)
		d, err := openWritten(t, dir, m)
		require.NoError(t, err)
		_, err = d.StoredValue(0, "caption")
		require.ErrorContains(t, err, `record 1: bad: field "caption": `, what)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.KindBadFile, e.Kind)
	}
}

func TestOnlyAnIndexWithFieldsInBlocksNeedsANewerReader(t *testing.T) {
	for _, of := range []struct {
		field           Field
		value           any
		version, reader int
	}{
		{captions, BlockExtent{}, 6, 5},
		{Field{Name: "caption", Type: Str, Located: true}, Extent{}, 3, 2},
		{Field{Name: "caption", Type: Str}, "held", 3, 2},
	} {
		dir, m := withValues(t, of.field, of.value)
		require.Equal(t, []int{of.version, of.reader}, []int{m.Version, m.MinReader})
		d, err := openWritten(t, dir, m)
		require.NoError(t, err)
		found, err := d.StoredValue(0, "caption")
		require.NoError(t, err)
		require.Equal(t, of.value, found)
	}
	for want, edit := range map[string]func(m *Manifest){
		"lies in blocks, in an index with min_reader 4":  func(m *Manifest) { m.MinReader = 4 },
		"lies in blocks and is not located":              func(m *Manifest) { m.Fields[0].Located = false },
		`is located in its container; only`:              func(m *Manifest) { m.Fields[0].Type = Int },
		`there are 19 columns (expected at least 24)`:    nil,
		`lies in a container, and the dataset is packed`: func(m *Manifest) { m.Kind, m.Shards[0].Name = "packed", "a.tar" },
		`column 19 is "block_stored.caption" (expected "f.b")`: func(m *Manifest) {
			m.Fields = []Field{{Name: "caption", Type: Str, Located: true}, {Name: "b", Type: Int}}
		},
	} {
		dir, m := withValues(t, captions, BlockExtent{})
		if edit == nil { // the index of a field outside of blocks
			dir, m = withValues(t, Field{Name: "caption", Type: Str, Located: true}, Extent{})
			m.Fields[0].Blocks, m.Version, m.MinReader = true, 6, 5
		} else {
			edit(m)
		}
		_, err := openWritten(t, dir, m)
		require.ErrorContains(t, err, want)
	}
}

func TestTheWriterRefusesAPlaceForAFieldOfValuesAndAValueForAFieldOfPlaces(t *testing.T) {
	for _, of := range []struct {
		field Field
		value any
	}{{captions, Extent{}}, {captions, "text"}, {Field{Name: "caption", Type: Str, Located: true}, BlockExtent{}}, {Field{Name: "caption", Type: Str}, BlockExtent{}}} {
		w, err := NewWriterInBlocks(filepath.Join(t.TempDir(), IndexFileName(0)), Contained, false, []Field{of.field})
		require.NoError(t, err)
		require.ErrorContains(t, w.Append(&Row{Sample: Sample{Length: 1, Verdict: Bad}, Key: "k", Fields: []any{of.value}}), "a place and a value are not the same")
		w.Abort()
	}
}

// FuzzIndexWithFieldsInBlocks changes bytes of an index of containers and then corrects its checksums. Every
// value that it then names lies in its block, and every block in the container.
func FuzzIndexWithFieldsInBlocks(f *testing.F) {
	var values []any
	for i := range 20 {
		values = append(values, BlockExtent{Extent{int64(i), int64(10 * i)}, ValuePlace{BlockPlace{Stored: 900, Size: 5000, Inner: uint32(100 * i), Codec: blocks.Zstd}, 1}})
	}
	dir, m := withValues(f, captions, values...)
	whole, err := os.ReadFile(filepath.Join(dir, IndexFileName(0)))
	require.NoError(f, err)
	encoded, err := json.Marshal(m)
	require.NoError(f, err)
	for at := 0; at < len(whole); at += 97 {
		f.Add(uint32(at), []byte{0xff, 0xff, 0xff, 0x7f})
		f.Add(uint32(at), []byte{1})
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		data := bytes.Clone(whole)
		copy(data[int(at)%len(data):], patch)
		m := new(Manifest)
		require.NoError(t, json.Unmarshal(encoded, m))
		seal(m, data)
		require.NoError(t, m.check())
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, IndexFileName(0)), data, 0o644))
		d, err := openWritten(t, dir, m)
		if err != nil {
			return
		}
		for i := range d.Len() {
			value, err := d.StoredValue(i, "caption")
			if err != nil {
				return
			}
			v := value.(BlockExtent)
			if v.Codec == blocks.None {
				require.LessOrEqual(t, uint64(v.Offset)+uint64(v.Length), uint64(1000))
				continue
			}
			require.True(t, blocks.Known(v.Codec))
			require.LessOrEqual(t, max(v.Stored, v.Size), uint32(blocks.MostBytes))
			require.LessOrEqual(t, uint64(v.Offset)+uint64(v.Stored), uint64(1000))
			require.LessOrEqual(t, uint64(v.Inner)+uint64(v.Length), uint64(v.Size))
		}
	})
}
