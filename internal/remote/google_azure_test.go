//go:build !headrace_nocloud

package remote

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// Google's and Azure's own servers cannot be run here. These servers answer the few requests of the stores'
// real libraries as the documented protocols say. They do not test credentials.

// odd is a version that is answered without a header that all answers of Azure have.
const odd = 99

// azureServer has one blob, /account/photos/train/x (Get Blob, Get Blob Properties, List Blobs).
func azureServer(t *testing.T, data []byte, version *atomic.Int64) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf(`"0x%d"`, version.Load())
		switch {
		case r.URL.Query().Get("comp") == "list":
			fmt.Fprintf(w, `<?xml version="1.0"?><EnumerationResults ContainerName="photos"><Blobs><Blob><Name>train/x</Name><Properties>`+
				`<Last-Modified>Wed, 09 Sep 2026 09:20:02 GMT</Last-Modified><Etag>%s</Etag><Content-Length>%d</Content-Length><BlobType>BlockBlob</BlobType>`+
				`</Properties></Blob></Blobs><NextMarker/></EnumerationResults>`, strings.Trim(tag, `"`), len(data))
		case r.URL.Path == "/account/photos/train/x":
			w.Header().Set("ETag", tag)
			if version.Load() != odd {
				w.Header().Set("X-Ms-Creation-Time", "Wed, 09 Sep 2026 09:20:02 GMT")
			}
			if span := r.Header.Get("X-Ms-Range"); span != "" {
				r.Header.Set("Range", span)
			}
			http.ServeContent(w, r, "", time.Date(2026, 9, 9, 9, 20, 2, 0, time.UTC), bytes.NewReader(data))
		default:
			w.Header().Set("X-Ms-Error-Code", "BlobNotFound")
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// googleServer has one object, photos/train/x (objects: get and list of the JSON API, get of the XML API).
func googleServer(t *testing.T, data []byte, version *atomic.Int64) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := fmt.Sprintf(`{"kind":"storage#object","bucket":"photos","name":"train/x","size":"%d","generation":"%d","etag":"CAE="}`, len(data), version.Load())
		wanted := r.Header.Get("X-Goog-If-Generation-Match")
		if q := r.URL.Query().Get("ifGenerationMatch"); q != "" {
			wanted = q
		}
		switch {
		case r.URL.Path == "/storage/v1/b/photos/o":
			fmt.Fprintf(w, `{"kind":"storage#objects","items":[%s]}`, object)
		case r.URL.Path != "/storage/v1/b/photos/o/train/x" && r.URL.Path != "/photos/train/x":
			w.WriteHeader(http.StatusNotFound)
		case wanted != "" && wanted != fmt.Sprint(version.Load()):
			w.WriteHeader(http.StatusPreconditionFailed)
		case r.URL.Path == "/photos/train/x" || r.URL.Query().Get("alt") == "media":
			w.Header().Set("X-Goog-Generation", fmt.Sprint(version.Load()))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, object)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestObjectsOfGoogleAndAzureAreListedReadAndPinnedToTheirVersion(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	data := content(100_000)
	for scheme, server := range map[string]func(*testing.T, []byte, *atomic.Int64) *httptest.Server{"az": azureServer, "gs": googleServer} {
		t.Run(scheme, func(t *testing.T) {
			var version atomic.Int64
			version.Store(7)
			s := hasty()
			s.Endpoint, s.Anonymous, s.PathStyle = server(t, data, &version).URL, true, true
			entries, err := List(t.Context(), scheme+"://photos/train/", s)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			assert.Equal(t, scheme+"://photos/train/x", entries[0].URL)
			o, err := Open(t.Context(), entries[0].URL, s)
			require.NoError(t, err)
			assert.Equal(t, entries[0], Entry{o.URL(), o.Size(), o.Version()})
			p := make([]byte, 1000)
			for _, offset := range []int64{0, 1, 99_000} {
				require.NoError(t, o.ReadAt(t.Context(), p, offset))
				assert.Equal(t, data[offset:][:1000], p)
			}
			if scheme == "az" {
				version.Store(odd)
				_, err = Open(t.Context(), "az://photos/train/x", s)
				assert.Equal(t, fault.KindBadFile, kindOf(t, err), "an error, although the library panics")
			}
			version.Store(8)
			err = o.ReadAt(t.Context(), p, 5)
			assert.Equal(t, fault.KindChanged, kindOf(t, err))
			assert.ErrorContains(t, err, "412 Precondition Failed")
			_, err = Open(t.Context(), scheme+"://photos/none", s)
			assert.Equal(t, fault.KindIO, kindOf(t, err))
			assert.ErrorContains(t, err, "404 Not Found")
		})
	}
}

func TestAReplacedObjectIsNoticedByTheVersionInTheAnswerIfConditionsAreIgnored(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	data := content(100_000)
	for scheme, made := range map[string]func(*testing.T, []byte, *atomic.Int64) *httptest.Server{"az": azureServer, "gs": googleServer} {
		t.Run(scheme, func(t *testing.T) {
			var version atomic.Int64
			version.Store(7)
			server := made(t, data, &version)
			inner := server.Config.Handler
			server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("X-Goog-If-Generation-Match")
				r.Header.Del("If-Match")
				q := r.URL.Query()
				q.Del("ifGenerationMatch")
				r.URL.RawQuery = q.Encode()
				inner.ServeHTTP(w, r)
			})
			s := hasty()
			s.Endpoint, s.Anonymous, s.PathStyle = server.URL, true, true
			o, err := Open(t.Context(), scheme+"://photos/train/x", s)
			require.NoError(t, err)
			p := make([]byte, 1000)
			require.NoError(t, o.ReadAt(t.Context(), p, 5))
			version.Store(8)
			err = o.ReadAt(t.Context(), p, 5)
			require.Equal(t, fault.KindChanged, kindOf(t, err))
			require.ErrorContains(t, err, "8")
		})
	}
}

func TestAGoogleTokenIsNotSentToTheTargetOfARedirect(t *testing.T) {
	other, headers := listening(t, content(1000))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"access_token": "SECRET", "token_type": "Bearer", "expires_in": 3600}`)
			return
		}
		assert.Equal(t, "Bearer SECRET", r.Header.Get("Authorization"))
		http.Redirect(w, r, other+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	serviceAccount(t, server.URL+"/token")
	s := hasty()
	s.Endpoint = server.URL
	_, err := Open(t.Context(), "gs://photos/train/x", s)
	assert.ErrorContains(t, err, "307 Temporary Redirect")
	o, err := OpenKnown("gs://photos/train/x", 1000, "1", s)
	require.NoError(t, err)
	assert.Error(t, o.ReadAt(t.Context(), make([]byte, 10), 0))
	_, err = List(t.Context(), "gs://photos/", s)
	assert.Error(t, err)
	assert.Empty(t, headers())
}
