//go:build !headrace_nocloud

package pack

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/remote/s3test"
)

// lateStore is a proxy of a store. It carries out the upload of one object late, even if the client has left.
type lateStore struct {
	*httptest.Server
	asked   chan struct{} // closed when all bytes of the object have arrived
	removed chan struct{} // closed when the client has tried to remove the object
	stored  chan struct{} // closed when the object was stored
}

// newLateStore begins a proxy. It carries out the upload when until returns.
func newLateStore(t *testing.T, store, extension string, until func(s *lateStore)) *lateStore {
	to, err := url.Parse(store)
	require.NoError(t, err)
	s := &lateStore{asked: make(chan struct{}), removed: make(chan struct{}), stored: make(chan struct{})}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
		r.Out.Host = r.In.Host // the signature covers it
	}}
	var first, removal sync.Once
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one, late := strings.HasSuffix(r.URL.Path, extension), false
		if one && r.Method == http.MethodPut {
			first.Do(func() { late = true })
		}
		if !late {
			proxy.ServeHTTP(w, r)
			// The library asks whether there is an object before it removes one (s3blob, Delete).
			if one && (r.Method == http.MethodHead || r.Method == http.MethodDelete) {
				removal.Do(func() { close(s.removed) })
			}
			return
		}
		defer close(s.stored)
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		close(s.asked)
		until(s)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		assert.Equal(t, http.StatusOK, answer.Code, answer.Body)
		w.WriteHeader(answer.Code)
	}))
	t.Cleanup(s.Close)
	return s
}

// interruptedPack packs to a store and ends the job when the store has the bytes of a shard.
func interruptedPack(t *testing.T, until func(s *lateStore)) {
	server := s3test.Start(t, "photos")
	late := newLateStore(t, server.Endpoint, ".tar", until)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	failed := make(chan error, 1)
	go func() {
		_, err := Pack(ctx, PackConfig{Source: testFolder(t, 12), Destination: "s3://photos/set",
			Storage: remote.Storage{Endpoint: late.URL, PathStyle: true}}, NewTracker())
		failed <- err
	}()
	select {
	case <-late.asked:
	case err := <-failed:
		t.Fatal("the job ended before its shard was sent: ", err)
	}
	end()
	err := <-failed
	require.Error(t, err)
	require.NotContains(t, err.Error(), "are left")
	select {
	case <-late.stored:
	case <-time.After(time.Minute):
		t.Fatal("the store has not made the object")
	}
	require.Empty(t, filesBelow(t, filepath.Join(server.Dir, "photos")))
}

func filesBelow(t *testing.T, dir string) (found []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func TestAnObjectThatTheStoreMakesJustAfterItsUploadWasEndedIsRemoved(t *testing.T) {
	interruptedPack(t, func(*lateStore) { time.Sleep(remote.AnswerTime / 5) })
}

func TestAnObjectThatTheStoreMakesAfterItsRemovalIsRemovedAgain(t *testing.T) {
	interruptedPack(t, func(s *lateStore) {
		select {
		case <-s.removed:
		case <-time.After(30 * time.Second):
			t.Error("nobody has tried to remove the object")
		}
	})
}
