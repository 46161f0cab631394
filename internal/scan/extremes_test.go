package scan

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// extremes are values of a length or an offset that no writer writes, in width bytes: 0, the largest signed and
// unsigned ones, the smallest negative one, and values that just lead out of the file.
func extremes(width int, size int) [][]byte {
	var all [][]byte
	for _, v := range []uint64{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64, math.MaxInt32, 1 << 31, uint64(size), uint64(size) - 1, 1 << 15, math.MaxInt16} {
		all = append(all, binary.LittleEndian.AppendUint64(nil, v)[:width])
	}
	return all
}

// eachExtreme opens a container with each of those numbers in turn at each place, and counts how often it opened.
func eachExtreme(t *testing.T, name string, whole []byte, places map[int]int) (opened, count int) {
	file := filepath.Join(t.TempDir(), name)
	for i, at := range slices.Sorted(maps.Keys(places)) {
		if testing.Short() && i%4 > 0 {
			continue
		}
		width := places[at]
		for _, value := range extremes(width, len(whole)) {
			data := bytes.Clone(whole)
			copy(data[at:at+width], value)
			require.NoError(t, os.WriteFile(file, data, 0o644))
			if count++; opensOrFailsCleanly(t, file) {
				opened++
			}
		}
	}
	return opened, count
}

// zipPlaces are the numbers of a zip archive (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.14 to 4.3.16) and their widths.
func zipPlaces(data []byte) map[int]int {
	places := make(map[int]int)
	for magic, fields := range map[string]map[int]int{
		"PK\x03\x04": {6: 2, 8: 2, 14: 4, 18: 4, 22: 4, 26: 2, 28: 2},
		"PK\x01\x02": {8: 2, 10: 2, 16: 4, 20: 4, 24: 4, 28: 2, 30: 2, 32: 2, 34: 2, 42: 4},
		"PK\x05\x06": {4: 2, 6: 2, 8: 2, 10: 2, 12: 4, 16: 4, 20: 2},
		"PK\x06\x06": {4: 8, 12: 2, 16: 4, 24: 8, 32: 8, 40: 8, 48: 8},
		"PK\x06\x07": {4: 4, 8: 8, 16: 4},
	} {
		for from := 0; ; {
			at := bytes.Index(data[from:], []byte(magic))
			if at < 0 {
				break
			}
			for field, width := range fields {
				places[from+at+field] = width
			}
			from += at + 4
		}
	}
	return places
}

// zip64 makes of an archive one with the same members whose directory uses 64 bits: it has the zip64 end record with
// its locator, and in each entry of the directory the sizes and the offset as an extra field.
func zip64(t *testing.T, data []byte) []byte {
	le := binary.LittleEndian
	begin, end := bytes.Index(data, []byte("PK\x01\x02")), bytes.LastIndex(data, []byte("PK\x05\x06"))
	out, count := bytes.Clone(data[:begin]), uint64(0)
	for at := begin; at < end; count++ {
		name, extra := int(le.Uint16(data[at+28:])), int(le.Uint16(data[at+30:]))
		entry := bytes.Clone(data[at : at+46+name])
		wide := le.AppendUint16(le.AppendUint16(nil, 1), 24)
		for _, field := range []int{24, 20, 42} {
			wide = le.AppendUint64(wide, uint64(le.Uint32(entry[field:])))
			le.PutUint32(entry[field:], math.MaxUint32)
		}
		le.PutUint16(entry[30:], uint16(len(wide)))
		le.PutUint16(entry[32:], 0)
		out = append(append(out, entry...), wide...)
		at += 46 + name + extra + int(le.Uint16(data[at+32:]))
	}
	record := uint64(len(out))
	out = le.AppendUint64(append(out, "PK\x06\x06"...), 44)
	out = append(out, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, v := range []uint64{count, count, record - uint64(begin), uint64(begin)} {
		out = le.AppendUint64(out, v)
	}
	out = le.AppendUint64(append(out, "PK\x06\x07\x00\x00\x00\x00"...), record)
	out = append(out, 1, 0, 0, 0)
	out = append(out, "PK\x05\x06\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"...)
	file := filepath.Join(t.TempDir(), "a.zip")
	require.NoError(t, os.WriteFile(file, out, 0o644))
	require.Positive(t, open(t, file, Options{}).Len(), "the archive does not open")
	return out
}

func TestExtremeNumbersInAZipAreErrorsOrLeaveReadableMembers(t *testing.T) {
	for name, data := range map[string][]byte{"stored.zip": fixture(t, "folders.zip"), "deflated.zip": fixture(t, "deflated.zip"), "wide.zip": zip64(t, fixture(t, "folders.zip"))} {
		opened, count := eachExtreme(t, name, data, zipPlaces(data))
		require.Positive(t, opened, "some numbers do not matter to a reader")
		require.Less(t, opened, count)
	}
	// In the zip64 archive the extra field of each entry has the two sizes and the offset, of 8 bytes each.
	wide := zip64(t, zipped(t, zip.Store, "a/1.jpg", "a/2.jpg"))
	extra := bytes.Index(wide, []byte{1, 0, 24, 0}) + 4
	for field, want := range map[int]string{0: "two sizes", 8: "two sizes", 16: "no local header where the directory says"} {
		data := bytes.Clone(wide)
		binary.LittleEndian.PutUint64(data[extra+field:], math.MaxInt64)
		_, err := Open(put(t, map[string][]byte{"a.zip": data})+"/a.zip", Options{})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindBadFile, fault.KindOf(err))
	}
}

func TestOverlappingMembersOfAZipAreRefusedWithRecordAndOffset(t *testing.T) {
	data := zipped(t, zip.Store, "a/1.jpg", "a/2.jpg")
	first := bytes.Index(data, []byte("PK\x01\x02"))
	second := first + 4 + bytes.Index(data[first+4:], []byte("PK\x01\x02"))
	copy(data[second+42:second+46], data[first+42:first+46]) // the second member gets the offset of the first
	file := filepath.Join(t.TempDir(), "a.zip")
	require.NoError(t, os.WriteFile(file, data, 0o644))
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, `the member "a/2.jpg" of 7 bytes lies over the member "a/1.jpg" at 37`)
	var e *catalog.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []any{fault.KindBadFile, file, int64(1), int64(37)}, []any{e.Kind, e.File, e.Record, e.Offset})
}

func TestMembersOfAZipMayBeInAnyOrder(t *testing.T) {
	data := zipped(t, zip.Store, "a/1.jpg", "a/2.jpg")
	first, end := bytes.Index(data, []byte("PK\x01\x02")), bytes.LastIndex(data, []byte("PK\x05\x06"))
	half := first + (end-first)/2
	turned := slices.Concat(data[:first], data[half:end], data[first:half], data[end:])
	d := open(t, put(t, map[string][]byte{"a.zip": turned})+"/a.zip", Options{})
	require.Equal(t, contents(t, open(t, put(t, map[string][]byte{"a.zip": data})+"/a.zip", Options{})), contents(t, d))
}

// lmdbPlaces are the numbers of the meta pages, of the pages' headers, of their lists of nodes and of the nodes.
func lmdbPlaces(data []byte) map[int]int {
	const page = 4096
	le := binary.LittleEndian
	places := make(map[int]int)
	for at := 0; at+page <= len(data); at += page {
		flags, lower := le.Uint16(data[at+10:]), int(le.Uint16(data[at+12:]))
		switch {
		case flags&8 != 0: // a meta page: the environment and its two trees
			for field := 16; field < 16+24+2*48+16; field += 8 {
				places[at+field] = 8
			}
		case flags&3 != 0:
			places[at], places[at+10], places[at+12], places[at+14] = 8, 2, 2, 2
			for slot := 16; slot < lower; slot += 2 {
				node := at + int(le.Uint16(data[at+slot:]))
				places[at+slot], places[node], places[node+2], places[node+4], places[node+6] = 2, 2, 2, 2, 2
				if le.Uint16(data[node+4:])&1 != 0 { // the page that the value begins on
					places[node+8+int(le.Uint16(data[node+6:]))] = 8
				}
			}
		case flags&4 != 0:
			places[at], places[at+12] = 8, 4
		}
	}
	return places
}

func TestExtremeNumbersInAnLMDBAreErrorsOrLeaveReadableValues(t *testing.T) {
	for _, name := range []string{"plain.lmdb", "datum.lmdb", "pixels.lmdb", "lz4.lmdb"} {
		data := fixture(t, name)
		opened, count := eachExtreme(t, name, data, lmdbPlaces(data))
		require.Positive(t, opened)
		require.Less(t, opened, count)
	}
}

// Most containers have their numbers at the beginning, and those with a table or a footer at the end.
func TestExtremeNumbersAtBothEndsOfAContainerAreErrorsOrLeaveItReadable(t *testing.T) {
	const head, tail = 160, 160
	for _, name := range openable(t) {
		// These have tests of their own, or no numbers.
		if slices.Contains([]string{".zip", ".lmdb", ".gz", ".bz2", ".br"}, filepath.Ext(name)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, file := fixture(t, name), filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(name)), filepath.Base(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			putBeside(t, name, filepath.Dir(file))
			again := repair[filepath.Ext(name)]
			step := 4
			if filepath.Ext(name) == ".parquet" { // its numbers begin at any byte
				step = 3
			}
			for at := 0; at+8 <= len(whole); at += step {
				if at == head/step*step && len(whole) > head+tail {
					at = len(whole) - tail
				}
				for _, value := range []uint64{math.MaxInt64, math.MaxUint64, uint64(len(whole))} {
					data := bytes.Clone(whole)
					binary.LittleEndian.PutUint64(data[at:], value)
					if again != nil {
						again(data)
					}
					require.NoError(t, os.WriteFile(file, data, 0o644))
					opensOrFailsCleanly(t, file)
				}
			}
		})
	}
}
