package formats

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
)

// listFile has one column "v", an optional list of optional int32, in row groups of these pages, and a body from byte 4 on.
func listFile(body []byte, groups ...[]byte) []byte {
	file := parquetFile(body, []string{"v"}, groups...)
	plain := together(thriftNumber32(1, int(format.ByteArray)), thriftNumber32(2, 0), thriftText(1, "v"), []byte{0})
	list := together(
		together(thriftNumber32(3, 1), thriftText(1, "v"), thriftNumber32(1, 1), thriftNumber32(1, 3), []byte{0}),
		together(thriftNumber32(3, 2), thriftText(1, "list"), thriftNumber32(1, 1), []byte{0}),
		together(thriftNumber32(1, int(format.Int32)), thriftNumber32(2, 1), thriftText(1, "element"), []byte{0}))
	footer := file[4+len(body) : len(file)-8]
	footer = bytes.Replace(footer, plain, list, 1)
	footer = bytes.Replace(footer, []byte{2<<4 | thriftList, 15<<4 | thriftStruct, 2}, []byte{2<<4 | thriftList, 15<<4 | thriftStruct, 4}, 1)
	return together(file[:4+len(body)], footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte(parquetMagic))
}

// runOf is a run of so many levels of one value.
func runOf(count, value int) []byte {
	return append(binary.AppendUvarint(nil, uint64(count)<<1), byte(value))
}

// listPage is a page of levels, each kind after its length, and of numbers.
func listPage(values int, repeats, depths []byte, numbers ...int32) []byte {
	le := binary.LittleEndian
	body := append(le.AppendUint32(nil, uint32(len(repeats))), repeats...)
	body = append(le.AppendUint32(body, uint32(len(depths))), depths...)
	for _, n := range numbers {
		body = le.AppendUint32(body, uint32(n))
	}
	return together(thriftNumber32(1, int(format.DataPage)), thriftNumber32(1, len(body)), thriftNumber32(1, len(body)),
		[]byte{2<<4 | thriftStruct}, thriftNumber32(1, values), thriftNumber32(1, int(format.Plain)), thriftNumber32(1, int(format.RLE)), thriftNumber32(1, int(format.RLE)), []byte{0, 0}, body)
}

// listsOf are all lists of a file, nil where there is none.
func listsOf(t *testing.T, file []byte) (lists [][]int32, held []bool, err error) {
	p, err := NewParquet(bytes.NewReader(file), int64(len(file)), blocks.MostBytes)
	require.NoError(t, err)
	require.Equal(t, "int32", p.Leaves[0].Element)
	require.Equal(t, []string{"v"}, p.Leaves[0].Path)
	var v [1]Value
	for {
		if _, err := p.Next(v[:]); err == io.EOF {
			return lists, held, nil
		} else if err != nil {
			return lists, held, err
		}
		held = append(held, v[0].Held)
		if v[0].Null {
			lists = append(lists, nil)
			continue
		}
		data := v[0].Data
		if !v[0].Held {
			data = file[v[0].Offset:][:v[0].Length]
		}
		list := []int32{}
		for ; len(data) > 0; data = data[4:] {
			list = append(list, int32(binary.LittleEndian.Uint32(data)))
		}
		lists = append(lists, list)
	}
}

func TestAParquetListAcrossTwoPagesIsHeldInMemoryAndOthersStayInTheFile(t *testing.T) {
	body := together(
		listPage(5, together(runOf(1, 0), runOf(1, 1), runOf(3, 0)), together(runOf(2, 3), runOf(1, 0), runOf(1, 1), runOf(1, 3)), 1, 2, 3),
		listPage(2, runOf(2, 1), runOf(2, 3), 4, 5),
		listPage(3, together(runOf(1, 1), runOf(1, 0), runOf(1, 1)), together(runOf(2, 3), runOf(1, 2)), 6, 7),
		listPage(2, together(runOf(1, 0), runOf(1, 1)), runOf(2, 3), 8, 9))
	lists, held, err := listsOf(t, listFile(body, groupOf(6, chunkOf(4, len(body), 12, format.Uncompressed))))
	require.NoError(t, err)
	require.Equal(t, [][]int32{{1, 2}, nil, {}, {3, 4, 5, 6}, nil, {8, 9}}, lists)
	require.Equal(t, []bool{false, false, false, true, false, false}, held)
}

func TestParquetLevelsThatFormNoListsAreErrors(t *testing.T) {
	for text, x := range map[string]struct {
		values int
		page   []byte
	}{
		"levels 1 and 3 of a list":                    {1, listPage(1, runOf(1, 1), runOf(1, 3), 1)},
		"a list that goes on behind its end":          {2, listPage(2, together(runOf(1, 0), runOf(1, 1)), together(runOf(1, 1), runOf(1, 3)), 1)},
		"1 numbers of 4 bytes, their page has 0 left": {1, listPage(1, runOf(1, 0), runOf(1, 3))},
		"more lists than the row group has rows":      {2, listPage(2, runOf(2, 0), runOf(2, 3), 1, 2)},
		"fewer levels or indices than values":         {2, listPage(2, runOf(1, 0), runOf(2, 3), 1, 2)},
	} {
		_, _, err := listsOf(t, listFile(x.page, groupOf(1, chunkOf(4, len(x.page), x.values, format.Uncompressed))))
		require.ErrorIs(t, err, ErrBad, text)
		require.ErrorContains(t, err, text)
	}
}

func TestLengthsOfParquetLevelsWhoseSumOverflowsAreAnErrorAndNoPanic(t *testing.T) {
	const much = 1 << 62 // twice as much is negative
	body := make([]byte, 8)
	page := together(thriftNumber32(1, int(format.DataPageV2)), thriftNumber32(1, len(body)), thriftNumber32(1, len(body)), []byte{5<<4 | thriftStruct},
		thriftNumber32(1, 1), thriftNumber32(1, 0), thriftNumber32(1, 1), thriftNumber32(1, int(format.Plain)), thriftNumber32(1, much), thriftNumber32(1, much), []byte{0, 0}, body)
	for _, codec := range []format.CompressionCodec{format.Snappy, format.Uncompressed} {
		_, _, err := listsOf(t, listFile(page, groupOf(1, chunkOf(4, len(page), 1, codec))))
		require.ErrorIs(t, err, ErrBad)
		require.ErrorContains(t, err, "the number 4611686018427387904, which has 32 bits")
	}
}

func TestParquetListsOfTooManyNumbersAreALimitError(t *testing.T) {
	const many = leastListed + 1
	page := listPage(many, together(runOf(1, 0), runOf(many-1, 1)), runOf(many, 2))
	_, _, err := listsOf(t, listFile(page, groupOf(1, chunkOf(4, len(page), many, format.Uncompressed))))
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "lists of more than 16777216 numbers")
	page = listPage(many-1, together(runOf(1, 0), runOf(many-2, 1)), runOf(many-1, 2))
	lists, _, err := listsOf(t, listFile(page, groupOf(1, chunkOf(4, len(page), many-1, format.Uncompressed))))
	require.NoError(t, err)
	require.Equal(t, [][]int32{nil}, lists, "a list that has a null is read as null")
}
