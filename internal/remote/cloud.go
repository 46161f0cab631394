//go:build !headrace_nocloud

package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azure "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/headrace/headrace/internal/fault"
)

// bucketStore is a store that is reached through the Go CDK's blob package. Stores distinguish an object's versions by
// different values: S3 and Azure by the ETag, Google by the generation.
// It does all for Google and Azure. For S3 it does lists, uploads and removals; s3.go reads.
type bucketStore struct {
	client *client
	// open makes a bucket. With writing, the library retries the bucket's uploads.
	open func(ctx context.Context, name string, writing bool) (*blob.Bucket, error)
	// clear removes the parts of a failed upload if the library leaves them; nil if it leaves none.
	clear func(ctx context.Context, a address, err error) error
	// renew makes the store look for credentials again if its own may expire; nil if the library does that.
	renew   func()
	opening sync.Mutex
	buckets map[string]*blob.Bucket
}

// newCloudStore returns the store of a scheme, or nil if the scheme is not known.
// Credentials are looked for only when a bucket is opened.
func newCloudStore(c *client, scheme string) store {
	switch scheme {
	case "s3":
		return newS3Store(c)
	case "gs":
		return &bucketStore{client: c, open: (&googleStore{client: c}).bucket}
	case "az":
		return &bucketStore{client: c, open: (&azureStore{client: c}).bucket}
	}
	return nil
}

// bucket returns the bucket of an address. It refuses keys that the library would change.
// A bucket for reading and one for writing differ in who retries, so both are kept.
func (s *bucketStore) bucket(ctx context.Context, a address, writing bool) (*blob.Bucket, error) {
	if err := spelled(a); err != nil {
		return nil, err
	}
	name := a.host
	s.opening.Lock()
	defer s.opening.Unlock()
	key := name
	if writing {
		key += " writing"
	}
	// One bucket serves all objects, because each new one would look for credentials again.
	if b := s.buckets[key]; b != nil {
		return b, nil
	}
	b, err := s.open(ctx, name, writing)
	if err != nil {
		return nil, cloudFailure(ctx, err)
	}
	if s.buckets == nil {
		s.buckets = make(map[string]*blob.Bucket)
	}
	s.buckets[key] = b
	return b, nil
}

// spelled refuses a key that the library would change, as "x../y" to "x..__0x2f__y" (escapeKey of s3blob, gcsblob and
// azureblob). Otherwise we would not find what other programs wrote, and they would not find what we write. Reading
// S3's objects does not use the library.
// It is an error, because otherwise a dataset would silently lack the object.
func spelled(a address) error {
	expected := ""
	switch {
	case strings.Contains(a.path, "../"):
		expected = "no .. before a slash"
	case strings.Contains(a.path, "__0x"):
		expected = "no __0x"
	case a.scheme == "az" && strings.ContainsAny(a.path, `\"#%?`):
		expected = `none of \ " # % ?`
	default:
		return nil
	}
	return &failure{kind: fault.KindArgument, text: "the store's library spells this key in another way (expected " + expected + " in it)"}
}

// guard turns a panic into an error. The libraries assume that a server sends some values, such as Azure's
// x-ms-creation-time, and a faulty server must not end a training.
// The panic's text is not repeated, because it may hold what the server said.
func guard(err *error) {
	if recover() != nil {
		*err = &failure{kind: fault.KindBadFile, text: "the server's answer is none that the store's library understands"}
	}
}

// failure finds the failure behind an error of the library. If the credentials have expired, the next attempt uses new
// ones. If several requests fail at once, each comes here, but renew acts at most once in a second.
func (s *bucketStore) failure(ctx context.Context, err error) error {
	found := cloudFailure(ctx, err)
	if f := (*failure)(nil); errors.As(found, &f) && f.ended && s.renew != nil {
		s.renew()
		s.opening.Lock()
		clear(s.buckets)
		s.opening.Unlock()
	}
	return found
}

// head asks for an object's attributes. Google's generation distinguishes versions as an ETag does elsewhere.
func (s *bucketStore) head(ctx context.Context, a address) (size int64, version string, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, false)
	if err != nil {
		return 0, "", err
	}
	found, err := b.Attributes(ctx, a.path)
	if err != nil {
		return 0, "", s.failure(ctx, err)
	}
	version = quoted(found.ETag)
	var google storage.ObjectAttrs
	if found.As(&google) {
		version = strconv.FormatInt(google.Generation, 10)
	}
	return found.Size, version, nil
}

// read writes nothing into p after it has returned, because all reads of fill have ended by then.
func (s *bucketStore) read(ctx context.Context, a address, version string, size int64, p []byte, offset int64) (n int, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, false)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reader, err := b.NewRangeReader(ctx, a.path, offset, int64(len(p)), &blob.ReaderOptions{BeforeRead: pinned(version)})
	if err != nil {
		return 0, s.failure(ctx, err)
	}
	defer reader.Close()
	// A store that ignores conditions sends another version without an error.
	// reader.Size is the size of the whole object; each answer to a range states it as well.
	if reader.Size() != size {
		return 0, changedSize(size, reader.Size())
	}
	if found := versionOf(reader); found != "" && version != "" && found != version {
		return 0, changedVersion(version, found)
	}
	// The library's own reader would wait forever for a server that sends nothing.
	if n, err = fill(reader, p, s.client.stall(), stop); err != nil {
		return n, s.failure(ctx, err)
	}
	return n, nil
}

// versionOf returns the version that an answer states, or an empty text if it states none: a server may not know
// conditions.
// An empty version is not compared, because the condition was sent with the request.
func versionOf(reader *blob.Reader) string {
	var google *storage.Reader
	if reader.As(&google) {
		if google.Attrs.Generation == 0 {
			return ""
		}
		return strconv.FormatInt(google.Attrs.Generation, 10)
	}
	var az azure.DownloadStreamResponse
	if reader.As(&az) && az.ETag != nil {
		return quoted(string(*az.ETag))
	}
	return ""
}

// pinned asks for one version; for any other one the answer is 412.
// It does not handle S3, whose objects are read without the library.
func pinned(version string) func(func(any) bool) error {
	return func(as func(any) bool) error {
		var (
			google *(*storage.ObjectHandle)
			az     *azure.DownloadStreamOptions
		)
		switch {
		case version == "":
		case as(&google):
			generation, err := strconv.ParseInt(version, 10, 64)
			if err != nil {
				return &failure{kind: fault.KindBadFile, text: "its version is no generation of Google's"}
			}
			*google = (*google).If(storage.Conditions{GenerationMatch: generation})
		case as(&az):
			match := azcore.ETag(version)
			az.AccessConditions = &azure.AccessConditions{ModifiedAccessConditions: &azure.ModifiedAccessConditions{IfMatch: &match}}
		}
		return nil
	}
}

// pageEntries is the largest number of objects on a page of a list. It is also S3's and Google's own limit.
const pageEntries = 1000

// list passes each entry on at once, so that a list of a million objects is not in memory twice.
func (s *bucketStore) list(ctx context.Context, a address, token string, found func(Entry) error) (next string, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, false)
	if err != nil {
		return "", err
	}
	// The library has its own token for the first page, which is not the empty one.
	at := []byte(token)
	if token == "" {
		at = blob.FirstPageToken
	}
	page, following, err := b.ListPage(ctx, at, pageEntries, &blob.ListOptions{Prefix: a.path})
	if err != nil {
		return "", s.failure(ctx, err)
	}
	for _, one := range page {
		// A folder is no object. Without a delimiter stores list none.
		if one.IsDir {
			continue
		}
		if err := found(entryOf(a, one)); err != nil {
			return "", err
		}
	}
	return string(following), nil
}

// entryOf makes an entry of a listed object, with the value by which its store distinguishes versions.
// The library changes some keys. The store's own answer, behind it, has the unchanged key.
func entryOf(a address, one *blob.ListObject) Entry {
	e, key := Entry{Size: one.Size}, one.Key // the library takes some parts of a key for escapes
	var (
		amazon types.Object
		google storage.ObjectAttrs
		az     container.BlobItem
	)
	switch {
	case one.As(&amazon) && amazon.ETag != nil && amazon.Key != nil:
		e.Version, key = quoted(*amazon.ETag), *amazon.Key
	case one.As(&google):
		e.Version, key = strconv.FormatInt(google.Generation, 10), google.Name
	case one.As(&az) && az.Properties != nil && az.Properties.ETag != nil && az.Name != nil:
		e.Version, key = quoted(string(*az.Properties.ETag)), *az.Name
	}
	e.URL = a.scheme + "://" + a.host + "/" + key
	return e
}

// cloudFailure finds the failure behind an error of a store's library. Of its text only the code is repeated, because
// the text may quote a request.
// The order matters: our own failures and the end of the caller's context come first, then errors with a status, then
// the library's own code.
func cloudFailure(ctx context.Context, err error) error {
	var (
		known  *failure
		amazon interface{ HTTPStatusCode() int }
		named  interface{ ErrorCode() string }
		google *googleapi.Error
		az     *azcore.ResponseError
	)
	switch {
	// Our own failure comes first. The end of the caller's context can look like an error of the store, but is none.
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &google):
		var word code
		// If an object is missing in a bucket that exists, the message is another one.
		if strings.Contains(google.Body, "bucket does not exist") { // answers in JSON have no code for it
			word = "NoSuchBucket"
		}
		return ofStatus(google.Code, word, retryAfter(google.Header.Get("Retry-After")))
	case errors.As(err, &az):
		var headers http.Header
		if az.RawResponse != nil {
			headers = az.RawResponse.Header
		}
		return ofStatus(az.StatusCode, code(az.ErrorCode), retryAfter(headers.Get("Retry-After")))
	case errors.As(err, &amazon) && amazon.HTTPStatusCode() >= 300:
		var word code
		if errors.As(err, &named) {
			word = code(named.ErrorCode())
		}
		return ofStatus(amazon.HTTPStatusCode(), word, 0)
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return ofStatus(http.StatusNotFound, "", 0)
	case gcerrors.PermissionDenied:
		return ofStatus(http.StatusForbidden, "", 0)
	case gcerrors.InvalidArgument:
		return &failure{kind: fault.KindArgument, text: "the store's library refuses this name"}
	}
	return fmt.Errorf("the store's library: %w", err) // classify then judges what the connection reported
}
