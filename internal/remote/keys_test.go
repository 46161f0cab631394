//go:build !headrace_nocloud

package remote

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestAKeyThatALibraryWouldSpellDifferentlyIsRefused(t *testing.T) {
	_, s := s3Server(t)
	for _, key := range []string{"x/../y.hr", "../y", "x/./y", "x/..", ".", "etc../y", "etc.../y/", "a__0x2f__b"} {
		_, err := Create(t.Context(), "s3://photos/"+key, 0, s)
		assert.Equal(t, fault.KindArgument, fault.KindOf(err), key)
		assert.Equal(t, fault.KindArgument, fault.KindOf(Remove(t.Context(), "s3://photos/"+key, s)), key)
		_, err = List(t.Context(), "s3://photos/"+key, s)
		assert.Equal(t, fault.KindArgument, fault.KindOf(err), key)
	}
	entries, err := List(t.Context(), "s3://photos/", s)
	require.NoError(t, err)
	assert.Empty(t, entries)
	for _, url := range []string{"s3://photos/x/../y", "gs://photos/x/../y", "az://photos/./y", "hf://datasets/o/n/../../y"} {
		_, err := Open(t.Context(), url, s)
		assert.ErrorContains(t, err, "expected a key that is neither . nor .. between two slashes", url)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	var version atomic.Int64
	s.Anonymous, s.Endpoint = true, azureServer(t, nil, &version).URL
	for _, key := range []string{`a\b`, `a"b`, "a#b", "a%b", "a?b", "a../b"} {
		_, err := Open(t.Context(), "az://photos/"+key, s)
		assert.Equal(t, fault.KindArgument, fault.KindOf(err), key)
		assert.ErrorContains(t, err, "spells this key in another way")
	}
}

func TestAnUnusualKeyThatAnotherProgramWroteIsListedAndRead(t *testing.T) {
	server, s := s3Server(t)
	for _, key := range []string{"a..__0x2f__b", "a__0x0a__", "x/.../y", "etc../z"} {
		file := filepath.Join(server.Dir, "photos", key)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, content(10), 0o600))
		entries, err := List(t.Context(), "s3://photos/", s)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		assert.Equal(t, "s3://photos/"+key, entries[0].URL)
		o, err := Open(t.Context(), entries[0].URL, s)
		require.NoError(t, err)
		assert.Equal(t, int64(10), o.Size())
		require.NoError(t, os.Remove(file))
	}
}
