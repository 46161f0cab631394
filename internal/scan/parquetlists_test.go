package scan

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// vectorColumns are the columns of lists of numbers in the fixtures whose name begins with "vectors".
var vectorColumns = []string{"some", "few", "halves", "zeros", "in.it"}

// numbersIn are the numbers of an array.
func numbersIn(t *testing.T, value any) (dtype string, numbers []float64) {
	a := value.(catalog.Array)
	numbers = []float64{}
	width := int(widths[a.DType])
	for raw := a.Data; len(raw) > 0; raw = raw[width:] {
		var bits [8]byte
		copy(bits[:], raw[:width])
		n := binary.LittleEndian.Uint64(bits[:])
		switch a.DType {
		case "float32":
			numbers = append(numbers, float64(math.Float32frombits(uint32(n))))
		case "int8":
			numbers = append(numbers, float64(int8(n)))
		default:
			numbers = append(numbers, float64(int64(n)))
		}
	}
	return a.DType, numbers
}

func TestParquetListsOfNumbersAreArraysIfTheyAreAskedFor(t *testing.T) {
	for _, name := range []string{"vectors", "vectorssnappy", "vectorsdelta"} {
		t.Run(name, func(t *testing.T) {
			d := open(t, "testdata/"+name+".parquet", Options{Fields: vectorColumns})
			require.Equal(t, int64(24), d.Len())
			for i := range d.Len() {
				require.Equal(t, int64(catalog.NoLabel), labels(t, d)[i])
				x := float64(i)
				some := []float64{x, -x, 7}[:i%4]
				if i%6 == 5 {
					some = []float64{}
				}
				for field, want := range map[string]struct {
					dtype   string
					numbers []float64
				}{
					"label": {"float32", []float64{x / 4, .5, -x}}, "some": {"int64", some}, "few": {"int8", []float64{x, -1}},
					"zeros": {"int32", make([]float64, 40)}, "in.it": {"int64", []float64{x}},
				} {
					value, err := d.FieldValue(i, field)
					require.NoError(t, err)
					dtype, numbers := numbersIn(t, value)
					require.Equal(t, want.dtype, dtype)
					require.Equal(t, want.numbers, numbers, "%s of row %d", field, i)
				}
				half, err := d.FieldValue(i, "halves")
				require.NoError(t, err)
				require.Equal(t, "float16", half.(catalog.Array).DType)
			}
		})
	}
}

func TestParquetListsInUncompressedPagesStayInTheFile(t *testing.T) {
	located := func(name string) (fields []string) {
		for _, f := range open(t, "testdata/"+name+".parquet", Options{Fields: vectorColumns}).Fields() {
			if f.Located {
				fields = append(fields, f.Name)
			}
		}
		return fields
	}
	require.Equal(t, []string{"label", "some", "halves", "zeros", "in.it"}, located("vectors"),
		"all columns but the one whose numbers are stored with more bits than they have")
	require.Empty(t, located("vectorsdelta"))
}

func TestAParquetColumnOfListsWithNullsInsideIsNoField(t *testing.T) {
	for _, name := range []string{"vectors", "vectorssnappy", "vectorsdelta"} {
		_, err := Open("testdata/"+name+".parquet", Options{Fields: []string{"gaps"}})
		require.ErrorContains(t, err, `the column "gaps" has lists with nulls inside, which no array holds`+packInstead)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
		d := open(t, "testdata/"+name+".parquet", Options{Label: "gaps"})
		require.Contains(t, d.Warnings(), `the column "gaps" has lists with nulls inside, so it is no field`)
		for _, f := range d.Fields() {
			require.NotContains(t, []string{"label", "gaps"}, f.Name)
		}
	}
}

func TestParquetListsOfOtherValuesThanNumbersAreNoFields(t *testing.T) {
	for _, name := range []string{"deep", "days"} {
		_, err := Open("testdata/vectors.parquet", Options{Fields: []string{name}})
		require.ErrorContains(t, err, `the column "`+name+`" holds lists, or values of several types`)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
	for _, f := range open(t, "testdata/vectors.parquet", Options{}).Fields() {
		require.Equal(t, "label", f.Name, "lists are fields only if they are asked for")
	}
}

func TestParquetListsOfFloat16AreReadInEveryEncoding(t *testing.T) {
	d := open(t, "testdata/halves.parquet", Options{Fields: []string{"split", "shared", "plain"}})
	require.Equal(t, int64(40), d.Len())
	for i := range d.Len() {
		x := float32(i)
		want := []byte{}
		for _, v := range []float32{x / 4, -x, x * 100}[:i%4] {
			want = append(want, float16.New(v).ToLEBytes()...)
		}
		for _, field := range []string{"split", "shared", "plain"} {
			value, err := d.FieldValue(i, field)
			require.NoError(t, err)
			require.Equal(t, catalog.Array{DType: "float16", Shape: []int64{i % 4}, Data: want}, value, "%s of row %d", field, i)
		}
	}
}
