package scan

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/formats"
)

func TestSamplesWithoutAnImageAreCountedInAWarning(t *testing.T) {
	// The members of a.tar are not grouped, so WebDataset takes them for four samples.
	names := []string{"0.jpg", "x", "1.jpg", "x", "0.cls", "0", "1.cls", "1"}
	dir := put(t, map[string][]byte{"a.tar": archive(names...), "b.tar": archive("2.jpg", "x", "2.cls", "2")})
	d := open(t, dir, Options{})
	require.Equal(t, []string{`2 of 5 samples have no image, and are errors where they are read; on_error="replace" of a loader passes over them`,
		"2 of 5 samples have no label, theirs is -1"}, d.Warnings())
	require.Empty(t, open(t, dir+"/b.tar", Options{}).Warnings())
}

func TestSamplesWithoutAnImageAreCountedOnlyWithinASelection(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "image", Type: arrow.BinaryTypes.Binary, Nullable: true}, {Name: "label", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.BinaryBuilder).AppendValues([][]byte{[]byte("a"), nil, []byte("c"), nil}, []bool{true, false, true, false})
	b.Field(1).(*array.Int64Builder).AppendValues([]int64{0, 1, 2, 3}, nil)
	var table bytes.Buffer
	w := ipc.NewWriter(&table, ipc.WithSchema(schema))
	require.NoError(t, w.Write(b.NewRecordBatch()))
	require.NoError(t, w.Close())
	for want, rows := range map[string][]byte{"": rowNumbers(t, 2, 0), "1 of 3 samples have no image": rowNumbers(t, 3, 2, 0), "2 of 2 samples have no image": rowNumbers(t, 1, 1)} {
		dir := put(t, map[string][]byte{"state.json": []byte(`{"_data_files": [{"filename": "0.arrow"}], "_indices_data_files": [{"filename": "indices.arrow"}]}`),
			"0.arrow": table.Bytes(), "indices.arrow": rows})
		said := strings.Join(open(t, dir, Options{}).Warnings(), "; ")
		if want == "" {
			require.NotContains(t, said, "no image")
		}
		require.Contains(t, said, want)
	}
}

func TestTheColumnsOfManyShardsThatWereNotReadAreListedOnceAndHeldOnce(t *testing.T) {
	all, leaves := []*column{{name: "image"}}, []formats.Leaf{}
	for i := range 3000 {
		leaves = append(leaves, formats.Leaf{Path: []string{fmt.Sprint("c", i)}, Kind: formats.IntLeaf})
	}
	parts := make([]*part, 100)
	for i := range parts {
		parts[i] = newPart(nil, 0, &Options{Fields: []string{"image"}})
		require.NoError(t, parts[i].readTable(slices.Clone(leaves), "", func([]formats.Value) (int64, error) { return 0, io.EOF }))
		require.Equal(t, parts[0].unread, parts[i].unread)
	}
	require.Contains(t, columnList(all, parts), `"image", "c0", "c1", `)
	require.Contains(t, columnList(all, parts), " and 2981 more")
}
