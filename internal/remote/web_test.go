package remote

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// content is n pseudo-random bytes.
func content(n int) []byte {
	b := make([]byte, n)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return b
}

// serving is a server of one object at /data.bin, by net/http's own ranges.
func serving(t *testing.T, data []byte) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "data.bin", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestAnObjectOnAWebServerIsReadByRanges(t *testing.T) {
	data := content(100_000)
	server := serving(t, data)
	o, err := Open(t.Context(), server.URL+"/data.bin?token=secret", Storage{})
	require.NoError(t, err)
	assert.Equal(t, int64(100_000), o.Size())
	assert.Equal(t, `"one"`, o.Version())
	assert.Equal(t, server.URL+"/data.bin", o.URL())
	p := make([]byte, 4321)
	for _, offset := range []int64{0, 1, 50_000, 100_000 - 4321} {
		require.NoError(t, o.ReadAt(t.Context(), p, offset))
		assert.Equal(t, data[offset:][:len(p)], p)
	}
	whole := make([]byte, len(data))
	require.NoError(t, o.ReadAt(t.Context(), whole, 0))
	assert.Equal(t, data, whole)
	assert.Error(t, o.ReadAt(t.Context(), p, 100_000-4320))
	assert.Error(t, o.ReadAt(t.Context(), p, -1))
	counts := o.Counts()
	assert.Equal(t, int64(6), counts.Requests)
	assert.Equal(t, int64(4*4321+100_000), counts.Bytes)
	o.Close()
	assert.ErrorContains(t, o.ReadAt(context.Background(), p, 0), "closed")
}
