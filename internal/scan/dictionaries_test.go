package scan

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// rowsOfDictionaries are the rows that testdata/maketables.py wrote: for each batch the first entry, the last, none,
// the second.
func rowsOfDictionaries(words [][]string, size func(batch, n int) int) (rows [][2]any) {
	for batch, all := range words {
		last := len(all) - 1
		rows = append(rows, [2]any{all[0], size(batch, 0)}, [2]any{all[last], size(batch, last)}, [2]any{"", nil}, [2]any{all[1], size(batch, 1)})
	}
	return rows
}

func TestDictionaryEncodedColumnsHaveTheEntriesOfTheirDictionary(t *testing.T) {
	all := []string{"a0", "b0", "a1", "b1", "a2", "b2"}
	for name, rows := range map[string][][2]any{
		"dictionaries": rowsOfDictionaries([][]string{all}, func(_, n int) int { return 60 + n }),
		"grown":        rowsOfDictionaries([][]string{all[:2], all[:4], all}, func(_, n int) int { return n }),
		"replaced":     rowsOfDictionaries([][]string{all[:2], all[2:4], all[4:]}, func(_, n int) int { return 20 + n }),
	} {
		for _, codec := range []string{"", "zstd"} {
			t.Run(name+codec, func(t *testing.T) {
				d := open(t, "testdata/"+name+codec+".arrow", Options{})
				require.Equal(t, len(rows), int(d.Len()))
				for i, row := range rows {
					label := ""
					if n := labels(t, d)[i]; n >= 0 {
						label = d.Classes()[n]
					}
					require.Equal(t, row[0], label)
					for _, field := range []string{"view", "blob"} {
						v, err := d.FieldValue(int64(i), field)
						require.NoError(t, err)
						require.Equal(t, row[0], fmt.Sprintf("%s", v), "%s of row %d", field, i)
					}
					size, err := d.FieldValue(int64(i), "size")
					require.NoError(t, err)
					if want, ok := row[1].(int); ok {
						require.EqualValues(t, want, size, i)
					}
				}
				for _, f := range d.Fields() {
					require.NotEqual(t, "deep", f.Name)
				}
			})
		}
	}
}

func TestADictionaryOfListsIsUnsupportedAndTheErrorNamesItsColumn(t *testing.T) {
	_, err := Open("testdata/dictionaries.arrow", Options{Label: "deep"})
	require.ErrorContains(t, err, `the column "deep" is encoded by a dictionary of lists, of structs or of another column`)
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestADictionaryEncodedColumnMayBeTheLabel(t *testing.T) {
	for _, name := range []string{"table", "lz4", "zstd"} {
		d := open(t, "testdata/"+name+".arrow", Options{Label: "word"})
		require.Equal(t, []string{"a", "aaaaaaaaaaaaaaaaaaaa", "b"}, d.Classes())
		require.Equal(t, []int64{2, 0, 2, 0, 2, 1}, labels(t, d))
	}
}

// dictionaryFile is an Arrow file with a dictionary-encoded column of texts, with so many entries and one row with the
// given index. A writer in C++ would refuse an impossible one.
func dictionaryFile(t *testing.T, entries int, index int32) string {
	words := array.NewStringBuilder(memory.DefaultAllocator)
	images := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	for n := range entries {
		words.Append(fmt.Sprint("word", n))
	}
	images.Append([]byte("\xff\xd8\xff"))
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	numbers := memory.NewBufferBytes(binary.LittleEndian.AppendUint32(nil, uint32(index)))
	column := array.NewData(typ, 1, []*memory.Buffer{nil, numbers}, nil, 0, 0)
	column.SetDictionary(words.NewArray().Data())
	schema := arrow.NewSchema([]arrow.Field{{Name: "image", Type: arrow.BinaryTypes.Binary}, {Name: "label", Type: typ}}, nil)
	file := filepath.Join(t.TempDir(), "a.arrow")
	f, err := os.Create(file)
	require.NoError(t, err)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	require.NoError(t, err)
	require.NoError(t, w.Write(array.NewRecordBatch(schema, []arrow.Array{images.NewArray(), array.MakeFromData(column)}, 1)))
	require.NoError(t, w.Close())
	return file
}

func TestAnIndexOutsideItsDictionaryIsABadFile(t *testing.T) {
	require.Equal(t, []string{"word1"}, open(t, dictionaryFile(t, 2, 1), Options{}).Classes())
	for _, index := range []int32{2, -1, math.MaxInt32, math.MinInt32} {
		_, err := Open(dictionaryFile(t, 2, index), Options{})
		require.ErrorContains(t, err, fmt.Sprintf(`the column "label": entry %d of a dictionary of 2`, index))
		require.Equal(t, fault.KindBadFile, fault.KindOf(err))
	}
	_, err := Open(dictionaryFile(t, 0, 0), Options{})
	require.ErrorContains(t, err, "entry 0 of a dictionary of 0")
}
