package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/store"
)

const bulkyRows = 12

// bulkyCaption, bulkyBlob and bulkyVector are what testdata/makebulky.py wrote.
func bulkyCaption(row int) string {
	if row == 5 {
		return ""
	}
	return strings.Repeat(fmt.Sprintf("row %d of a dozen, ", row), 500+150*row)
}

func bulkyBlob(row int) []byte { return bytes.Repeat([]byte{byte(row)}, 7000) }

func bulkyVector(row int) []byte {
	var data []byte
	for k := range 2048 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(row*1000+k/64)))
	}
	return data
}

var bulky = []string{"bulky.parquet", "bulky.arrow", "bulkymds/shard.00000.mds.zstd"}

func field(t *testing.T, d *catalog.Dataset, name string) catalog.Field {
	f, ok := d.Field(name)
	require.True(t, ok, name)
	return f
}

// requireBulkyFields reads every field that makebulky.py wrote through a store, as programs do, and compares it.
func requireBulkyFields(t *testing.T, d *catalog.Dataset) *store.Store {
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.Equal(t, int64(bulkyRows), d.Len())
	for _, row := range []int{7, 0, 5, 11, 1, 2, 3, 4, 6, 8, 9, 10} {
		want := map[string]any{"caption": bulkyCaption(row), "blob": bulkyBlob(row), "title": fmt.Sprint("title ", row)}
		if f, ok := d.Field("vector"); ok {
			require.Equal(t, "float32", f.DType)
			want["vector"] = catalog.Array{DType: "float32", Shape: []int64{2048}, Data: bulkyVector(row)}
		}
		for name, value := range want {
			found, err := s.FieldValue(t.Context(), int64(row), name)
			require.NoError(t, err)
			require.Equal(t, value, found, "%s of row %d", name, row)
		}
	}
	return s
}

func TestLongColumnsInBlocksAreLocatedFieldsAndShortOnesAreHeldInMemory(t *testing.T) {
	for _, name := range bulky {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if name == "bulky.arrow" {
				o.Fields = []string{"caption", "blob", "title", "vector"}
			}
			d := open(t, "testdata/"+name, o)
			require.Empty(t, d.Warnings())
			for _, name := range []string{"caption", "blob"} {
				require.True(t, field(t, d, name).Located && field(t, d, name).Blocks, name)
			}
			require.False(t, field(t, d, "title").Located)
			if name == "bulky.arrow" {
				require.Equal(t, catalog.Field{Name: "vector", Type: catalog.ArrayType, DType: "float32", Shape: []int64{2048}, Located: true, Blocks: true}, field(t, d, "vector"))
			}
			s := requireBulkyFields(t, d)
			require.LessOrEqual(t, s.BlocksDecoded(), int64(9),
				"three columns of three batches: each block is decoded once, in whatever order its values are read")
			for row := range int64(bulkyRows) { // without a store every value decodes its block
				found, err := d.FieldValue(row, "caption")
				require.NoError(t, err)
				require.Equal(t, bulkyCaption(int(row)), found)
			}
			most, err := d.MostBytes("caption")
			require.NoError(t, err)
			require.Equal(t, int64(len(bulkyCaption(11))), most)
		})
	}
}

func TestFieldsInBlocksOfAConcatenationAreReadFromItsParts(t *testing.T) {
	var parts []*catalog.Dataset
	for _, name := range bulky {
		parts = append(parts, open(t, "testdata/"+name, Options{}))
	}
	d, err := catalog.Concat(parts, nil)
	require.NoError(t, err)
	defer d.Release()
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	for i := range d.Len() {
		found, err := s.FieldValue(t.Context(), i, "blob")
		require.NoError(t, err)
		require.Equal(t, bulkyBlob(int(i)%bulkyRows), found, i)
	}
}

func TestAnImageInABlockIsAlsoAFieldOnRequest(t *testing.T) {
	d := open(t, "testdata/bulky.parquet", Options{Fields: []string{"image"}})
	require.True(t, field(t, d, "image_").Blocks)
	s, err := d.Sample(4)
	require.NoError(t, err)
	data, err := d.FieldValue(4, "image_")
	require.NoError(t, err)
	require.Len(t, data, int(s.Length))
	require.Equal(t, "\xff\xd8\xff", string(data.([]byte)[:3]))
}

func TestAColumnThatIsInBlocksInSomeContainersOnlyIsAField(t *testing.T) {
	dir := put(t, map[string][]byte{"a.parquet": fixture(t, "plain1.parquet"), "b.parquet": fixture(t, "snappy.parquet")})
	d := open(t, dir, Options{})
	require.Empty(t, d.Warnings())
	require.True(t, field(t, d, "text").Blocks)
	want := expected(t, "pages")
	for i := range d.Len() {
		fieldsAre(t, d, i, want[int(i)%len(want)].Members, "image")
	}
}

func TestADamagedBlockOfAFieldIsAnErrorWithFileRecordAndField(t *testing.T) {
	data := fixture(t, "bulky.parquet")
	file := filepath.Join(put(t, map[string][]byte{"a.parquet": data}), "a.parquet")
	d := open(t, file, Options{})
	stored, err := d.StoredValue(7, "caption")
	require.NoError(t, err)
	at := stored.(catalog.BlockExtent)
	require.Equal(t, blocks.Zstd, at.Codec)
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	whole := bytes.Clone(data[at.Offset:][:at.Stored])
	kinds := make(map[fault.Kind]int)
	for i := 0; i < len(whole); i += 3 {
		copy(data[at.Offset:], whole)
		data[int(at.Offset)+i] ^= 0x55
		require.NoError(t, os.WriteFile(file, data, 0o644))
		require.NoError(t, os.Chtimes(file, time.Time{}, time.Unix(0, d.Shards()[0].MTimeNs)))
		for _, read := range []func() (any, error){
			func() (any, error) { return d.FieldValue(7, "caption") },
			func() (any, error) {
				s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
				require.NoError(t, err)
				defer s.Close()
				return s.FieldValue(t.Context(), 7, "caption")
			},
		} {
			value, err := read()
			if err == nil {
				require.Equal(t, bulkyCaption(7), value,
					"a damaged block may be read only if other rows of its page are damaged")
				continue
			}
			kinds[fault.KindOf(err)]++
			require.ErrorContains(t, err, "a.parquet: record 7 ")
			require.ErrorContains(t, err, fmt.Sprintf("at byte %d: ", at.Offset))
			require.ErrorContains(t, err, ": field \"caption\": the ")
		}
	}
	require.Len(t, kinds, 2, "some blocks cannot be decoded, and others decode to another text: %v", kinds)
	require.Positive(t, kinds[fault.KindBadFile])
	require.Positive(t, kinds[fault.KindChecksum])
}

func TestABlockOfAFieldOverTheLimitIsRefused(t *testing.T) {
	d := open(t, "testdata/bulky.parquet", Options{})
	s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20, Blocks: blocks.Limits{Block: 1000}})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.FieldValue(t.Context(), 3, "caption")
	require.ErrorContains(t, err, `field "caption": the block has `)
	require.ErrorContains(t, err, "max_block_bytes is 1000")
	require.Equal(t, fault.KindLimit, fault.KindOf(err))
}

func TestACachedScanKeepsPlacesInBlocksAndIsRefusedIfAPlaceIsOutside(t *testing.T) {
	kept := func() *catalog.Table {
		file := filepath.Join("testdata", "bulky.parquet")
		t0, err := scan([]string{file}, "parquet", Options{})
		require.NoError(t, err)
		return t0
	}
	table := kept()
	n := -1
	for i := range table.Fields {
		if table.Fields[i].Name == "caption" {
			n = i
		}
	}
	data, err := encodeTable(table)
	require.NoError(t, err)
	again, err := decodeTable(data)
	require.NoError(t, err)
	require.Equal(t, table.FieldBlocks, again.FieldBlocks)
	require.Equal(t, table.Fields, again.Fields)
	for what, edit := range map[string]func(t *catalog.Table){
		"behind the block":     func(t *catalog.Table) { t.FieldBlocks[n][3].Inner = t.FieldBlocks[n][3].Size },
		"behind the container": func(t *catalog.Table) { t.Extents[n][3].Offset = t.Shards[0].Size },
		"a negative offset":    func(t *catalog.Table) { t.Extents[n][3].Offset = -1 },
		"a negative length":    func(t *catalog.Table) { t.Extents[n][3].Length = -1 },
		"a bomb":               func(t *catalog.Table) { t.FieldBlocks[n][3].Size = math.MaxUint32 },
		"a codec":              func(t *catalog.Table) { t.FieldBlocks[n][3].Codec = 99 },
		"fewer places":         func(t *catalog.Table) { t.FieldBlocks[n] = t.FieldBlocks[n][:3] },
		"no places":            func(t *catalog.Table) { t.FieldBlocks[n] = nil },
		"places of no field":   func(t *catalog.Table) { t.Fields[n].Blocks = false },
	} {
		table := kept()
		edit(table)
		data, err := encodeTable(table)
		require.NoError(t, err)
		_, err = decodeTable(data)
		require.Error(t, err, what)
	}
}

func TestALongValueAmongShortOnesIsHeldInMemoryWhileTheMeanIsSmall(t *testing.T) {
	values := func(lengths ...int64) *part {
		p := &part{size: 1 << 20, columns: make(map[string]*column)}
		block := &formats.Block{Stored: 1000, Size: 1 << 20, Codec: blocks.Zstd}
		for row, n := range lengths {
			c := cell{name: "text", kind: textCell, length: n, data: make([]byte, n), block: block}
			require.NoError(t, p.note(row, &c, false))
		}
		return p
	}
	short := make([]int64, 1000)
	for i := range short {
		short[i] = 100
	}
	require.NotNil(t, values(short...).columns["text"].texts)
	require.NotNil(t, values(append(short, 60<<10)...).columns["text"].texts)
	long := values(append(short, maxHeldValue+1)...)
	require.Nil(t, long.columns["text"].texts)
	require.Zero(t, long.held)
	require.Len(t, long.columns["text"].extents, 1001)
	for i := range short {
		short[i] = 300
	}
	require.NotNil(t, values(short...).columns["text"].texts, "still within what a column may hold")
	require.Nil(t, values(append(short, append(short, short...)...)...).columns["text"].texts)
}
