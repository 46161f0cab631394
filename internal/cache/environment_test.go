package cache

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheCachesDirectoryComesFromTheEnvironment(t *testing.T) {
	for _, c := range []struct{ variable, xdg, home, want string }{
		{"off", "/xdg", "/home/me", ""},
		{"OFF", "/xdg", "/home/me", ""},
		{"0", "/xdg", "/home/me", ""},
		{"False", "/xdg", "/home/me", ""},
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

func TestTheBoundIsAWholeNumberOfBytesOfAtLeastOneMebibyte(t *testing.T) {
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
