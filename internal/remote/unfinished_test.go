//go:build !headrace_nocloud

package remote

import (
	"os"
	"path/filepath"
	"strings"
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

func TestUploadsThatWereNotFinishedAreDroppedAndThoseOfOtherObjectsAreNot(t *testing.T) {
	server, s := s3Server(t)
	data := content(2*leastPart + 1000) // the first part is sent when the second is full
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
