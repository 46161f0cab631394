package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestSamplesOfMDSAreThoseThatStreamingReads(t *testing.T) {
	d := open(t, "testdata/mds", Options{})
	want := expected(t, "mds")
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
		require.Equal(t, float64(i), value("wide"))
		require.Equal(t, float64(i)/3, value("weight"))
	}
	for _, f := range d.Fields() {
		require.NotContains(t, []string{"array", "pickled"}, f.Name)
	}
}

func TestAnMDSFieldThatIsAPickleIsNeverALabel(t *testing.T) {
	_, err := Open("testdata/mds", Options{Label: "pickled"})
	require.ErrorContains(t, err, "the label is a pickle, which can run any code when it is read")
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestImpossiblePlacesInAnMDSShardAreErrorsWithRecordAndOffset(t *testing.T) {
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
