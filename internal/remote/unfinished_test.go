//go:build !headrace_nocloud

package remote

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/remote/s3test"
)

// parts is how many files a server keeps of uploads that are not finished.
func parts(server *s3test.Server) (count int) {
	filepath.WalkDir(server.Dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(path, ".sgwtmp") {
			count++
		}
		return nil
	})
	return count
}

func TestUnfinishedUploadsAreAbortedAndThoseOfOtherObjectsAreNot(t *testing.T) {
	server, s := s3Server(t)
	data := content(2*leastPart + 1000) // the first part is sent once the second one is full
	begin := func(name string) *Writer {
		before := parts(server)
		w, err := Create(t.Context(), "s3://photos/"+name, 1, s)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return parts(server) > before }, 20*time.Second, 5*time.Millisecond)
		return w
	}
	ours, other, beside := begin("train.hr/shard-00000.tar"), begin("train.hr/notes.txt"), begin("train.hr2/shard-00000.tar")
	require.NoError(t, DropUploads(t.Context(), "s3://photos/train.hr/", s, func(name string) bool { return strings.HasPrefix(name, "shard-") }))
	assert.ErrorContains(t, ours.Commit(), "404 Not Found NoSuchUpload")
	require.NoError(t, ours.Abort(t.Context()))
	for _, w := range []*Writer{other, beside} {
		require.NoError(t, w.Commit())
	}
	assert.Zero(t, parts(server))
}

func TestUnfinishedUploadsAreCountedOnlyIfTheWholeListArrives(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	page := func(cut bool, keys ...string) string {
		text := fmt.Sprintf("<ListMultipartUploadsResult><IsTruncated>%t</IsTruncated><NextKeyMarker>n</NextKeyMarker><NextUploadIdMarker>m</NextUploadIdMarker>", cut)
		for _, key := range keys {
			text += "<Upload><Key>train.hr/" + key + "</Key><UploadId>u</UploadId></Upload>"
		}
		return text + "</ListMultipartUploadsResult>"
	}
	first, second := page(true, "shard-00000.tar", "notes.txt"), page(false, "shard-00001.tar")
	for name, c := range map[string]struct {
		second      http.HandlerFunc
		count       int
		mostSeconds float64
	}{
		"whole":        {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(second)) }, 2, 30},
		"a page fails": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 0, 30},
		"no answer":    {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, 1},
	} {
		var asked atomic.Int64
		s := hasty()
		s.PathStyle = true
		s.Endpoint = answering(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1)%2 == 1 {
				w.Write([]byte(first))
				return
			}
			c.second(w, r)
		})
		began := time.Now()
		assert.Equal(t, c.count, CountUploads(t.Context(), "s3://photos/train.hr/", s, func(name string) bool { return strings.HasPrefix(name, "shard-") }), name)
		assert.EqualValues(t, 2, asked.Load(), name)
		assert.Less(t, time.Since(began).Seconds(), c.mostSeconds, name)
	}
}
