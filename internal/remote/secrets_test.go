package remote

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listening is a server of one object, which records the headers of all requests.
func listening(t *testing.T, data []byte) (url string, headers func() []http.Header) {
	t.Helper()
	var lock sync.Mutex
	var got []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		got = append(got, r.Header.Clone())
		lock.Unlock()
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "data.bin", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []http.Header {
		lock.Lock()
		defer lock.Unlock()
		return got
	}
}

// redirecting is a server that redirects all requests to one address.
func redirecting(t *testing.T, to string) string {
	t.Helper()
	server := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTheTargetOfARedirectLearnsNoSecretOfTheAddress(t *testing.T) {
	data := content(1000)
	end, headers := listening(t, data)
	between := redirecting(t, end+"/data.bin?Signature=SECRET-of-between")
	begin := redirecting(t, between+"/data.bin?Signature=SECRET-of-begin")
	url := strings.Replace(begin, "http://", "http://user:SECRET-word@", 1) + "/data.bin?X-Amz-Signature=SECRET-of-user"
	o, err := Open(t.Context(), url, hasty())
	require.NoError(t, err)
	p := make([]byte, 100)
	require.NoError(t, o.ReadAt(t.Context(), p, 7))
	assert.Equal(t, data[7:107], p)
	require.Len(t, headers(), 2)
	for _, h := range headers() {
		assert.Empty(t, h.Get("Referer"))
		assert.Empty(t, h.Get("Authorization"))
		assert.NotContains(t, fmt.Sprint(h), "SECRET")
	}
}

func TestTheTargetOfASecondRedirectOfTheHubLearnsNoSignature(t *testing.T) {
	h := newHub(t)
	end, headers := listening(t, h.data)
	h.cdn = redirecting(t, end)
	o, err := Open(t.Context(), "hf://datasets/org/pets/data/b.tar", hasty())
	require.NoError(t, err)
	require.NoError(t, o.ReadAt(t.Context(), make([]byte, 10), 5))
	require.NotEmpty(t, headers())
	for _, h := range headers() {
		assert.NotContains(t, fmt.Sprint(h), "SECRET")
	}
}
