//go:build !headrace_nocloud

package remote

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote/faultproxy"
	"github.com/headrace/headrace/internal/remote/s3test"
)

// s3Server starts a server with the bucket "photos", and returns the storage for it, too.
func s3Server(t testing.TB) (*s3test.Server, Storage) {
	t.Helper()
	server := s3test.Start(t, "photos")
	return server, Storage{Endpoint: server.Endpoint, PathStyle: true}
}

// put uploads an object.
func put(t testing.TB, url string, s Storage, data []byte) {
	t.Helper()
	w, err := Create(t.Context(), url, 0, s)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Commit())
}

func TestObjectsOfS3AreWrittenListedAndReadWithRealSignatures(t *testing.T) {
	server, s := s3Server(t)
	data := content(300_000)
	names := []string{"train/a b+c=d&e%20(1)'.bin", "train/ünï/雪.bin", "train/~plain-._.bin", "trainer.bin"}
	for _, name := range names {
		put(t, "s3://photos/"+name, s, data)
		onDisk, err := os.ReadFile(filepath.Join(server.Dir, "photos", name))
		require.NoError(t, err)
		assert.Equal(t, data, onDisk)
	}
	entries, err := List(t.Context(), "s3://photos/train/", s)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	for i, e := range entries {
		assert.Equal(t, int64(len(data)), e.Size)
		if i > 0 {
			assert.Less(t, entries[i-1].URL, e.URL)
		}
		o, err := Open(t.Context(), e.URL, s)
		require.NoError(t, err, e.URL)
		assert.Equal(t, e.Version, o.Version(), "the list and the object have different versions")
		assert.Equal(t, e.Size, o.Size())
		known, err := OpenKnown(e.URL, e.Size, e.Version, s)
		require.NoError(t, err)
		p := make([]byte, 5000)
		require.NoError(t, known.ReadAt(t.Context(), p, 123_456))
		assert.Equal(t, data[123_456:][:5000], p)
		assert.Equal(t, Counts{Requests: 1, Bytes: 5000, Waited: known.Counts().Waited}, known.Counts())
	}
}

func TestAReplacedS3ObjectIsAnErrorOfKindChanged(t *testing.T) {
	_, s := s3Server(t)
	put(t, "s3://photos/x", s, content(1000))
	o, err := Open(t.Context(), "s3://photos/x", s)
	require.NoError(t, err)
	put(t, "s3://photos/x", s, content(1001)[1:])
	err = o.ReadAt(t.Context(), make([]byte, 10), 0)
	assert.Equal(t, fault.KindChanged, kindOf(t, err))
	assert.ErrorContains(t, err, "s3://photos/x: at byte 0: bad: cannot read it in 1 attempt: it was replaced after it was opened or indexed: the server answered 412 Precondition Failed PreconditionFailed")
	now, wrong := Open(t.Context(), "s3://photos/x", s)
	require.NoError(t, wrong)
	assert.ErrorContains(t, err, "(expected version "+o.Version()+", found "+now.Version()+")")
}

func TestAReplacedS3ObjectWithoutAnETagIsNoticedByItsDate(t *testing.T) {
	server, s := s3Server(t)
	path := filepath.Join(server.Dir, "photos", "x")
	require.NoError(t, os.WriteFile(path, content(1000), 0o600))
	first := time.Unix(1_790_000_000, 500_000_000)
	require.NoError(t, os.Chtimes(path, first, first))
	o, err := Open(t.Context(), "s3://photos/x", s)
	require.NoError(t, err)
	p := make([]byte, 10)
	require.NoError(t, o.ReadAt(t.Context(), p, 7))
	assert.Equal(t, content(1000)[7:17], p)
	require.NoError(t, os.Chtimes(path, first.Add(time.Hour), first.Add(time.Hour)))
	assert.Equal(t, fault.KindChanged, kindOf(t, o.ReadAt(t.Context(), p, 7)))
}

func TestTheErrorOfAWrongS3SecretShowsNeitherKeyNorSecret(t *testing.T) {
	_, s := s3Server(t)
	put(t, "s3://photos/x", s, content(1000))
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a-WRONG-secret")
	s.Patience = 59 * time.Second // a new storage, because the other one has the right keys already
	for _, try := range []func() error{
		func() error { _, err := Open(t.Context(), "s3://photos/x", s); return err },
		func() error { _, err := List(t.Context(), "s3://photos/", s); return err },
		func() error {
			w, err := Create(t.Context(), "s3://photos/y", 0, s)
			require.NoError(t, err)
			w.Write([]byte("x"))
			return w.Commit()
		},
	} {
		err := try()
		assert.Equal(t, fault.KindDenied, kindOf(t, err))
		assert.ErrorContains(t, err, "403 Forbidden SignatureDoesNotMatch")
		assert.NotContains(t, err.Error(), "WRONG")
		assert.NotContains(t, err.Error(), s3test.AccessKey)
	}
	s.Anonymous = true
	_, err := Open(t.Context(), "s3://photos/x", s)
	assert.Equal(t, fault.KindDenied, kindOf(t, err))
}

func TestAMissingS3ObjectIsAMissingFile(t *testing.T) {
	_, s := s3Server(t)
	_, err := Open(t.Context(), "s3://photos/none", s)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, fault.KindIO, kindOf(t, err))
	assert.ErrorContains(t, err, "s3://photos/none: cannot open it in 1 attempt: the server answered 404 Not Found NoSuchKey")
	_, err = List(t.Context(), "s3://no-such-bucket/x", s)
	assert.ErrorIs(t, err, os.ErrNotExist)
	entries, err := List(t.Context(), "s3://photos/none", s)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestAnEmptyS3ObjectIsOpened(t *testing.T) {
	_, s := s3Server(t)
	put(t, "s3://photos/empty", s, nil)
	o, err := Open(t.Context(), "s3://photos/empty", s)
	require.NoError(t, err)
	assert.Zero(t, o.Size())
	require.NoError(t, o.ReadAt(t.Context(), nil, 0))
}

func TestManyConcurrentReadsOfS3EachTakeOneRequest(t *testing.T) {
	_, s := s3Server(t)
	data := content(1 << 20)
	put(t, "s3://photos/x", s, data)
	o, err := Open(t.Context(), "s3://photos/x", s)
	require.NoError(t, err)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			p := make([]byte, 10_000)
			for i := range 20 {
				offset := int64(worker*50_000 + i*1000)
				if assert.NoError(t, o.ReadAt(t.Context(), p, offset)) {
					assert.Equal(t, data[offset:][:len(p)], p)
				}
			}
		})
	}
	all.Wait()
	counts := o.Counts()
	assert.Equal(t, int64(321), counts.Requests-counts.Hedges)
}

func TestAnUploadIsNotVisibleBeforeItsCommitOrAfterItsAbort(t *testing.T) {
	server, s := s3Server(t)
	part := content(usualPart)
	w, err := Create(t.Context(), "s3://photos/large", 0, s)
	require.NoError(t, err)
	_, err = w.Write(append(part[:len(part):len(part)], 'x')) // one part is sent
	require.NoError(t, err)
	_, err = Open(t.Context(), "s3://photos/large", s)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, w.Abort(t.Context()))
	require.NoError(t, w.Abort(t.Context()))
	_, err = w.Write(part)
	require.Error(t, err)
	require.Error(t, w.Commit())
	_, err = Open(t.Context(), "s3://photos/large", s)
	require.ErrorIs(t, err, os.ErrNotExist)
	// The server keeps the parts in its directory. It ends the aborted request a moment after the client does.
	assert.Eventually(t, func() bool {
		left := 0
		filepath.WalkDir(server.Dir, func(_ string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				left++
			}
			return nil
		})
		return left == 0
	}, 20*time.Second, 20*time.Millisecond, "parts of an aborted upload")
	w, err = Create(t.Context(), "s3://photos/large", 0, s)
	require.NoError(t, err)
	_, err = w.Write(part)
	require.NoError(t, err)
	_, err = w.Write([]byte("and more"))
	require.NoError(t, err)
	require.NoError(t, w.Commit())
	o, err := Open(t.Context(), "s3://photos/large", s)
	require.NoError(t, err)
	assert.Equal(t, int64(usualPart+8), o.Size())
	p := make([]byte, 100)
	require.NoError(t, o.ReadAt(t.Context(), p, usualPart-92))
	assert.Equal(t, string(part[usualPart-92:])+"and more", string(p))
}

func TestAPresignedAddressIsReadAndItsSignatureNeverShown(t *testing.T) {
	_, s := s3Server(t)
	put(t, "s3://photos/x", s, content(1000))
	o, err := newObject("s3://photos/x", s)
	require.NoError(t, err)
	url := presigned(t, o)
	web, err := Open(t.Context(), url, Storage{})
	require.NoError(t, err)
	assert.Equal(t, int64(1000), web.Size())
	assert.NotContains(t, web.URL()+web.Key(), "Signature")
	_, err = Open(t.Context(), strings.Replace(url, "X-Amz-Signature=", "X-Amz-Signature=00", 1), Storage{})
	assert.Equal(t, fault.KindDenied, kindOf(t, err))
	assert.NotContains(t, err.Error(), "?")
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	whole, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Len(t, whole, 1000)
}

func TestReadsOfS3SurviveBrokenConnectionsAndExpiredCredentials(t *testing.T) {
	server, direct := s3Server(t)
	data := content(400_000)
	put(t, "s3://photos/x", direct, data)
	proxy := faultproxy.Start(t, server.Address)
	proxy.Plan(func(int) faultproxy.Fault { return faultproxy.Fault{Action: faultproxy.Reset, After: 150_000} })
	s := hasty()
	s.Endpoint, s.PathStyle = "http://"+proxy.Address, true
	o, err := Open(t.Context(), "s3://photos/x", s)
	require.NoError(t, err)
	p := make([]byte, 350_000)
	require.NoError(t, o.ReadAt(t.Context(), p, 12_345))
	assert.Equal(t, data[12_345:][:len(p)], p)
	assert.Positive(t, o.Counts().Retries)

	front := faultproxy.Web(t, server.Address, func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`<?xml version="1.0"?><Error><Code>ExpiredToken</Code><Message>SECRET</Message></Error>`))
		}
		return n == 1
	})
	s = hasty()
	s.Patience += 20 * time.Second
	s.Endpoint, s.PathStyle = front.URL, true
	o, err = Open(t.Context(), "s3://photos/x", s)
	require.NoError(t, err)
	require.NoError(t, o.ReadAt(t.Context(), p, 0))
	assert.Equal(t, int64(1), o.Counts().Retries)
}

func TestExpiredS3CredentialsAndAWrongRegionAreNamedInTheError(t *testing.T) {
	s3Server(t)
	for says, answer := range map[string]http.HandlerFunc{
		"400 Bad Request ExpiredToken": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte("<Error><Code>ExpiredToken</Code></Error>"))
		},
		"301 Moved Permanently PermanentRedirect (the bucket is in region eu-west-7, the requests are signed for us-east-1)": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-7")
			w.WriteHeader(http.StatusMovedPermanently)
			w.Write([]byte("<Error><Code>PermanentRedirect</Code></Error>"))
		},
	} {
		s := hasty()
		s.Endpoint, s.PathStyle = answering(t, answer), true
		_, err := Open(t.Context(), "s3://photos/x", s)
		assert.Equal(t, fault.KindDenied, kindOf(t, err))
		assert.ErrorContains(t, err, says)
	}
}
