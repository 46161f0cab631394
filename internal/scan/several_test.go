package scan

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

// shardNames returns the base names of a dataset's containers, in their order.
func shardNames(d *catalog.Dataset) (names []string) {
	for _, shard := range d.Shards() {
		names = append(names, filepath.Base(shard.Name))
	}
	return names
}

func TestAJointInTheNamesThatAPatternFindsBelongsToThem(t *testing.T) {
	tars := fixture(t, "webdataset.tar")
	dir := put(t, map[string][]byte{"a::b/1.tar": tars, "a::b/2.tar": tars, "x::y-1.tar": tars, "x::y-2.tar": tars, "3.tar": tars})
	for source, want := range map[string][]string{
		"/a::b/*.tar":            {"1.tar", "2.tar"},
		"/a::b/{2..1}.tar":       {"2.tar", "1.tar"},
		"/x::y-[12].tar":         {"x::y-1.tar", "x::y-2.tar"},
		"/3.tar::" + dir + "/x*": {"3.tar", "x::y-1.tar", "x::y-2.tar"},
	} {
		require.Equal(t, want, shardNames(open(t, dir+source, Options{})), source)
	}
}

func TestAFolderMayBeOneOfJoinedSourcesAsItMayBeOneOfAList(t *testing.T) {
	tars := fixture(t, "webdataset.tar")
	dir := put(t, map[string][]byte{"b/1.tar": tars, "a/2.tar": tars, "a/3.tar": tars, "a/README": []byte("read me")})
	require.Equal(t, []string{"1.tar", "2.tar", "3.tar"}, shardNames(open(t, dir+"/b::"+dir+"/a", Options{})))
	require.Equal(t, []string{"2.tar", "3.tar", "1.tar"}, shardNames(open(t, dir+"/a::"+dir+"/b/1.tar", Options{})))
}

func TestTheErrorOfJoinedAddressesHasTheCommandForTheirIndex(t *testing.T) {
	for _, sources := range [][]string{{"s3://b/1.tar::s3://b/2.tar"}, {"s3://b/1.tar", "s3://b/2.tar"}} {
		_, err := OpenFiles(sources, Options{})
		require.ErrorContains(t, err, `make one with: headrace index "s3://b/1.tar" "s3://b/2.tar" --out INDEX`)
	}
}
