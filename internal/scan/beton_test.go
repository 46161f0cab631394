package scan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// betonRow is what FFCV's own reader finds in a row.
type betonRow struct {
	sample
	Mode, Width, Height int
	Label               int64
	Weight              float64
}

func betonRows(t *testing.T, name string) []betonRow {
	var all map[string][]betonRow
	require.NoError(t, json.Unmarshal(fixture(t, "betons.json"), &all))
	require.NotEmpty(t, all[name])
	return all[name]
}

func TestABetonIsReadAsFFCVReadsIt(t *testing.T) {
	raw := 0
	for _, name := range []string{"jpeg.beton", "mixed.beton"} {
		d := open(t, "testdata/"+name, Options{})
		want := betonRows(t, name)
		require.Equal(t, "beton", d.Source().Format)
		require.Equal(t, "photo", d.Source().Image, "the only field of images")
		require.Len(t, want, int(d.Len()))
		for i, photo := range contents(t, d) {
			row, members := &want[i], want[i].Members
			require.Equal(t, members["photo"], photo)
			require.Equal(t, row.Key, keys(t, d)[i])
			require.Equal(t, row.Label, labels(t, d)[i])
			value := func(name string) any {
				v, err := d.FieldValue(int64(i), name)
				require.NoError(t, err)
				return v
			}
			require.Equal(t, row.Weight, value("weight"))
			require.Equal(t, members["note"], crc32.ChecksumIEEE(value("note").([]byte)))
			require.Equal(t, members["meta"], crc32.ChecksumIEEE([]byte(value("meta").(string))))
			box := value("box").(catalog.Array)
			require.Equal(t, []int64{2, 3}, box.Shape)
			require.Equal(t, members["box"], crc32.ChecksumIEEE(box.Data))
			s, err := d.Sample(int64(i))
			require.NoError(t, err)
			require.Equal(t, row.Mode == 1, s.Pixels != nil)
			if s.Pixels != nil {
				raw++
				require.Equal(t, []uint32{uint32(row.Width), uint32(row.Height)}, []uint32{s.Width, s.Height})
			}
		}
	}
	require.Positive(t, raw)
	require.Less(t, raw, 7, "some images of mixed.beton are JPEGs")
}

// The offsets of jpeg.beton: the header, six fields, rows of 72 bytes.
const (
	fieldsOfBeton = 24
	rowsOfBeton   = 24 + 6*1041
)

func TestImpossibleNumbersInABetonAreErrorsWithRecordAndOffset(t *testing.T) {
	whole := fixture(t, "jpeg.beton")
	table := int(binary.LittleEndian.Uint64(whole[16:]))
	file := filepath.Join(t.TempDir(), "a.beton")
	u64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	for want, edit := range map[string]func([]byte) []byte{
		"9223372036854775807 rows of 72 bytes":                                             u64(8, math.MaxInt64),
		"65535 fields (expected at most 1024)":                                             func(b []byte) []byte { binary.LittleEndian.PutUint16(b[2:], math.MaxUint16); return b },
		"of type 255, which is a class of its writer":                                      func(b []byte) []byte { b[fieldsOfBeton+1041] = 255; return b },
		"an allocation of 9223372036854775807 bytes":                                       u64(table+16, math.MaxInt64),
		"at 18446744073709551615, the file has":                                            u64(table+8, math.MaxUint64),
		"a table of allocations of ":                                                       func(b []byte) []byte { return b[:len(b)-1] },
		"record 0 at byte 6270: bad: a value at byte 9223372036854775807, where the table": u64(rowsOfBeton+16+5, math.MaxInt64),
		"a value of 18446744073709551615 bytes at":                                         u64(rowsOfBeton+72+8, math.MaxUint64),
		"an image of mode 7 (expected 0, a JPEG, or 1, raw)":                               func(b []byte) []byte { b[rowsOfBeton+16] = 7; return b },
		"where the table of 0 allocations has none":                                        func(b []byte) []byte { return b[:table] },
	} {
		require.NoError(t, os.WriteFile(file, edit(bytes.Clone(whole)), 0o644))
		_, err := Open(file, Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "a.beton: ")
	}
}

func TestATruncatedBetonIsAnError(t *testing.T) {
	whole, file := fixture(t, "mixed.beton"), filepath.Join(t.TempDir(), "a.beton")
	for end := 0; end <= len(whole); end += 128 {
		require.NoError(t, os.WriteFile(file, whole[:end], 0o644))
		opened := opensOrFailsCleanly(t, file)
		require.Equal(t, end == len(whole), opened, end)
	}
}

func TestABetonOfANewerVersionIsUnsupported(t *testing.T) {
	data := fixture(t, "jpeg.beton")
	data[0] = 3
	_, err := Open(put(t, map[string][]byte{"a.beton": data})+"/a.beton", Options{})
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}
