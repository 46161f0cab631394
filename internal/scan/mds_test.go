package scan

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

func TestMDSIsReadAsStreamingReadsIt(t *testing.T) {
	for _, folder := range []string{"mds", "mdszstd", "mdsgz", "mdsbz2", "mdsbr", "mdssnappy"} {
		t.Run(folder, func(t *testing.T) { samplesAreThoseOfStreaming(t, folder) })
	}
}

func samplesAreThoseOfStreaming(t *testing.T, folder string) {
	d := open(t, "testdata/"+folder, Options{})
	want := expected(t, folder)
	require.Len(t, want, int(d.Len()))
	require.Equal(t, "mds", d.Source().Format)
	require.Equal(t, "photo", d.Source().Image, "the only column that is encoded as a JPEG")
	require.Equal(t, []int64{3, 4, 5, 6, 7, 8}, labels(t, d))
	text := func(value any) uint32 { return crc32.ChecksumIEEE(fmt.Append(nil, value)) }
	for i, photo := range contents(t, d) {
		members := want[i].Members
		require.Equal(t, members["photo"], photo)
		require.Equal(t, want[i].Key, keys(t, d)[i])
		value := func(name string) any {
			v, err := d.FieldValue(int64(i), name)
			require.NoError(t, err)
			return v
		}
		for _, name := range []string{"caption", "small", "digits"} {
			require.Equal(t, members[name], text(value(name)), name)
		}
		require.Len(t, value("raw"), i)
		require.Equal(t, fmt.Sprintf(`{"n": %d}`, i), value("meta"))
		require.Equal(t, float64(i)/2, value("half"))
		require.Equal(t, int64(i), value("wide"))
		require.Equal(t, float64(i)/3, value("weight"))
	}
	for _, f := range d.Fields() {
		require.NotContains(t, []string{"array", "pickled"}, f.Name)
	}
}

// zstdShard is an MDS shard with images of random bytes, compressed with a window so small that there are many small
// blocks. Those of random bytes are raw. Some images are zeros, which give no raw block.
func zstdShard(t *testing.T) (stored []byte, images [][]byte) {
	r := rand.New(rand.NewPCG(3, 5))
	config := `{"column_encodings":["bytes","int"],"column_names":["image","label"],"column_sizes":[null,8],"format":"mds","version":2}`
	const count = 40
	table := binary.LittleEndian.AppendUint32(nil, count)
	var samples []byte
	first := 4 + 4*(count+1) + len(config)
	for i := range count {
		image := make([]byte, 100+r.IntN(1500))
		if i%8 != 5 {
			for k := range image {
				image[k] = byte(r.Uint32())
			}
		}
		images = append(images, image)
		table = binary.LittleEndian.AppendUint32(table, uint32(first+len(samples)))
		samples = binary.LittleEndian.AppendUint32(samples, uint32(len(image)))
		samples = append(samples, image...)
		samples = binary.LittleEndian.AppendUint64(samples, uint64(i))
	}
	table = binary.LittleEndian.AppendUint32(table, uint32(first+len(samples)))
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<10), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	return w.EncodeAll(append(append(table, config...), samples...), nil), images
}

func TestImagesInRawZstdBlocksAreReadFromTheFile(t *testing.T) {
	stored, images := zstdShard(t)
	d := open(t, put(t, map[string][]byte{"shard.00000.mds.zstd": stored})+"/shard.00000.mds.zstd", Options{})
	require.Len(t, images, int(d.Len()))
	seen := make(map[uint8]int)
	for i, crc := range contents(t, d) {
		require.Equal(t, crc32.ChecksumIEEE(images[i]), crc)
		require.Equal(t, int64(i), labels(t, d)[i])
		s, err := d.Sample(int64(i))
		require.NoError(t, err)
		if seen[s.Block.Codec]++; s.Block.Codec == blocks.None {
			require.Equal(t, images[i], stored[s.Offset:s.Offset+s.Length])
		}
		if s.Block.Codec == blocks.ZstdRaw {
			require.Less(t, s.Block.Stored, uint32(5<<10), "only the raw blocks that hold the image are read")
		}
	}
	require.Positive(t, seen[blocks.None], "inside one raw block")
	require.Positive(t, seen[blocks.ZstdRaw], "in several")
	require.Positive(t, seen[blocks.Zstd], "in a compressed block")
}

func TestAnMDSShardNotCompressedAsItsNameSaysIsAnErrorThatNamesTheCodec(t *testing.T) {
	for name, want := range map[string]string{"shard.00000.mds.br": "brotli", "shard.00000.mds.snappy": "bad: the snappy block",
		"shard.00000.mds.bz2": "bad: the bzip2 block", "shard.00000.mds.gz": "the file is compressed as a whole"} {
		content := bytes.Repeat([]byte{0xfe}, 12)
		switch filepath.Ext(name) {
		case ".gz":
			content = []byte{0x1f, 0x8b, 8}
		case ".bz2":
			content = append([]byte("BZh9"), content...)
		}
		_, err := Open(put(t, map[string][]byte{name: content, "index.json": []byte("{}")}), Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, name)
		require.Contains(t, []fault.Kind{fault.KindBadFile, fault.KindUnsupported}, fault.KindOf(err))
	}
}

func TestEveryEncodingOfMDSIsReadOrNamedInTheError(t *testing.T) {
	want := expected(t, "mdsall")
	for _, image := range []string{"photo", "drawn", "pixels", "grey", "alpha", "both", "several", "many", "pictures"} {
		d := open(t, "testdata/mdsall", Options{Image: image})
		for i, found := range contents(t, d) {
			require.Equal(t, want[i].Members[image], found, image)
			s, err := d.Sample(int64(i))
			require.NoError(t, err)
			require.Equal(t, slices.Contains([]string{"pixels", "grey", "alpha", "both", "pictures"}, image), s.Pixels != nil)
			if s.Pixels != nil {
				require.Equal(t, []uint32{7, uint32(5 + i)}, []uint32{s.Width, s.Height})
			}
			for name, value := range map[string]any{"uint8": int64(i), "uint16": int64(i), "uint32": int64(i), "uint64": int64(i), "int8": int64(-i), "int16": int64(-i),
				"int32": int64(-i), "int64": int64(-i), "float16": float64(i), "float32": float64(i), "float64": float64(i), "digits": int64(-i), "fraction": float64(i) / 4} {
				v, err := d.FieldValue(int64(i), name)
				require.NoError(t, err)
				require.Equal(t, value, v, name)
			}
			exact, err := d.FieldValue(int64(i), "exact")
			require.NoError(t, err)
			require.Equal(t, []string{"0", "0.125", "0.25"}[i], exact)
		}
	}
	for image, said := range map[string]string{"float32": "the column float32 holds numbers",
		"palette": `the column palette holds pixels of the mode "P" of PIL, whose palette was left out when they were written (RGB, RGBA, L and LA are read) (expected the bytes of an image)`} {
		_, err := Open("testdata/mdsall", Options{Image: image})
		require.ErrorContains(t, err, said)
		require.ErrorContains(t, err, "record 0")
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

// mdsShard is a shard of one column of samples.
func mdsShard(t *testing.T, encoding string, samples ...[]byte) []byte {
	config, err := json.Marshal(map[string]any{"format": "mds", "version": 2, "column_names": []string{"image"},
		"column_encodings": []string{encoding}, "column_sizes": []any{nil}})
	require.NoError(t, err)
	words := func(values ...int) (b []byte) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		return b
	}
	table, body, first := words(len(samples)), []byte(nil), 4+4*(len(samples)+1)+len(config)
	for _, sample := range samples {
		table = append(table, words(first+len(body))...)
		body = append(append(body, words(len(sample))...), sample...)
	}
	return append(append(append(table, words(first+len(body))...), config...), body...)
}

func opened(t *testing.T, shard []byte, o Options) (*catalog.Dataset, error) {
	return Open(put(t, map[string][]byte{"shard.00000.mds": shard})+"/shard.00000.mds", o)
}

func TestAQualityInAnMDSEncodingIsIgnored(t *testing.T) {
	photo := fixture(t, "mds/shard.00000.mds")[2000:2100]
	d, err := opened(t, mdsShard(t, "jpeg:90", photo, photo), Options{})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, []uint32{crc32.ChecksumIEEE(photo), crc32.ChecksumIEEE(photo)}, contents(t, d))
}

func TestAnMDSListOfOneImageIsThatImageAndALongerOneIsRefusedWithItsRow(t *testing.T) {
	one := []byte("\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00abc")
	two := []byte("\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00abc")
	for encoding, head := range map[string]int{"list[jpeg]": 0, "list[png]": 0, "jpeg_array": 4, "jpegarray": 4} {
		d, err := opened(t, mdsShard(t, encoding, one[head:], one[head:]), Options{})
		require.NoError(t, err)
		require.Equal(t, []uint32{crc32.ChecksumIEEE([]byte("abc")), crc32.ChecksumIEEE([]byte("abc"))}, contents(t, d))
		d.Release()
		_, err = opened(t, mdsShard(t, encoding, one[head:], two[head:]), Options{})
		require.ErrorContains(t, err, "record 1")
		require.ErrorContains(t, err, "the column image holds a list of 2 images (expected the bytes of an image)"+packInstead)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
		for cut := head; cut < len(one); cut++ {
			_, err = opened(t, mdsShard(t, encoding, one[head:cut]), Options{})
			require.ErrorContains(t, err, "no list of images")
			require.Equal(t, fault.KindBadFile, fault.KindOf(err))
		}
	}
}

func TestAnMDSArrayIsAnImageIfItHasTheShapeOfOne(t *testing.T) {
	values := make([]byte, 60)
	for i := range values {
		values[i] = byte(i)
	}
	for shape, want := range map[string]catalog.Pixels{
		"3,20":   {Height: 3, Width: 20, Channels: 1, Row: 20, Pixel: 1, Channel: -60},
		"3,20,1": {Height: 3, Width: 20, Channels: 1, Row: 20, Pixel: 1, Channel: -60},
		"4,5,3":  {Height: 4, Width: 5, Channels: 3, Row: 15, Pixel: 3, Channel: 1},
		"3,5,4":  {Height: 3, Width: 5, Channels: 4, Row: 20, Pixel: 4, Channel: 1},
		"3,2,10": {Height: 2, Width: 10, Channels: 3, Row: 10, Pixel: 1, Channel: 20},
		"1,6,10": {Height: 6, Width: 10, Channels: 1, Row: 10, Pixel: 1, Channel: -60},
	} {
		d, err := opened(t, mdsShard(t, "ndarray:uint8:"+shape, values), Options{})
		require.NoError(t, err, shape)
		s, err := d.Sample(0)
		require.NoError(t, err)
		require.Equal(t, want, *s.Pixels, shape)
		require.Equal(t, []uint32{crc32.ChecksumIEEE(values)}, contents(t, d))
		d.Release()
	}
	for encoding, said := range map[string]string{"ndarray:int8:3,20": "arrays of int8 and the shape [3 20]", "ndarray:uint8:60": "arrays of uint8 and the shape [60]",
		"ndarray:uint8:2,6,5": "arrays of uint8 and the shape [2 6 5]", "ndarray:uint8:6,5,2": "arrays of uint8 and the shape [6 5 2]"} {
		_, err := opened(t, mdsShard(t, encoding, values), Options{})
		require.ErrorContains(t, err, "the column image holds "+said)
		require.ErrorContains(t, err, "1, 3 or 4 channels before or behind them")
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

func TestPixelsInACompressedMDSShardAreRead(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(fixture(t, "mdsall/shard.00000.mds"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	dir := put(t, map[string][]byte{"shard.00000.mds.gz": b.Bytes()})
	want := expected(t, "mdsall")
	for _, image := range []string{"pixels", "grey", "alpha", "both", "pictures"} {
		d := open(t, dir, Options{Image: image, Fields: []string{"palette"}})
		for i, found := range contents(t, d) {
			require.Equal(t, want[i].Members[image], found, image)
			s, err := d.Sample(int64(i))
			require.NoError(t, err)
			require.NotNil(t, s.Pixels)
			require.Equal(t, blocks.Gzip, s.Block.Codec)
			palette, err := d.FieldValue(int64(i), "palette")
			require.NoError(t, err)
			require.Equal(t, want[i].Members["palette"], crc32.ChecksumIEEE(palette.(catalog.Array).Data))
		}
	}
}

func TestAnMDSShardThatIsThereCompressedAndUncompressedIsReadOnce(t *testing.T) {
	dir := put(t, map[string][]byte{"shard.00000.mds": fixture(t, "mds/shard.00000.mds"), "shard.00000.mds.zstd": fixture(t, "mdszstd/shard.00000.mds.zstd")})
	d := open(t, dir, Options{})
	require.Equal(t, int64(5), d.Len())
	require.False(t, d.Source().Blocks, "the uncompressed shard is read")
}

func TestACompressedMDSShardThatWouldBecomeTooLargeIsRefusedFromItsHeader(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := w.EncodeAll(append(fixture(t, "mds/shard.00000.mds"), make([]byte, blocks.MostBytes)...), nil)
	require.Less(t, len(bomb), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Open(put(t, map[string][]byte{"a.mds.zstd": bomb})+"/a.mds.zstd", Options{})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "once it is decompressed (expected at most 268435456, max_block_bytes)")
	require.Equal(t, fault.KindLimit, fault.KindOf(err))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
}

func TestAPickleInAnMDSShardIsNeverALabel(t *testing.T) {
	_, err := Open("testdata/mds", Options{Label: "pickled"})
	require.ErrorContains(t, err, "the label is a pickle, which can run any code when it is read")
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestAPickleIsRefusedAsAFieldByItsName(t *testing.T) {
	for _, name := range []string{"mds", "litdata/classic"} {
		_, err := Open("testdata/"+name, Options{Fields: []string{"pickled"}})
		require.ErrorContains(t, err, `the column "pickled" is a pickle, which can run any code when it is read, and cannot be a field`)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

func TestImpossibleOffsetsInAnMDSShardAreErrorsWithRecordAndOffset(t *testing.T) {
	whole := fixture(t, "mds/shard.00000.mds")
	first, second := binary.LittleEndian.Uint32(whole[4:]), binary.LittleEndian.Uint32(whole[8:])
	file := filepath.Join(t.TempDir(), "a.mds")
	for want, edit := range map[string]func([]byte){
		fmt.Sprintf("record 1 at byte %d: bad: a sample that ends at byte 4294967295 of %d", second, len(whole)):          func(b []byte) { binary.LittleEndian.PutUint32(b[12:], math.MaxUint32) },
		fmt.Sprintf("record 0 at byte %d: bad: a sample from byte %d to 1, the one before ends at 0", first, first):       func(b []byte) { binary.LittleEndian.PutUint32(b[8:], 1) },
		fmt.Sprintf("record 0 at byte %d: bad: the column \"caption\" of 4294967295 bytes ends behind its sample", first): func(b []byte) { binary.LittleEndian.PutUint32(b[first+4:], math.MaxUint32) },
	} {
		data := bytes.Clone(whole)
		edit(data)
		require.NoError(t, os.WriteFile(file, data, 0o644))
		_, err := Open(file, Options{})
		require.ErrorContains(t, err, want)
	}
}

func TestSubfoldersOfContainersAreSplits(t *testing.T) {
	shard := fixture(t, "mds/shard.00000.mds")
	dir := put(t, map[string][]byte{"train/shard.00000.mds": shard, "val/shard.00000.mds": shard, "train/index.json": []byte("{}")})
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, `there are several splits: ["train" "val"]; split= chooses one`)
	require.Positive(t, open(t, dir, Options{Split: "val"}).Len())
}

func TestAnMDSColumnWithANumberBeyond64BitsIsNoFieldAndTheRestIsRead(t *testing.T) {
	for _, long := range []string{"18446744073709551616", strings.Repeat("7", 100)} {
		file := put(t, map[string][]byte{"shard.00000.mds": shardOf(t, []string{"image", "many", "real"}, []string{"jpeg", "str_int", "str_float"},
			[][]string{{"\xff\xd8\xff", "7", "1.5"}, {"\xff\xd8\xff", long, "1e999"}})}) + "/shard.00000.mds"
		d := open(t, file, Options{})
		require.Equal(t, int64(2), d.Len())
		real, err := d.FieldValue(1, "real")
		require.NoError(t, err)
		require.Equal(t, math.Inf(1), real)
		for _, f := range d.Fields() {
			require.NotEqual(t, "many", f.Name)
		}
		_, err = Open(file, Options{Fields: []string{"many"}})
		require.ErrorContains(t, err, `the column "many" holds whole numbers of more than 64 bits, and cannot be a field`)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

func TestANumberWithMoreDigitsThanPythonReadsIsALimitError(t *testing.T) {
	file := put(t, map[string][]byte{"shard.00000.mds": shardOf(t, []string{"image", "many"}, []string{"jpeg", "str_int"},
		[][]string{{"\xff\xd8\xff", strings.Repeat("7", 4301)}})}) + "/shard.00000.mds"
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, `the column "many": limit: a number of 4301 bytes (expected at most 4300)`)
}

// shardOf is a shard of columns of varying length.
func shardOf(t *testing.T, names, encodings []string, rows [][]string) []byte {
	sizes := make([]any, len(names))
	config, err := json.Marshal(map[string]any{"column_names": names, "column_encodings": encodings, "column_sizes": sizes, "format": "mds", "version": 2})
	require.NoError(t, err)
	le := binary.LittleEndian
	table, samples := le.AppendUint32(nil, uint32(len(rows))), []byte(nil)
	first := 4 + 4*(len(rows)+1) + len(config)
	for _, row := range rows {
		table = le.AppendUint32(table, uint32(first+len(samples)))
		for _, value := range row {
			samples = le.AppendUint32(samples, uint32(len(value)))
		}
		for _, value := range row {
			samples = append(samples, value...)
		}
	}
	return slices.Concat(le.AppendUint32(table, uint32(first+len(samples))), config, samples)
}

func TestAnMDSShardWhoseSampleCountLooksLikeAnotherFormatIsRecognised(t *testing.T) {
	for _, count := range []int{376, 24184, 35615} { // 78 01, 78 5e, 1f 8b: zlib's and gzip's first bytes
		rows := slices.Repeat([][]string{{"\xff\xd8\xff"}}, count)
		file := put(t, map[string][]byte{"shard.00000.mds": shardOf(t, []string{"image"}, []string{"jpeg"}, rows)}) + "/shard.00000.mds"
		require.EqualValues(t, count, open(t, file, Options{}).Len())
	}
}

func TestAMergedMDSIndexIsOneDatasetOfTheShardsThatItNames(t *testing.T) {
	shard := func(text string) []byte {
		return shardOf(t, []string{"image", "n"}, []string{"jpeg", "str_int"}, [][]string{{"\xff\xd8\xff", text}})
	}
	index := `{"version": 2, "shards": [{"format": "mds", "raw_data": {"basename": "b/shard.00000.mds"}, "zip_data": null},
		{"format": "mds", "raw_data": {"basename": "a/shard.00000.mds"}, "zip_data": {"basename": "a/shard.00000.mds.zstd"}}]}`
	dir := put(t, map[string][]byte{"train/a/shard.00000.mds": shard("1"), "train/b/shard.00000.mds": shard("2"), "train/c/shard.00000.mds": shard("3"), "train/index.json": []byte(index),
		"val/shard.00000.mds": shard("4")})
	d := open(t, dir+"/train", Options{Label: "n"})
	require.Equal(t, []int64{2, 1}, labels(t, d), "only the shards of the index are read, in its order")
	require.Equal(t, []int64{2, 1}, labels(t, open(t, dir, Options{Label: "n", Split: "train"})))
	require.NoError(t, os.WriteFile(dir+"/train/index.json", []byte(strings.ReplaceAll(index, "b/shard", "../val/shard")), 0o644))
	_, err := Open(dir+"/train", Options{})
	require.ErrorContains(t, err, `a shard called "../val/shard.00000.mds" (expected the name of a file below the folder)`)
	require.Equal(t, fault.KindBadFile, fault.KindOf(err))
}
