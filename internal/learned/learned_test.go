package learned

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/beside"
	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/mmap"
)

func TestAnotherPathSizeTimeOrContentGivesAnotherKey(t *testing.T) {
	x := &Index{cache: new(cache.Cache), beside: beside.New("/here"), current: "/here"}
	one := x.File("/a/b", mmap.Stamp{Size: 5, MTimeNs: 6})
	require.Equal(t, one, x.File("/a/b", mmap.Stamp{Size: 5, MTimeNs: 6}))
	require.Equal(t, x.File("/here/b", mmap.Stamp{}), x.File("b", mmap.Stamp{}))
	require.NotEqual(t, one, x.File("/a/c", mmap.Stamp{Size: 5, MTimeNs: 6}))
	require.NotEqual(t, one, x.File("/a/b", mmap.Stamp{Size: 6, MTimeNs: 6}))
	require.NotEqual(t, one, x.File("/a/b", mmap.Stamp{Size: 5, MTimeNs: 7}))
	data := make([]byte, 3*endBytes)
	whole := x.Bytes(data, 1)
	require.Equal(t, whole, x.Bytes(data, 1))
	require.NotEqual(t, whole, x.Bytes(data, 2))
	require.NotEqual(t, whole, x.Bytes(data[1:], 1))
	data[len(data)-1] = 1
	require.NotEqual(t, whole, x.Bytes(data, 1))
	require.NotEqual(t, x.Bytes(nil, 0), x.Bytes([]byte{0}, 0))
}

func TestNothingIsFoundOrLearnedWithoutACache(t *testing.T) {
	t.Setenv(cache.Variable, "off")
	x, wrong := Open()
	require.Empty(t, wrong)
	require.False(t, x.Learns())
	var b mmap.Buffer
	require.Zero(t, x.Find(x.File("/a/b", mmap.Stamp{}), &b))
	x.Close()
}
