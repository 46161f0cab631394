package scan

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// litOf is a folder with the files of a fixture, one of which has other bytes.
func litOf(t testing.TB, name, file string, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(filepath.Join("testdata/litdata", name))
	require.NoError(t, err)
	for _, e := range entries {
		content := fixture(t, filepath.Join("litdata", name, e.Name()))
		if e.Name() == file {
			content = data
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, e.Name()), content, 0o644))
	}
	return dir
}

func crcOf(value any) uint32 {
	if data, ok := value.([]byte); ok {
		return crc32.ChecksumIEEE(data)
	}
	return crc32.ChecksumIEEE(fmt.Append(nil, value))
}

func TestLitDataIsReadAsItsOwnReaderReadsIt(t *testing.T) {
	for _, name := range []string{"classic", "framed", "sample", "whole", "pair", "footer", "footer-zstd"} {
		source := "testdata/litdata/" + name
		o := Options{}
		if name == "pair" {
			o.Label = "1"
		}
		d := open(t, source, o)
		want := expected(t, "litdata/"+name)
		require.Len(t, want, int(d.Len()), name)
		require.Equal(t, "litdata", d.Source().Format)
		require.Equal(t, name != "classic" && name != "pair" && name != "footer", d.Source().Blocks, name)
		for i, image := range contents(t, d) {
			members := want[i].Members
			require.Equal(t, members[d.Source().Image], image, name)
			require.Equal(t, want[i].Key, keys(t, d)[i], name)
			require.Equal(t, members[d.Source().Label], crcOf(labels(t, d)[i]), name)
			for _, f := range d.Fields() {
				value, err := d.FieldValue(int64(i), f.Name)
				require.NoError(t, err)
				require.Equal(t, members[f.Name], crcOf(value), "%s: %s of %d", name, f.Name, i)
			}
			require.Len(t, members, len(d.Fields())+2, name)
		}
	}
}

func TestPixelsInLitDataAreImagesUncompressedAndInFrames(t *testing.T) {
	for _, name := range []string{"pixels", "pixels-framed"} {
		for _, image := range []string{"", "hwc", "chw"} {
			d := open(t, "testdata/litdata/"+name, Options{Image: image})
			want := expected(t, "litdata/"+name)
			require.Len(t, want, int(d.Len()))
			require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, labels(t, d))
			for i, found := range contents(t, d) {
				require.Equal(t, want[i].Members[cmp.Or(image, "image")], found, "%s: %s of %d", name, image, i)
				s, err := d.Sample(int64(i))
				require.NoError(t, err)
				require.Equal(t, []uint32{uint32(3 + i), 5}, []uint32{s.Pixels.Height, s.Pixels.Width})
				require.Equal(t, name == "pixels-framed", s.Block.Codec == blocks.Zstd)
			}
			require.Empty(t, d.Fields(), "arrays that nobody asked for")
		}
	}
}

func TestAPickleInLitDataIsNeverALabel(t *testing.T) {
	_, err := Open("testdata/litdata/classic", Options{Label: "pickled"})
	require.ErrorContains(t, err, "a pickle, which can run any code when it is read")
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestChunksOfLitDataAreOneDatasetHoweverTheyAreGiven(t *testing.T) {
	for _, source := range []string{"testdata/litdata/classic/chunk-*.bin", "testdata/litdata/whole/chunk-0-{0..1}.zstd.bin"} {
		require.Equal(t, int64(7), open(t, source, Options{}).Len())
	}
	require.Equal(t, int64(3), open(t, "testdata/litdata/framed/chunk-0-1.bin", Options{}).Len())
	dir := put(t, map[string][]byte{"chunk-0-0.bin": fixture(t, "litdata/classic/chunk-0-0.bin")})
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "without the index.json of its folder")
}

func TestAnUnsupportedOrWrongIndexOfLitDataIsAnErrorThatSaysWhy(t *testing.T) {
	index := string(fixture(t, "litdata/classic/index.json"))
	for want, edit := range map[string][2]string{
		"unsupported: the chunks are encrypted":                           {`"encryption": null`, `"encryption": {"algorithm": "fernet"}`},
		`unsupported: chunks of LitData's "TokensLoader"`:                 {"PyTreeLoader", "TokensLoader"},
		`unsupported: chunks compressed by "gzip"`:                        {`"compression": null`, `"compression": "gzip"`},
		`bad: a chunk called "../chunk-0-0.bin"`:                          {"chunk-0-0.bin", "../chunk-0-0.bin"},
		"bad: a chunk of 4 items (expected 5, as index.json says)":        {`"chunk_size": 4, "dim"`, `"chunk_size": 5, "dim"`},
		"bad: a data_spec of 11 leaves (expected 10, as data_format has)": {`"float", `, ``},
		"bad: the leaf [\"half\"] of 8 bytes (expected 1)":                {`"float", "bool"`, `"bool", "float"`},
		"unsupported: a data_spec of protocol 7 (expected 1":              {`"[1, `, `"[7, `},
	} {
		edited := strings.Replace(index, edit[0], edit[1], 1)
		require.NotEqual(t, index, edited, want)
		_, err := Open(litOf(t, "classic", "index.json", []byte(edited)), Options{})
		require.ErrorContains(t, err, want)
	}
}

func TestImpossibleOffsetsInAChunkOfLitDataAreErrorsWithRecordAndOffset(t *testing.T) {
	u32 := binary.LittleEndian.PutUint32
	for _, of := range []struct {
		name, want string
		edit       func([]byte)
	}{
		{"classic", "record 0 at byte 4: bad: an item from byte 24 to 1, the one before ends at 24", func(b []byte) { u32(b[8:], 1) }},
		{"classic", "record 1 at byte 8: bad: an item that ends at byte 4294967295 of 3576", func(b []byte) { u32(b[12:], math.MaxUint32) }},
		{"classic", "record 0 at byte 24: bad: the leaf [\"photo\"] of 4294967295 bytes ends behind its item", func(b []byte) { u32(b[24:], math.MaxUint32) }},
		{"framed", "at byte 12: bad: the tables of 4294967295 items", func(b []byte) { u32(b[12:], math.MaxUint32) }},
		{"framed", "record 0 at byte 44: bad: a frame of 3 items from item 1 (expected 0)", func(b []byte) { u32(b[44:], 1) }},
		{"framed", "record 0 at byte 44: bad: a frame at byte 9223372036854775807", func(b []byte) { binary.LittleEndian.PutUint64(b[52:], math.MaxInt64) }},
		{"framed", "record 0 at byte 44: bad: a frame at byte 44 ", func(b []byte) { binary.LittleEndian.PutUint64(b[52:], 44) }},
		{"framed", "record 0 at byte 92: unsupported: a block of 4294967295 bytes once it is decoded (expected at most 268435456", func(b []byte) { u32(b[64:], math.MaxUint32) }},
		{"footer", "an Arrow file of 4294967295 bytes between byte 24", func(b []byte) { u32(b[len(b)-12:], math.MaxUint32) }},
	} {
		data := bytes.Clone(fixture(t, "litdata/"+of.name+"/chunk-0-0.bin"))
		of.edit(data)
		_, err := Open(litOf(t, of.name, "chunk-0-0.bin", data), Options{})
		require.ErrorContains(t, err, of.want)
		require.ErrorContains(t, err, "chunk-0-0.bin")
	}
}

// A frame of zeros has about a ten-thousandth of the bytes that it decodes to.
func TestADecompressionBombInAChunkOfLitDataIsRefused(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := w.EncodeAll(make([]byte, 300<<20), nil)
	_, err = Open(litOf(t, "whole", "chunk-0-0.zstd.bin", bomb), Options{})
	require.ErrorContains(t, err, "a block of 314572800 bytes once it is decoded (expected at most 268435456")
	require.Equal(t, fault.KindLimit, fault.KindOf(err))
}

func TestATruncatedChunkOfLitDataIsAnErrorThatNamesIt(t *testing.T) {
	for name, file := range litFixtures {
		whole := fixture(t, "litdata/"+name+"/"+file)
		for end := 0; end < len(whole); end += 1 + end/40 {
			_, err := Open(litOf(t, name, file, whole[:end]), Options{})
			require.Error(t, err, "%s: %d of %d bytes", name, end, len(whole))
			require.Contains(t, err.Error(), file)
			require.NotContains(t, []fault.Kind{fault.KindInternal, fault.KindMemory}, fault.KindOf(err), err)
		}
	}
}

var litFixtures = map[string]string{"classic": "chunk-0-0.bin", "framed": "chunk-0-0.bin", "sample": "chunk-0-0.bin",
	"whole": "chunk-0-0.zstd.bin", "footer": "chunk-0-0.bin", "footer-zstd": "chunk-0-0.bin", "pixels": "chunk-0-0.bin", "pixels-framed": "chunk-0-0.bin"}

func TestDamagedIndexesOfLitDataAreErrorsThatNameThemOrAreReadable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := fixture(t, "litdata/framed/index.json")
	dir := litOf(t, "framed", "", nil)
	opened := 0
	for range mutations() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), mutate(r, whole), 0o644))
		d, err := Open(dir, Options{})
		if err != nil {
			require.NotContains(t, []fault.Kind{fault.KindInternal, fault.KindMemory}, fault.KindOf(err), err)
			require.Contains(t, err.Error(), dir)
			continue
		}
		opened++
		ReadAll(t, d)
		d.Release()
	}
	require.Positive(t, opened)
	require.Less(t, opened, mutations())
}

func FuzzAnyBytesAsAChunkOfLitData(f *testing.F) {
	indexes := map[uint8]*formats.LitIndex{}
	number := uint8(0)
	for name, file := range litFixtures {
		index, err := formats.ParseLitIndex(fixture(f, "litdata/"+name+"/index.json"))
		require.NoError(f, err)
		indexes[number] = index
		f.Add(number, fixture(f, "litdata/"+name+"/"+file))
		number++
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		l, err := formats.NewLitData(bytes.NewReader(data), int64(len(data)), indexes[which%number], 4, blocks.MostBytes)
		for values := make([]formats.Value, 16); err == nil; {
			if len(l.Leaves) > len(values) {
				values = make([]formats.Value, len(l.Leaves))
			}
			_, err = l.Next(values[:len(l.Leaves)])
		}
	})
}

// benchmarkChunk is a chunk of so many samples of 2 kB and a label.
func benchmarkChunk(t testing.TB, dir string, count int) {
	size := 4 + 4*(count+1)
	chunk := binary.LittleEndian.AppendUint32(nil, uint32(count))
	item := append([]byte{0xd0, 7, 0, 0, 8, 0, 0, 0}, make([]byte, 2008)...)
	for i := range count + 1 {
		chunk = binary.LittleEndian.AppendUint32(chunk, uint32(size+i*len(item)))
	}
	chunk = append(chunk, bytes.Repeat(item, count)...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chunk-0-0.bin"), chunk, 0o644))
	index := `{"chunks": [{"filename": "chunk-0-0.bin", "chunk_size": ` + strconv.Itoa(count) + `}], "config": {"data_format": ["jpeg", "int"]}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(index), 0o644))
}

func BenchmarkScanningLitData(b *testing.B) {
	dir := b.TempDir()
	benchmarkChunk(b, dir, 10_000)
	for b.Loop() {
		d, err := Open(dir, Options{Label: "1"})
		require.NoError(b, err)
		d.Release()
	}
	b.ReportMetric(10_000*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}

func TestTensorsWithoutAxesInLitDataAreNumbers(t *testing.T) {
	want := expected(t, "litdata/scalars")
	d := open(t, "testdata/litdata/scalars", Options{Fields: []string{"real"}})
	require.Len(t, want, int(d.Len()))
	for i := range d.Len() {
		require.Equal(t, i*1000, labels(t, d)[i])
		require.Equal(t, want[i].Members["label"], crcOf(labels(t, d)[i]))
		real, err := d.FieldValue(i, "real")
		require.NoError(t, err)
		require.Equal(t, want[i].Members["real"], crcOf(strconv.FormatFloat(real.(float64), 'g', -1, 64)))
	}
	require.Empty(t, d.Warnings())
}
