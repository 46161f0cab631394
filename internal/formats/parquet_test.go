package formats

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
)

// Metadata in Thrift's compact protocol is written by hand, because no writer lets its parts overlap. A field
// begins with the distance of its number from that of the field before, and its type.

func thriftNumber(distance byte, n int) []byte {
	return binary.AppendVarint([]byte{distance<<4 | thriftI64}, int64(n))
}

func thriftNumber32(distance byte, n int) []byte {
	return binary.AppendVarint([]byte{distance<<4 | thriftI32}, int64(n))
}

func thriftText(distance byte, s string) []byte {
	return append(binary.AppendUvarint([]byte{distance<<4 | thriftBinary}, uint64(len(s))), s...)
}

func thriftStructs(distance byte, all ...[]byte) []byte {
	head := binary.AppendUvarint([]byte{distance<<4 | thriftList, 15<<4 | thriftStruct}, uint64(len(all)))
	return append(head, bytes.Join(all, nil)...)
}

func together(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// chunkOf describes a column of size bytes at an offset, in a row group of so many rows.
func chunkOf(at, size, rows int, codec format.CompressionCodec) []byte {
	return together([]byte{3<<4 | thriftStruct}, thriftNumber32(4, int(codec)), thriftNumber(1, rows), thriftNumber(2, size), thriftNumber(2, at), []byte{0, 0})
}

func groupOf(rows int, chunks ...[]byte) []byte {
	return together(thriftStructs(1, chunks...), thriftNumber(2, rows), []byte{0})
}

// parquetFile has the columns of these names, of bytes that are never null, and a body from byte 4 on.
func parquetFile(body []byte, columns []string, groups ...[]byte) []byte {
	elements := [][]byte{together(thriftText(4, "schema"), thriftNumber32(1, len(columns)), []byte{0})}
	for _, name := range columns {
		elements = append(elements, together(thriftNumber32(1, int(format.ByteArray)), thriftNumber32(2, 0), thriftText(1, name), []byte{0}))
	}
	footer := together(thriftStructs(2, elements...), thriftStructs(2, groups...), []byte{0})
	return together([]byte(parquetMagic), body, footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte(parquetMagic))
}

// pageOf is a page with its header, in which other is a text that no reader uses.
func pageOf(typ format.PageType, values, size int, body []byte, other string) []byte {
	detail := byte(2) // data_page_header
	if typ == format.DictionaryPage {
		detail = 4
	}
	return together(thriftNumber32(1, int(typ)), thriftNumber32(1, size), thriftNumber32(1, len(body)),
		[]byte{detail<<4 | thriftStruct}, thriftNumber32(1, values), thriftNumber32(1, int(format.Plain)), thriftNumber32(1, int(format.RLE)), []byte{0},
		thriftText(9, other), []byte{0}, body)
}

// rowsOfParquet reads all rows of a file.
func rowsOfParquet(file []byte) (p *Parquet, rows int, err error) {
	if p, err = NewParquet(bytes.NewReader(file), int64(len(file)), blocks.MostBytes); err != nil {
		return nil, 0, err
	}
	values := make([]Value, len(p.Leaves))
	for {
		if _, err = p.Next(values); err != nil {
			return p, rows, err
		}
		rows++
	}
}

func TestOverlappingColumnsOfParquetRowGroupsAreAnError(t *testing.T) {
	page := pageOf(format.DataPage, 1, 5, []byte("\x01\x00\x00\x00a"), strings.Repeat("o", 300))
	two := together(page, page)
	group := func(n int) []byte { return groupOf(1, chunkOf(4+n*len(page), len(page), 1, format.Uncompressed)) }
	p, rows, err := rowsOfParquet(parquetFile(two, []string{"image"}, group(0), group(1)))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 2, rows)
	require.Equal(t, []string{"image"}, p.Leaves[0].Path)

	_, _, err = rowsOfParquet(parquetFile(two, []string{"image"}, group(0), group(1), group(0), group(1)))
	require.ErrorIs(t, err, ErrBad)
	require.ErrorContains(t, err, "columns that overlap: up to row group")
	var place *WalkError
	require.ErrorAs(t, err, &place)
	require.Equal(t, int64(4+len(two)), place.Offset, "the offset of the footer")
}

func TestParquetRowGroupsThatLackTheirColumnsAreAnErrorInLittleMemory(t *testing.T) {
	columns := make([]string, maxTableLeaves)
	groups := make([][]byte, 3000)
	for i := range groups {
		groups[i] = []byte{0}
	}
	file := parquetFile(nil, columns, groups...)
	var err error
	require.Less(t, allocated(func() { _, _, err = rowsOfParquet(file) }), uint64(8<<20))
	require.ErrorIs(t, err, ErrBad)
	require.ErrorContains(t, err, "row group 0 has -1 rows and 0 columns (expected 1024)")
}

func TestParquetPagesWithoutValuesTakeLittleMemory(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	const size = 8 << 20
	for name, page := range map[string][]byte{
		"of a body that decodes to much": pageOf(format.DataPage, 0, size, encoder.EncodeAll(make([]byte, size), nil), ""),
		"of a long header":               pageOf(format.DataPage, 0, 0, nil, strings.Repeat("o", 600)),
	} {
		body := bytes.Repeat(page, 1000)
		file := parquetFile(body, []string{"image"}, groupOf(1, chunkOf(4, len(body), 1, format.Zstd)))
		require.Less(t, allocated(func() { _, _, err = rowsOfParquet(file) }), uint64(32*len(file)), name)
		require.ErrorIs(t, err, ErrBad)
		require.ErrorContains(t, err, "the column's pages end, 1 values are missing")
	}
}

func TestASecondDictionaryInAParquetRowGroupIsAnError(t *testing.T) {
	page := pageOf(format.DictionaryPage, 1, 5, []byte("\x01\x00\x00\x00a"), "")
	body := together(page, page)
	_, _, err := rowsOfParquet(parquetFile(body, []string{"image"}, groupOf(1, chunkOf(4, len(body), 1, format.Uncompressed))))
	require.ErrorIs(t, err, ErrBad)
	require.ErrorContains(t, err, "a second dictionary in a row group")
}

func TestATooLongNameOfAParquetColumnIsALimitError(t *testing.T) {
	p, _, err := rowsOfParquet(parquetFile(nil, []string{strings.Repeat("n", MaxNameBytes)}))
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, p.Leaves[0].Path[0], MaxNameBytes)
	_, _, err = rowsOfParquet(parquetFile(nil, []string{strings.Repeat("n", MaxNameBytes+1)}))
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "a column's name of 4097 bytes (expected at most 4096)")
}

func TestAnUnsupportedParquetCodecIsAnErrorThatNamesTheSupportedOnes(t *testing.T) {
	page := pageOf(format.DataPage, 1, 5, []byte("\x01\x00\x00\x00a"), "")
	for _, codec := range []format.CompressionCodec{format.Lz4, format.LZO, 99} {
		_, _, err := rowsOfParquet(parquetFile(page, []string{"image"}, groupOf(1, chunkOf(4, len(page), 1, codec))))
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, "(expected UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD or LZ4_RAW)")
	}
}

// indexPage is a data page of indices into a dictionary.
func indexPage(values int, width byte, runs []byte) []byte {
	body := append([]byte{width}, runs...)
	return together(thriftNumber32(1, int(format.DataPage)), thriftNumber32(1, len(body)), thriftNumber32(1, len(body)),
		[]byte{2<<4 | thriftStruct}, thriftNumber32(1, values), thriftNumber32(1, int(format.RLEDictionary)), thriftNumber32(1, int(format.RLE)), []byte{0, 0}, body)
}

func TestParquetIndicesOutsideTheirDictionaryAreErrors(t *testing.T) {
	two := pageOf(format.DictionaryPage, 2, 11, []byte("\x01\x00\x00\x00a\x02\x00\x00\x00bc"), "")
	for text, pages := range map[string][]byte{
		"entry 2 of a dictionary of 2":                     together(two, indexPage(1, 2, runOf(1, 2))),
		"entry 4294967295 of a dictionary of 2":            together(two, indexPage(1, 32, []byte{2, 0xff, 0xff, 0xff, 0xff})),
		"entry 0 of a dictionary of 0":                     indexPage(1, 1, runOf(1, 0)), // there is no dictionary
		"indices of 33 bits":                               together(two, indexPage(1, 33, runOf(1, 0))),
		"fewer levels or indices than values":              together(two, indexPage(1, 1, nil)),
		"a dictionary of 3 values in 11 bytes":             pageOf(format.DictionaryPage, 3, 11, []byte("\x01\x00\x00\x00a\x02\x00\x00\x00bc"), ""),
		"a value of 4294967295 bytes, its page has 7 left": pageOf(format.DictionaryPage, 1, 11, []byte("\xff\xff\xff\xffabcdefg"), ""),
		"a dictionary of -1 values":                        pageOf(format.DictionaryPage, -1, 11, []byte("\x01\x00\x00\x00a\x02\x00\x00\x00bc"), ""),
		"a value of 5 bytes, its page has 2 left":          pageOf(format.DictionaryPage, 2, 11, []byte("\x01\x00\x00\x00a\x05\x00\x00\x00bc"), ""),
		"a dictionary of 2147483647 values in 11 bytes":    pageOf(format.DictionaryPage, 1<<31-1, 11, []byte("\x01\x00\x00\x00a\x02\x00\x00\x00bc"), ""),
	} {
		_, rows, err := rowsOfParquet(parquetFile(pages, []string{"image"}, groupOf(1, chunkOf(4, len(pages), 1, format.Uncompressed))))
		require.ErrorIs(t, err, ErrBad, text)
		require.ErrorContains(t, err, text)
		require.Zero(t, rows)
	}
	pages := together(two, indexPage(2, 1, []byte{3, 2}))
	_, rows, err := rowsOfParquet(parquetFile(pages, []string{"image"}, groupOf(2, chunkOf(4, len(pages), 2, format.Uncompressed))))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 2, rows)
}

func TestParquetLevelsCountTowardsTheMemoryLimitOfTheColumns(t *testing.T) {
	page := listPage(2, runOf(2, 0), runOf(2, 3), 1, 2)
	file := listFile(page, groupOf(2, chunkOf(4, len(page), 2, format.Uncompressed)))
	const levels = 4 // bytes of a run of each kind
	for before, wrong := range map[int64]error{maxTableHeld - levels: nil, maxTableHeld - levels + 1: ErrLimit} {
		p, err := NewParquet(bytes.NewReader(file), int64(len(file)), blocks.MostBytes)
		require.NoError(t, err)
		p.held = before
		_, err = p.Next(make([]Value, 1))
		require.ErrorIs(t, err, wrong)
		if wrong == nil {
			require.Equal(t, before+levels, p.held)
		} else {
			require.ErrorContains(t, err, "the pages of the columns take more than 1073741824 bytes together")
		}
	}
}
