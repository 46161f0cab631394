package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
)

func TestAHuggingFaceParquetFileIsReadAsItsOwnReaderReadsIt(t *testing.T) {
	d := open(t, "testdata/photos.parquet", Options{})
	requireSavedDataset(t, d, "parquet")
}

func TestParquetPagesOfEachKindAreReadAsPyArrowReadsThem(t *testing.T) {
	want := expected(t, "pages")
	for _, name := range []string{"plain1", "plain2", "entries", "snappy", "zstd2", "gzip", "lz4", "brotli", "delta", "deltazstd"} {
		d := open(t, "testdata/"+name+".parquet", Options{})
		require.Len(t, want, int(d.Len()), name)
		for i, image := range contents(t, d) {
			require.Equal(t, want[i].Members["image"], image, "%s: %d", name, i)
			require.Equal(t, want[i].Key, keys(t, d)[i])
			fieldsAre(t, d, int64(i), want[i].Members, "image")
			real, err := d.FieldValue(int64(i), "real")
			require.NoError(t, err)
			require.Equal(t, i == 30, math.IsNaN(real.(float64)), i)
			require.Equal(t, int64(i%4), labels(t, d)[i])
		}
		for _, f := range d.Fields() {
			require.NotContains(t, []string{"list", "price"}, f.Name)
		}
	}
}

func TestUnsupportedFeaturesOfParquetAreNamedInTheError(t *testing.T) {
	for _, name := range []string{"delta", "deltazstd"} {
		_, err := Open("testdata/"+name+".parquet", Options{Image: "four"})
		require.ErrorContains(t, err, "the bytes of an image of the column four do not stand in one piece, as DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT encode them")
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
	_, err := Open("testdata/plain1.parquet", Options{Label: "price"})
	require.ErrorContains(t, err, `the column "price" is of decimals`)
	encrypted := fixture(t, "plain1.parquet")
	copy(encrypted[len(encrypted)-4:], "PARE")
	_, err = Open(put(t, map[string][]byte{"a.parquet": encrypted}), Options{})
	require.ErrorContains(t, err, "the footer is encrypted")
}

func TestASingleDataFolderIsEnteredAndAFolderOfAnotherSplitIsNot(t *testing.T) {
	data := fixture(t, "photos.parquet")
	dir := put(t, map[string][]byte{"data/train-0.parquet": data, "data/test-0.parquet": data, "README.md": []byte("#")})
	require.Equal(t, int64(7), open(t, dir, Options{Split: "test"}).Len())
	dir = put(t, map[string][]byte{"train/0.parquet": data})
	require.Equal(t, int64(7), open(t, dir, Options{}).Len())
	_, err := Open(dir, Options{Split: "test"})
	require.ErrorContains(t, err, `expected one of ["train"]`)
}

func TestParquetColumnsThatNobodyAskedForAreNotRead(t *testing.T) {
	d := open(t, "testdata/delta.parquet", Options{Label: "small", Fields: []string{"text"}})
	require.Equal(t, int64(39000), labels(t, d)[39])
	require.Len(t, d.Fields(), 1)
}

func TestAParquetPageWithAWrongChecksumIsAnErrorWithItsOffset(t *testing.T) {
	data := fixture(t, "entries.parquet")
	at := bytes.Index(data, []byte("JFIF"))
	data[at]++
	_, err := Open(put(t, map[string][]byte{"a.parquet": data}), Options{})
	require.ErrorContains(t, err, "a.parquet: record 0 at byte 4: bad: the page has another checksum")
}

func TestATruncatedParquetFileIsAnError(t *testing.T) {
	whole, file := fixture(t, "photos.parquet"), filepath.Join(t.TempDir(), "a.parquet")
	for end := 0; end < len(whole); end += 16 {
		require.NoError(t, os.WriteFile(file, whole[:end], 0o644))
		require.False(t, opensOrFailsCleanly(t, file))
	}
}

func TestMoreRowsThanAParquetFileCanHoldAreALimitError(t *testing.T) {
	// A footer that claims 2^62 rows in two row groups of one column, with as many values.
	number := func(field byte, n int64) []byte {
		return append([]byte{field<<4 | 6}, binary.AppendUvarint(nil, uint64(n<<1))...)
	}
	schema := []byte{0x29, 0x2c, 0x48, 1, 's', 0x15, 2, 0, 0x15, 12, 0x25, 2, 0x18, 5, 'i', 'm', 'a', 'g', 'e', 0}
	meta := append(append(append([]byte{0x3c}, number(5, 1<<61)...), number(2, 10)...), number(2, 4)...)
	chunk := append([]byte{0x19, 0x1c}, append(meta, 0, 0)...)
	group := append(append(chunk, number(2, 1<<61)...), 0)
	footer := append(append(append([]byte{}, schema...), append([]byte{0x29, 0x1c}, group...)...), 0)
	file := append([]byte("PAR1..........................."), footer...)
	file = append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
	_, err := Open(put(t, map[string][]byte{"a.parquet": file}), Options{})
	require.ErrorContains(t, err, fmt.Sprintf("%d rows of 1 columns in a file of %d bytes", int64(1)<<61, len(file)))
	require.Equal(t, fault.KindLimit, fault.KindOf(err))
}

func TestABlockDamagedAfterItsScanIsABadFileAndTheErrorNamesTheRecord(t *testing.T) {
	data := fixture(t, "zstd2.parquet")
	file := filepath.Join(put(t, map[string][]byte{"a.parquet": data}), "a.parquet")
	d := open(t, file, Options{})
	s, err := d.Sample(3)
	require.NoError(t, err)
	require.NotZero(t, s.Block.Codec)
	clear(data[s.Offset : s.Offset+s.Stored()])
	require.NoError(t, os.WriteFile(file, data, 0o644))
	require.NoError(t, os.Chtimes(file, time.Time{}, time.Unix(0, d.Shards()[0].MTimeNs)))
	r, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	defer r.Close()
	var buffer mmap.Buffer
	defer buffer.Free()
	_, err = r.Read(s, &buffer)
	require.ErrorContains(t, err, fmt.Sprintf("a.parquet: record 3 (3) at byte %d: bad: the block cannot be decoded", s.Offset))
}

func FuzzAnyBytesAsParquet(f *testing.F) {
	for _, name := range []string{"photos", "plain1", "entries", "snappy", "zstd2", "delta", "deltazstd", "vectors", "vectorssnappy", "vectorsdelta"} {
		f.Add(fixture(f, name+".parquet"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		survivesAs(t, "a.parquet", data)
	})
}

func TestAnEncryptedParquetColumnIsUnsupportedUnlessItIsLeftOut(t *testing.T) {
	_, err := Open("testdata/encrypted.parquet", Options{})
	require.ErrorContains(t, err, `the column "secret" is encrypted; fields= chooses columns without it`)
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	d := open(t, "testdata/encrypted.parquet", Options{Fields: []string{}})
	require.Equal(t, []int64{3, 1, 2, 0}, labels(t, d))
	require.Equal(t, contents(t, open(t, "testdata/pathless.parquet", Options{})), contents(t, d))
}

func TestAnImageStructWithoutAPathIsReadUnderItsColumnsName(t *testing.T) {
	d := open(t, "testdata/pathless.parquet", Options{})
	require.Equal(t, "image", d.Source().Image)
	require.Equal(t, []int64{3, 1, 2, 0}, labels(t, d))
	require.Equal(t, []string{"pathless/0", "pathless/1", "pathless/2", "pathless/3"}, keys(t, d))
}

func TestPartitionsOfAParquetTableAreNotTakenForSplits(t *testing.T) {
	data := fixture(t, "photos.parquet")
	dir := put(t, map[string][]byte{"kind=0/a.parquet": data, "kind=1/a.parquet": data})
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, `the folders ["kind=0" "kind=1"] are partitions by a column that is in none of their files`)
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestCopiesOfFootersBesideAParquetTableAreSkipped(t *testing.T) {
	data := fixture(t, "photos.parquet")
	dir := put(t, map[string][]byte{"part.0.parquet": data, "_metadata": data, "_common_metadata": data})
	require.Equal(t, int64(7), open(t, dir, Options{}).Len())
}
