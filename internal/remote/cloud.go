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

// bucketStore is a store through the Go CDK's blob package. What tells an object's versions apart is not
// the same everywhere: S3 and Azure have the ETag, Google the generation.
// It serves Google and Azure wholly. Of S3 it does lists, uploads and removals; s3.go reads.
type bucketStore struct {
	client *client
	// open makes a bucket; writing asks for one whose uploads are tried again by the library.
	open func(ctx context.Context, name string, writing bool) (*blob.Bucket, error)
	// clear removes the parts of a failed upload, where the library leaves them; nil where none are left.
	clear func(ctx context.Context, a address, err error) error
	// renew has credentials looked for anew, where those of the store may end; nil where the library does that.
	renew   func()
	opening sync.Mutex
	buckets map[string]*blob.Bucket
}

// newCloudStore is the store of a scheme, nil of one that is not known.
// Credentials are not looked for before a bucket is.
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

// bucket is that of an address, whose key the library leaves as it is.
// A bucket for reading and one for writing differ in who tries again, so both are kept.
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
	// One for all objects: each would look for credentials anew.
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

// spelled refuses a key of which the library makes another one, such as "x..__0x2f__y" of "x../y" (escapeKey of
// s3blob, gcsblob and azureblob): what other programs wrote would not be found, nor they what is written here. S3's
// objects are read without the library.
// It is an error, because otherwise a dataset would lack the object in silence.
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

// guard makes an error of a panic: the libraries take some of what a server says for granted, such as
// Azure's x-ms-creation-time, and a wrong server must not end a training.
// The text of the panic is not repeated: it may hold what the server said.
func guard(err *error) {
	if recover() != nil {
		*err = &failure{kind: fault.KindBadFile, text: "the server's answer is none that the store's library understands"}
	}
}

// failure is the failure behind an error of the library. Where the credentials have ended, the next try has others.
// Of requests that fail at once each comes here; renew does it once in a second.
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

// head asks for an object's attributes. A generation of Google's tells versions apart as an ETag does elsewhere.
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

// read writes nothing more into p once it has returned, for the reads of fill have ended then.
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
	// A store that knows no condition sends another version as readily.
	// The size is that of the whole object, which each answer to a range says as well.
	if reader.Size() != size {
		return 0, changedSize(size, reader.Size())
	}
	if found := versionOf(reader); found != "" && version != "" && found != version {
		return 0, changedVersion(version, found)
	}
	// The library's own reader waits without an end for a server that is silent.
	if n, err = fill(reader, p, s.client.stall(), stop); err != nil {
		return n, s.failure(ctx, err)
	}
	return n, nil
}

// versionOf is the version that an answer says it is of, empty where it says none: a server may not know what a
// condition is.
// An empty one is not compared, for the condition was sent with the request.
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

// pinned asks for one version: an answer of another is 412.
// It knows nothing of S3, whose objects are read without the library.
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

// pageEntries is how many objects a page of a list has at most: S3's and Google's own bound.
const pageEntries = 1000

// list hands each entry on as it comes, so that a list of a million is not held twice.
func (s *bucketStore) list(ctx context.Context, a address, token string, found func(Entry) error) (next string, err error) {
	defer guard(&err)
	b, err := s.bucket(ctx, a, false)
	if err != nil {
		return "", err
	}
	// The library's own word for the first page is not an empty one.
	at := []byte(token)
	if token == "" {
		at = blob.FirstPageToken
	}
	page, following, err := b.ListPage(ctx, at, pageEntries, &blob.ListOptions{Prefix: a.path})
	if err != nil {
		return "", s.failure(ctx, err)
	}
	for _, one := range page {
		// No object; without a delimiter stores list none.
		if one.IsDir {
			continue
		}
		if err := found(entryOf(a, one)); err != nil {
			return "", err
		}
	}
	return string(following), nil
}

// entryOf is an object of a list with the version that its store tells it by.
// The library gives keys in its own spelling; the store's own answer behind it has the key as it is.
func entryOf(a address, one *blob.ListObject) Entry {
	e, key := Entry{Size: one.Size}, one.Key // in which the library takes some spellings for escapes
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

// cloudFailure is the failure behind an error of a store's library. Of its text nothing is repeated but
// the code: it may quote a request.
// The order matters: our own failures and the caller's end first, then what says a status, then the library's word.
func cloudFailure(ctx context.Context, err error) error {
	var (
		known  *failure
		amazon interface{ HTTPStatusCode() int }
		named  interface{ ErrorCode() string }
		google *googleapi.Error
		az     *azcore.ResponseError
	)
	switch {
	// The caller's context ended. That can look like an error of the store, and is not one.
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &google):
		var word code
		// Of an object that is missing in a bucket the message is another.
		if strings.Contains(google.Body, "bucket does not exist") { // JSON's answers have no code for it
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
	return fmt.Errorf("the store's library: %w", err) // classified by what the connection said
}
