package scan

import (
	"bytes"
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

// oneTable is a stream of Arrow with these columns, each of as many rows.
func oneTable(t *testing.T, columns ...any) string {
	var fields []arrow.Field
	var arrays []arrow.Array
	for i := 0; i < len(columns); i += 2 {
		fields = append(fields, arrow.Field{Name: columns[i].(string), Type: columns[i+1].(arrow.Array).DataType(), Nullable: true})
		arrays = append(arrays, columns[i+1].(arrow.Array))
	}
	schema := arrow.NewSchema(fields, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	require.NoError(t, w.Write(array.NewRecordBatch(schema, arrays, int64(arrays[0].Len()))))
	require.NoError(t, w.Close())
	return put(t, map[string][]byte{"a.arrow": out.Bytes()}) + "/a.arrow"
}

func threeImages() arrow.Array {
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	b.AppendValues([][]byte{[]byte("\xff\xd8\xff1"), []byte("\xff\xd8\xff2"), []byte("\xff\xd8\xff3")}, nil)
	return b.NewArray()
}

func unsigned(values ...uint64) arrow.Array {
	b := array.NewUint64Builder(memory.DefaultAllocator)
	b.AppendValues(values, nil)
	return b.NewArray()
}

func TestUnsigned64BitNumbersAreExactBelow2To63AndFloatsFromThereOn(t *testing.T) {
	d := open(t, oneTable(t, "image", threeImages(), "label", unsigned(1<<53+1, math.MaxInt64, 0), "id", unsigned(1<<62+1, 2, 3), "hash", unsigned(1, 1<<63, 3)), Options{})
	require.Equal(t, []int64{1<<53 + 1, math.MaxInt64, 0}, labels(t, d))
	id, err := d.FieldValue(0, "id")
	require.NoError(t, err)
	require.Equal(t, int64(1<<62+1), id)
	hash, err := d.FieldValue(1, "hash")
	require.NoError(t, err)
	require.Equal(t, float64(1<<63), hash)
	d = open(t, oneTable(t, "image", threeImages(), "label", unsigned(1, math.MaxUint64, 2)), Options{})
	require.Equal(t, []int64{-1, -1, -1}, labels(t, d))
	require.Equal(t, []string{`labels are fractions, or numbers too large to be a label, which are no classes: they are the field "label", and every label is -1`}, d.Warnings())
	value, err := d.FieldValue(1, "label")
	require.NoError(t, err)
	require.Equal(t, float64(math.MaxUint64), value)
}

func TestALabelThatIsNaNMeansNoLabel(t *testing.T) {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues([]float64{1, math.NaN(), 0}, nil)
	d := open(t, oneTable(t, "image", threeImages(), "label", b.NewArray()), Options{})
	require.Equal(t, []int64{1, -1, 0}, labels(t, d))
	require.Equal(t, []string{"1 of 3 samples have no label, theirs is -1"}, d.Warnings())
}

func TestAColumnOfNullsIsTreatedAsMissing(t *testing.T) {
	d := open(t, oneTable(t, "image", threeImages(), "label", array.NewNull(3), "x", array.NewNull(3)), Options{})
	require.Equal(t, []int64{-1, -1, -1}, labels(t, d))
	require.Empty(t, d.Fields())
	require.Equal(t, []string{`no column is known as the label, so every label is -1 (found "image"); label= names one`}, d.Warnings())
	_, err := Open(oneTable(t, "image", array.NewNull(3), "label", unsigned(1, 2, 3)), Options{})
	require.ErrorContains(t, err, `no column is known as the image (found "label"); image= names it`)
}

func TestAColumnWithoutANameIsAWarningAndTheOtherColumnsAreRead(t *testing.T) {
	d := open(t, oneTable(t, "", unsigned(7, 8, 9), "image", threeImages(), "label", unsigned(1, 2, 3), "x", unsigned(4, 5, 6)), Options{})
	require.Equal(t, []int64{1, 2, 3}, labels(t, d))
	require.Len(t, d.Fields(), 1)
	require.Equal(t, []string{`a.arrow: a column is called "", which no field can be called, so it is none`}, d.Warnings())
}

func TestAWarningOfSeveralContainersIsGivenOnce(t *testing.T) {
	one := oneTable(t, "", unsigned(7, 8, 9), "image", threeImages(), "label", unsigned(1, 2, 3))
	data, err := os.ReadFile(one)
	require.NoError(t, err)
	for _, name := range []string{"b.arrow", "c.arrow"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(one), name), data, 0o600))
	}
	d := open(t, filepath.Dir(one), Options{})
	require.EqualValues(t, 9, d.Len())
	require.Equal(t, []string{`a.arrow: a column is called "", which no field can be called, so it is none (and so in 2 more files)`}, d.Warnings())
}

func TestTwoColumnsOfOneNameAreNeitherFieldNorImageNorLabel(t *testing.T) {
	d := open(t, oneTable(t, "image", threeImages(), "label", unsigned(1, 2, 0), "x", unsigned(1, 2, 3), "x", unsigned(4, 5, 6)), Options{})
	require.Equal(t, []int64{1, 2, 0}, labels(t, d))
	require.Empty(t, d.Fields())
	require.Equal(t, []string{`two columns have the name "x", so it is no field`}, d.Warnings())
	_, err := Open(d.Root()+"/a.arrow", Options{Fields: []string{"x"}})
	require.ErrorContains(t, err, `two columns have the name "x"`)
	for column, want := range map[string]string{"label": "either may be the label", "image": "either may be the image"} {
		again := map[string]arrow.Array{"label": unsigned(3, 3, 3), "image": threeImages()}[column]
		file := oneTable(t, "image", threeImages(), "label", unsigned(1, 2, 0), column, again)
		_, err = Open(file, Options{Label: "label", Image: "image"})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}
