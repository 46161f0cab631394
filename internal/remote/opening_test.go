package remote

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// saying answers all requests with a status, headers ("Name: value") and a body.
func saying(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, header := range headers {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestOpenReportsAnswersThatAreNotAReadableObject(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
		says   string
	}{
		"no length":          {saying(206, "x", "Content-Range: bytes 0-0/*"), fault.KindUnsupported, "the server does not say how long the object is"},
		"416 to everything":  {saying(416, ""), fault.KindUnsupported, "the server answered 416 Requested Range Not Satisfiable, with a range and without"},
		"416 of some bytes":  {saying(416, "", "Content-Range: bytes */9"), fault.KindBadFile, "answered 416 to a request for the first byte, and that there are 9"},
		"all compressed":     {saying(200, "abc", "Content-Encoding: gzip"), fault.KindUnsupported, "the server compresses what it sends"},
		"a range compressed": {saying(206, "abc", "Content-Encoding: gzip", "Content-Range: bytes 0-0/9"), fault.KindUnsupported, "the server compresses what it sends"},
		"416 to a range": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
			fmt.Fprint(w, "abc")
		}, fault.KindUnsupported, "the server has no range requests: it answered 416"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), answering(t, c.answer)+"/x", hasty())
			require.Equal(t, c.kind, kindOf(t, err), "%v", err)
			assert.ErrorContains(t, err, "cannot open it in 1 attempt: ")
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestAnEmptyObjectIsOpenedHoweverTheServerSaysIt(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"200 without bytes": saying(200, "", `ETag: "one"`),
		"416 and a length":  saying(416, "", "Content-Range: bytes */0", `ETag: "one"`),
		"416 without headers": func(w http.ResponseWriter, r *http.Request) {
			if w.Header().Set("ETag", `"one"`); r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
		},
	} {
		o, err := Open(t.Context(), answering(t, answer)+"/x", hasty())
		require.NoError(t, err, name)
		assert.Zero(t, o.Size(), name)
		assert.Equal(t, `"one"`, o.Version(), name)
	}
}

func TestAnObjectStoredWithAContentEncodingIsReadAsStored(t *testing.T) {
	origin := serving(t, content(1000)).Config.Handler
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		origin.ServeHTTP(w, r)
	})
	o, err := Open(t.Context(), server+"/data.bin", hasty())
	require.NoError(t, err)
	p := make([]byte, 100)
	require.NoError(t, o.ReadAt(t.Context(), p, 10))
	assert.Equal(t, content(1000)[10:110], p)
}

func TestAServerThatCompressesRangesIsAnErrorWithoutRetry(t *testing.T) {
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Range", "bytes 10-109/1000")
		w.WriteHeader(http.StatusPartialContent)
		packed := gzip.NewWriter(w)
		packed.Write(content(1000)[10:110])
		packed.Close()
	})
	err := unasked(t, server, 1000, `"one"`, hasty()).ReadAt(t.Context(), make([]byte, 100), 10)
	assert.Equal(t, fault.KindUnsupported, kindOf(t, err))
	assert.ErrorContains(t, err, "cannot read it in 1 attempt: the server compresses what it sends")
}

func TestARefusedRangeOfAnOpenObjectMeansThatItWasReplaced(t *testing.T) {
	for _, answer := range []http.HandlerFunc{saying(416, ""), saying(416, "", "Content-Range: bytes */1000"), saying(416, "", "Content-Range: bytes */9")} {
		err := unasked(t, answering(t, answer), 1000, `"one"`, hasty()).ReadAt(t.Context(), make([]byte, 100), 10)
		assert.Equal(t, fault.KindChanged, kindOf(t, err))
		assert.ErrorContains(t, err, "it was replaced after it was opened or indexed")
	}
}

func TestAnEmptyFileOnTheHubIsOpened(t *testing.T) {
	commit := strings.Repeat("a1", 20)
	said := ""
	t.Setenv("HF_ENDPOINT", answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}
		fmt.Fprint(w, said)
	}))
	o, err := Open(t.Context(), "hf://datasets/o/n@"+commit+"/x", hasty())
	require.NoError(t, err)
	assert.Zero(t, o.Size())
	said = "bytes all the same"
	_, err = Open(t.Context(), "hf://datasets/o/n@"+commit+"/x", hasty())
	assert.Equal(t, fault.KindUnsupported, kindOf(t, err))
	assert.ErrorContains(t, err, "the hub answered 416")
}
