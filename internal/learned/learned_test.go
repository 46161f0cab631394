package learned

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/mmap"
)

func TestTheCacheIsWhereTheEnvironmentSays(t *testing.T) {
	for _, c := range []struct{ variable, xdg, home, want string }{
		{"off", "/xdg", "/home/me", ""},
		{"/own", "/xdg", "/home/me", "/own"},
		{"", "/xdg", "/home/me", "/xdg/headrace"},
		{"", "relative", "/home/me", "/home/me/.cache/headrace"},
		{"", "", "/home/me", "/home/me/.cache/headrace"},
		{"", "", "", ""},
	} {
		t.Setenv(Variable, c.variable)
		t.Setenv("XDG_CACHE_HOME", c.xdg)
		t.Setenv("HOME", c.home)
		assert.Equal(t, c.want, directory(), "%+v", c)
	}
}

func TestABoundIsANumberOfBytesThatHoldsSomething(t *testing.T) {
	bound, err := boundOf("")
	require.NoError(t, err)
	require.EqualValues(t, defaultBound, bound)
	bound, err = boundOf("1048576")
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, bound)
	for _, text := range []string{"1048575", "-1", "1 GB", "1e9"} {
		_, err = boundOf(text)
		require.ErrorContains(t, err, "HEADRACE_CACHE_SIZE is \""+text+"\"")
	}
}

func TestAnotherPathSizeTimeOrContentIsAnotherName(t *testing.T) {
	x := &Index{current: "/here"}
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

func TestWithoutAnIndexNothingIsFoundNorLearned(t *testing.T) {
	t.Setenv(Variable, off)
	x, wrong := Open()
	require.Nil(t, x)
	require.Empty(t, wrong)
	require.Zero(t, x.Find(Name{}, nil))
	x.Close()
}
