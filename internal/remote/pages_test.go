//go:build !headrace_nocloud

package remote

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/remote/faultproxy"
)

func TestAListMayTakeLongerThanARequestAndEachPageIsRetriedByItself(t *testing.T) {
	server, _ := s3Server(t)
	const count = 2500 // three pages
	folder := filepath.Join(server.Dir, "photos", "many")
	require.NoError(t, os.Mkdir(folder, 0o755))
	for i := range count {
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%05d.jpg", i)), []byte("x"), 0o600))
	}
	s := hasty()
	s.Patience += 2500 * time.Millisecond
	var asked atomic.Int64
	front := faultproxy.Web(t, server.Address, func(n int, w http.ResponseWriter, r *http.Request) bool {
		asked.Add(1)
		time.Sleep(s.patience() / attemptPart / 2) // so that all pages together take longer than a request may
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n == 1
	})
	s.Endpoint, s.PathStyle = front.URL, true
	entries, err := List(t.Context(), "s3://photos/many/", s)
	require.NoError(t, err)
	require.Len(t, entries, count)
	for i, e := range entries {
		assert.Equal(t, fmt.Sprintf("s3://photos/many/%05d.jpg", i), e.URL)
	}
	assert.Equal(t, int64(4), asked.Load(), "three pages, and one of them twice")
}
