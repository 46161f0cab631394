package scan

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestAScanRefusesBlocksOverTheLimit(t *testing.T) {
	for _, name := range []string{"snappy.parquet", "gzip.parquet", "lz4.parquet", "zstd2.parquet", "lz4.arrow", "zstd.arrow", "lz4.lmdb",
		"litdata/framed", "litdata/sample", "litdata/whole", "litdata/footer-zstd", "mdsbr", "mdsbz2", "mdsgz", "mdssnappy", "mdszstd"} {
		source := filepath.Join("testdata", name)
		_, err := Open(source, Options{MostBlock: 16})
		require.ErrorContains(t, err, "(expected at most 16, max_block_bytes", name)
		require.Equal(t, fault.KindLimit, fault.KindOf(err), name)
		require.ErrorContains(t, err, source, name)
		require.Equal(t, open(t, source, Options{}).Len(), open(t, source, Options{MostBlock: 1 << 20}).Len(), name)
	}
}

func TestTheBlockLimitDoesNotMatterToAScanThatDecodesNoBlocks(t *testing.T) {
	for _, name := range []string{"plain1.parquet", "plain2.parquet", "table.arrow", "deflated.zip", "plain.lmdb", "litdata/classic", "litdata/footer", "mds", "labels.rec"} {
		source := filepath.Join("testdata", name)
		require.Equal(t, open(t, source, Options{}).Len(), open(t, source, Options{MostBlock: 16}).Len(), name)
	}
}

func TestACachedScanIsNotUsedForASmallerBlockLimit(t *testing.T) {
	useOwnCache(t)
	source := put(t, map[string][]byte{"a.parquet": fixture(t, "snappy.parquet")})
	makeOld(t, filepath.Join(source, "a.parquet"))
	open(t, source, Options{})
	_, err := Open(source, Options{MostBlock: 16})
	require.ErrorContains(t, err, "(expected at most 16, max_block_bytes)")
}
