package scan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesOfOtherWritersAreReadAsPyArrowReadsThem(t *testing.T) {
	for _, name := range []string{"duckdbV1uncompressed.parquet", "duckdbV2uncompressed.parquet", "duckdbV2zstd.parquet", "polarsuncompressed.parquet",
		"polarszstd.parquet", "fastparquet.parquet", "polarsuncompressed.arrow", "polarszstd.arrow", "pandas.arrow"} {
		t.Run(name, func(t *testing.T) {
			d, want := open(t, "testdata/"+name, Options{}), expected(t, name)
			require.Len(t, want, int(d.Len()))
			require.Equal(t, []string{"kind 0", "kind 1", "kind 2"}, d.Classes())
			fields := 0
			for i, image := range contents(t, d) {
				require.Equal(t, want[i].Members["image"], image, i)
				require.Equal(t, want[i].Key, keys(t, d)[i])
				require.Equal(t, int64(i%3), labels(t, d)[i])
				fieldsAre(t, d, int64(i), want[i].Members, "image")
				fields = max(fields, len(want[i].Members)-2)
			}
			require.Len(t, d.Fields(), fields)
		})
	}
}
