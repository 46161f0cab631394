//go:build !headrace_nocloud

package remote

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMissingBucketIsDistinguishedFromAMissingObject(t *testing.T) {
	_, amazon := s3Server(t)
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	store := func(body string, headers ...string) Storage {
		s := hasty()
		s.Endpoint, s.Anonymous, s.PathStyle = answering(t, saying(404, body, headers...)), true, true
		return s
	}
	google := func(message string) Storage {
		return store(`{"error": {"code": 404, "message": "`+message+`", "errors": [{"reason": "notFound"}]}}`, "Content-Type: application/json")
	}
	azure := func(code string) Storage { return store("", "X-Ms-Error-Code: "+code) }
	for _, c := range []struct {
		url     string
		storage Storage
		bucket  bool
	}{
		{"s3://nope/x", amazon, true},
		{"s3://photos/x", amazon, false},
		{"gs://nope/x", google("The specified bucket does not exist."), true},
		{"gs://photos/x", google("No such object: photos/x"), false},
		{"az://nope/x", azure("ContainerNotFound"), true},
		{"az://photos/x", azure("BlobNotFound"), false},
	} {
		_, err := Open(t.Context(), c.url, c.storage)
		require.ErrorIs(t, err, fs.ErrNotExist, c.url)
		if c.bucket {
			assert.ErrorIs(t, err, ErrNoBucket, c.url)
			assert.ErrorContains(t, err, "there is no such bucket or container: the server answered 404 Not Found")
		} else {
			assert.NotErrorIs(t, err, ErrNoBucket, c.url)
		}
	}
	newHub(t)
	for url, dataset := range map[string]bool{"hf://datasets/org/nope/x": true, "hf://datasets/org/pets@nope/x": true, "hf://datasets/org/pets/x": false} {
		_, err := Open(t.Context(), url, hasty())
		require.ErrorIs(t, err, fs.ErrNotExist, url)
		assert.Equal(t, dataset, errors.Is(err, ErrNoBucket), url)
	}
}
