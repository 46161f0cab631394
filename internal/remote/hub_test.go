package remote

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// hub is a server that answers as Hugging Face's hub does for one dataset and records the requests, with the
// server that its redirects lead to.
type hub struct {
	url, cdn string
	data     []byte
	lifetime time.Duration // of redirects
	ahead    time.Duration // how far this machine's clock is ahead of the hub's

	converted []string // files of the branch that the hub makes; nil: there is none

	mu      sync.Mutex
	commit  string
	asked   []string
	strange []string // headers with secrets that the other server got
	refuse  int      // so many requests to the other server are answered with 403
}

const hubSecret = "hf_SECRETtoken"

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{data: content(200_000), commit: strings.Repeat("a1", 20), lifetime: time.Hour}
	main, other := httptest.NewServer(http.HandlerFunc(h.serve)), httptest.NewServer(http.HandlerFunc(h.serveBytes))
	h.url, h.cdn = main.URL, other.URL
	t.Cleanup(main.Close)
	t.Cleanup(other.Close)
	t.Setenv("HF_ENDPOINT", h.url)
	t.Setenv("HF_TOKEN", hubSecret)
	return h
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r.URL.Path)
	if r.Header.Get("Authorization") != "Bearer "+hubSecret {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	refuse := func(status int, code string) {
		w.Header().Set("X-Error-Code", code)
		w.WriteHeader(status)
	}
	repo, files := "/datasets/org/pets", "/datasets/org/pets/resolve/"+h.commit+"/"
	switch {
	case r.URL.Path == "/api"+repo+"/revision/main" || r.URL.Path == "/api"+repo+"/revision/refs/pr/1":
		fmt.Fprintf(w, `{"sha": %q}`, h.commit)
	case r.URL.Path == "/api"+repo+"/tree/"+h.commit+"/data" && r.URL.Query().Get("cursor") == "":
		w.Header().Add("Link", `<`+h.url+r.URL.Path+`?recursive=true>; rel="first"`)
		w.Header().Add("Link", `<`+h.url+r.URL.Path+`?recursive=true&cursor=2,a>; rel="next"`)
		fmt.Fprintf(w, `[{"type":"directory","path":"data/x"},{"type":"file","path":"data/b.tar","size":130,"oid":"00","lfs":{"oid":"feed","size":%d}}]`, len(h.data))
	case r.URL.Path == "/api"+repo+"/tree/"+h.commit+"/data":
		fmt.Fprintf(w, `[{"type":"file","path":"data/a small.txt","size":%d,"oid":"abcd"}]`, len(h.data))
	case r.URL.Path == files+"data/b.tar":
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(h.data)))
		w.Header().Set("X-Linked-Etag", `"feed"`)
		now := time.Now().Add(-h.ahead)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		http.Redirect(w, r, fmt.Sprintf("%s/blob?Expires=%d&Signature=SECRET", h.cdn, now.Add(h.lifetime).Unix()), http.StatusFound)
	case r.URL.Path == files+"data/a small.txt":
		http.Redirect(w, r, "/api/resolve-cache/small", http.StatusTemporaryRedirect)
	case r.URL.Path == "/api/resolve-cache/small":
		w.Header().Set("ETag", `"abcd"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.data))
	case r.URL.Path == "/api"+repo+"/revision/refs/convert/parquet" && h.converted != nil:
		fmt.Fprintf(w, `{"sha": %q}`, strings.Repeat("c0", 20))
	case r.URL.Path == "/api"+repo+"/tree/"+strings.Repeat("c0", 20)+"/" && h.converted != nil:
		var page []string
		for _, name := range h.converted {
			page = append(page, fmt.Sprintf(`{"type":"file","path":%q,"size":1,"oid":"00"}`, name))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(page, ","))
	case strings.HasPrefix(r.URL.Path, "/api/datasets/org/gated/"):
		refuse(http.StatusForbidden, "GatedRepo")
	case strings.HasPrefix(r.URL.Path, "/api"+repo+"/revision/"):
		refuse(http.StatusNotFound, "RevisionNotFound")
	case strings.Contains(r.URL.Path, repo+"/"):
		refuse(http.StatusNotFound, "EntryNotFound")
	default:
		refuse(http.StatusNotFound, "RepoNotFound")
	}
}

func (h *hub) serveBytes(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if all := fmt.Sprint(r.Header); strings.Contains(all, hubSecret) || r.Header.Get("Authorization") != "" {
		h.strange = append(h.strange, all)
	}
	if h.refuse > 0 {
		h.refuse--
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("ETag", `"of-the-other-server"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.data))
}

func (h *hub) count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, asked := range h.asked {
		if strings.HasSuffix(asked, path) {
			n++
		}
	}
	return n
}

func TestFilesOfADatasetOnTheHubAreListedAndReadAtOneCommit(t *testing.T) {
	h, s := newHub(t), hasty()
	entries, err := List(t.Context(), "hf://datasets/org/pets/data/", s)
	require.NoError(t, err)
	require.Equal(t, []Entry{
		{"hf://datasets/org/pets/data/a small.txt", 200_000, `"abcd"`},
		{"hf://datasets/org/pets/data/b.tar", 200_000, `"feed"`},
	}, entries)
	for _, e := range entries {
		o, err := Open(t.Context(), e.URL, s)
		require.NoError(t, err)
		assert.Equal(t, e, Entry{o.URL(), o.Size(), o.Version()})
		p := make([]byte, 1000)
		for offset := int64(0); offset < 100_000; offset += 9999 {
			require.NoError(t, o.ReadAt(t.Context(), p, offset))
			assert.Equal(t, h.data[offset:][:1000], p)
		}
	}
	assert.Equal(t, 1, h.count("/revision/main"), "a revision is resolved once")
	assert.Equal(t, 1, h.count("/b.tar"), "a redirect is used again")
	assert.Empty(t, h.strange, "the token was sent to another server than the hub")
	o, err := Open(t.Context(), "hf://datasets/org/pets@refs/pr/1/data/b.tar", s)
	require.NoError(t, err)
	assert.Equal(t, int64(200_000), o.Size())
	_, err = Open(t.Context(), "hf://datasets/org/pets@"+h.commit+"/data/none", s)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestACommaInALinkHeaderDoesNotHideTheNextPage(t *testing.T) {
	h := &hubStore{endpoint: "https://hub"}
	for header, want := range map[string]string{
		`<https://hub/tree?cursor=a,b>; rel="next"`:                                    "https://hub/tree?cursor=a,b",
		`<https://hub/tree?cursor=,>;rel="prev",</tree?cursor=c,d,>;rel="next"`:        "https://hub/tree?cursor=c,d,",
		`<https://hub/tree>; title="<a>, \", <b>"; rel="first", </tree?b>; rel="next"`: "https://hub/tree?b",
		`<https://hub/tree?a,b>; rel="next", <https://hub/tree>; rel="first"`:          "https://hub/tree?a,b",
		`<https://hub/tree?a,b>; rel="prev"`:                                           "",
		`<https://hub/tree?a,b; rel="next"`:                                            "",
		"":                                                                             "",
	} {
		next, err := h.nextPage(header, 1)
		require.NoError(t, err)
		assert.Equal(t, want, next, header)
	}
	_, err := h.nextPage(`<https://other/tree?a,b>; rel="next"`, 1)
	assert.ErrorContains(t, err, "the hub's list continues at another host")
}

func TestAnExpiredRedirectIsRequestedAgain(t *testing.T) {
	h, s := newHub(t), hasty()
	o, err := Open(t.Context(), "hf://datasets/org/pets/data/b.tar", s)
	require.NoError(t, err)
	h.mu.Lock()
	h.refuse = 1 // the signature expired before its time
	h.mu.Unlock()
	p := make([]byte, 10)
	require.NoError(t, o.ReadAt(t.Context(), p, 5))
	assert.Equal(t, 2, h.count("/b.tar"))
	h.mu.Lock()
	h.lifetime, h.refuse = 0, 1
	h.mu.Unlock()
	require.NoError(t, o.ReadAt(t.Context(), p, 5))
	require.NoError(t, o.ReadAt(t.Context(), p, 5))
	assert.Equal(t, 4, h.count("/b.tar"), "a redirect whose time is over is used again")
	h.mu.Lock()
	h.refuse = 1000
	h.mu.Unlock()
	err = o.ReadAt(t.Context(), p, 5)
	assert.Equal(t, fault.KindDenied, kindOf(t, err))
	assert.NotContains(t, err.Error(), "SECRET")
	assert.Empty(t, h.strange)
}

func TestARedirectIsReusedEvenIfThisMachinesClockIsWrong(t *testing.T) {
	for _, ahead := range []time.Duration{100 * time.Hour, -100 * time.Hour} {
		h, s := newHub(t), hasty()
		h.ahead = ahead
		o, err := Open(t.Context(), "hf://datasets/org/pets/data/b.tar", s)
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, o.ReadAt(t.Context(), make([]byte, 10), 5))
		}
		assert.Equal(t, 1, h.count("/b.tar"))
	}
}

func TestAFileOnTheHubWithAnotherSizeOrVersionIsAnErrorOfKindChanged(t *testing.T) {
	newHub(t)
	s := hasty()
	for _, c := range []struct {
		size    int64
		version string
		says    string
	}{{200_000, `"beef"`, `expected version "beef", found "feed"`}, {5, `"feed"`, "expected 5 bytes, found 200000"}} {
		o, err := OpenKnown("hf://datasets/org/pets/data/b.tar", c.size, c.version, s)
		require.NoError(t, err)
		err = o.ReadAt(t.Context(), make([]byte, 5), 0)
		assert.Equal(t, fault.KindChanged, kindOf(t, err))
		assert.ErrorContains(t, err, c.says)
	}
}

func TestAnErrorOfTheHubDoesNotShowTheToken(t *testing.T) {
	newHub(t)
	t.Setenv("HF_TOKEN", "hf_another-SECRET")
	_, err := Open(t.Context(), "hf://datasets/org/pets/data/b.tar", hasty())
	assert.Equal(t, fault.KindDenied, kindOf(t, err))
	assert.ErrorContains(t, err, "hf://datasets/org/pets/data/b.tar: cannot open it in 1 attempt: the server answered 401 Unauthorized (the dataset does not exist, or HF_TOKEN does not open it)")
	assert.NotContains(t, err.Error(), "SECRET")
	for _, url := range []string{"hf://datasets/org", "hf://datasets/../x/y", "hf://models/a/b/c"} {
		_, err := Open(t.Context(), url, hasty())
		assert.Equal(t, fault.KindArgument, fault.KindOf(err), url)
	}
	_, err = Create(t.Context(), "hf://datasets/org/pets/x", 0, hasty())
	assert.Equal(t, fault.KindUnsupported, kindOf(t, err))
}
