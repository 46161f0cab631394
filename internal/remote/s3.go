//go:build !headrace_nocloud

package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/headrace/headrace/internal/fault"
)

// s3Store reads objects of S3 and of other servers with its protocol. Credentials, region and the address of an object
// come from the SDK, by its usual chain, and so does the signature. The request itself is made as to any web server.
// The SDK's own request costs several times as much CPU, and a shuffled epoch consists of small requests. Lists and
// uploads go through the Go CDK (cloud.go).
// The embedded bucketStore lists and writes; s3Store has its own head and read.
type s3Store struct {
	*bucketStore
	client *client
	web    webStore
	signer *v4.Signer

	loading sync.Mutex // held while the chain is asked
	config  *aws.Config
	since   time.Time // when config was loaded
	bases   sync.Map  // from each bucket to the address before the key
}

// payload stands in a signature in the place of the body's hash if the body is not signed.
const payload = "UNSIGNED-PAYLOAD"

// newS3Store does not look for credentials yet, because that may take seconds on a machine without a role.
func newS3Store(c *client) store {
	s := &s3Store{client: c, signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })}
	s.web = webStore{transport: c.web, stall: c.stall(), request: s.request, sign: s.sign, refused: s.refused, follow: stay}
	s.bucketStore = &bucketStore{client: c, open: s.bucket, clear: s.clear, renew: s.renew}
	return s
}

func (s *s3Store) head(ctx context.Context, a address) (int64, string, error) {
	// head and read are those of webStore, with a signature. A HEAD would be one request as well, and would not show
	// whether the server knows ranges.
	return s.web.head(ctx, a)
}

func (s *s3Store) read(ctx context.Context, a address, version string, size int64, p []byte, offset int64) (int, error) {
	return s.web.read(ctx, a, version, size, p, offset)
}

// loaded returns the SDK's configuration. It does not ask for checksums of answers: other stores refuse that, a part of
// an object has none, and records have their own. Uploads send a checksum, unless the SDK is told otherwise.
func (s *s3Store) loaded(ctx context.Context) (aws.Config, error) {
	// The first of many requests asks the chain, under the lock; the others wait for its answer.
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.config != nil {
		return *s.config, nil
	}
	options := []func(*config.LoadOptions) error{
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
		// A signature needs a region. Servers other than AWS's accept any, and AWS's answer says which one is right.
		config.WithDefaultRegion("us-east-1"),
		config.WithLogger(logging.Nop{}), // problems are reported in errors; a library must not write to stderr
	}
	storage := s.client.storage
	if storage.Region != "" {
		options = append(options, config.WithRegion(storage.Region))
	}
	if storage.Anonymous {
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		if ctx.Err() != nil {
			return aws.Config{}, ctx.Err()
		}
		return aws.Config{}, &failure{kind: fault.KindDenied, text: "the configuration of AWS (its environment and files) cannot be read"}
	}
	s.config, s.since = &loaded, time.Now()
	return loaded, nil
}

// renew makes the store ask the chain again, because its credentials have expired: a role gives credentials for some
// hours, and a program may set new ones in the environment. If several requests failed together, the first one does it.
func (s *s3Store) renew() {
	s.loading.Lock()
	defer s.loading.Unlock()
	// Otherwise a hundred requests that fail at once would ask the chain a hundred times.
	if s.config == nil || time.Since(s.since) < time.Second {
		return
	}
	followEnvironment()
	s.config = nil
}

// sdk makes the SDK's client. The SDK retries only what try cannot: the parts of an upload.
func (s *s3Store) sdk(ctx context.Context, writing bool) (*s3.Client, error) {
	loaded, err := s.loaded(ctx)
	if err != nil {
		return nil, err
	}
	storage := s.client.storage
	return s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = storage.PathStyle
		if storage.Endpoint != "" {
			o.BaseEndpoint = aws.String(storage.Endpoint)
		}
		o.Retryer = aws.NopRetryer{}
		if writing {
			o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
				r.MaxAttempts, r.MaxBackoff = mostAttempts, storage.patience()/longestPart
			})
		}
		o.HTTPClient = &http.Client{Transport: s.client.web, CheckRedirect: stay}
	}), nil
}

// bucket opens the Go CDK's bucket, for lists and uploads.
// The checksum of uploads follows AWS's own setting (AWS_REQUEST_CHECKSUM_CALCULATION), because other stores refuse
// what they do not know.
func (s *s3Store) bucket(ctx context.Context, name string, writing bool) (*blob.Bucket, error) {
	sdk, err := s.sdk(ctx, writing)
	if err != nil {
		return nil, err
	}
	loaded, err := s.loaded(ctx)
	if err != nil {
		return nil, err
	}
	return s3blob.OpenBucket(ctx, sdk, name, &s3blob.Options{RequestChecksumCalculation: loaded.RequestChecksumCalculation})
}

// clear removes the parts of an upload that has failed. The library does so with the upload's own context. If somebody
// ended the upload, that context has ended too, so clear does it again.
// Only an upload of several parts has an ID; an upload by a single request leaves nothing.
func (s *s3Store) clear(ctx context.Context, a address, err error) error {
	var failed transfermanager.MultipartUploadError
	if !errors.As(err, &failed) || failed.UploadID() == "" {
		return nil
	}
	sdk, err := s.sdk(ctx, true)
	if err != nil {
		return err
	}
	return abortUpload(ctx, sdk, a.host, a.path, failed.UploadID())
}

// abortUpload aborts an upload. The answer 404 (NoSuchUpload) is no error: the upload was completed or aborted before.
func abortUpload(ctx context.Context, sdk *s3.Client, bucket, key, id string) error {
	_, err := sdk.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: aws.String(bucket), Key: aws.String(key), UploadId: aws.String(id),
	})
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotFound { // the upload is gone already
		return nil
	}
	return err
}

// drop aborts incomplete uploads below an address, if ours is true for the rest of their key.
// Each upload is aborted by itself, because S3 has no request for several.
func (s *s3Store) drop(ctx context.Context, a address, ours func(rest string) bool) error {
	sdk, err := s.sdk(ctx, false)
	if err != nil {
		return err
	}
	pages := s3.NewListMultipartUploadsPaginator(sdk, &s3.ListMultipartUploadsInput{Bucket: aws.String(a.host), Prefix: aws.String(a.path)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return cloudFailure(ctx, err)
		}
		for _, one := range page.Uploads {
			rest, below := strings.CutPrefix(aws.ToString(one.Key), a.path)
			if !below || !ours(rest) {
				continue
			}
			if err := abortUpload(ctx, sdk, a.host, aws.ToString(one.Key), aws.ToString(one.UploadId)); err != nil {
				return cloudFailure(ctx, err)
			}
		}
	}
	return nil
}

// anyKey is the key with which the SDK is asked for a bucket's address.
const anyKey = "k"

// request makes the unsigned request for an object. The SDK's rules say where a bucket is (endpoint, region, path or
// host). They are asked once for each bucket, through an address that the SDK would presign.
func (s *s3Store) request(ctx context.Context, a address) (*http.Request, error) {
	base, known := s.bases.Load(a.host)
	if !known {
		sdk, err := s.sdk(ctx, false)
		if err != nil {
			return nil, err
		}
		presigned, err := s3.NewPresignClient(sdk, func(o *s3.PresignOptions) {
			o.Presigner = unsigned{}
			o.ClientOptions = append(o.ClientOptions, func(o *s3.Options) { o.Credentials = unsigned{} })
		}).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(a.host), Key: aws.String(anyKey)})
		if err != nil {
			return nil, &failure{kind: fault.KindArgument, text: "no address can be made of this bucket's name, endpoint and region"}
		}
		base = bucketAddress.FindString(presigned.URL)
		s.bases.Store(a.host, base)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.(string), nil)
	if err != nil {
		return nil, &failure{kind: fault.KindArgument, text: "no address can be made of this bucket's name and endpoint"}
	}
	// Path has the key unescaped, and RawPath says how it is sent, because Go leaves some characters unescaped that a
	// signature escapes.
	request.URL.Path += a.path
	request.URL.RawPath = request.URL.EscapedPath()
	if escaped := escapeKey(request.URL.Path); escaped != request.URL.Path {
		request.URL.RawPath = escaped
	}
	return request, nil
}

// unsigned replaces credentials and signature if only an address is wanted.
// Neither holds a secret. Only the part of the address before the key is used.
type unsigned struct{}

func (unsigned) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "none", SecretAccessKey: "none"}, nil
}

func (unsigned) PresignHTTP(_ context.Context, _ aws.Credentials, r *http.Request, _, _, _ string, _ time.Time, _ ...func(*v4.SignerOptions)) (string, http.Header, error) {
	return r.URL.String(), nil, nil
}

// bucketAddress matches the address of anyKey up to the key.
var bucketAddress = regexp.MustCompile(`^https?://[^?]*/`)

// escapeKey escapes all characters except those that a signature leaves unchanged (RFC 3986's unreserved ones, and
// slashes). Otherwise "+" and "=" would be signed in one form and sent in another.
// The signer is told not to escape the path again (DisableURIPathEscaping), because S3 signs it as it is sent.
func escapeKey(path string) string {
	const hex = "0123456789ABCDEF"
	escaped := make([]byte, 0, len(path)+16)
	for _, b := range []byte(path) {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '.', b == '_', b == '~', b == '/':
			escaped = append(escaped, b)
		default:
			escaped = append(escaped, '%', hex[b>>4], hex[b&15])
		}
	}
	return string(escaped)
}

// sign signs a request. It is called for each attempt, because a signature is valid for 15 minutes only.
func (s *s3Store) sign(ctx context.Context, request *http.Request) error {
	loaded, err := s.loaded(ctx)
	if err != nil {
		return err
	}
	// Public buckets answer requests without a signature, and refuse those with a wrong one.
	if s.client.storage.Anonymous || loaded.Credentials == nil {
		return nil
	}
	credentials, err := loaded.Credentials.Retrieve(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The SDK's text is not repeated, because it has addresses of the machine's role.
		return &failure{kind: fault.KindDenied, text: `no credentials were found in the environment, in AWS's files and in the machine's role (storage={"anonymous": True} does without)`}
	}
	if aws.IsCredentialsProvider(loaded.Credentials, aws.AnonymousCredentials{}) {
		return nil
	}
	request.Header.Set("X-Amz-Content-Sha256", payload)
	if err := s.signer.SignHTTP(ctx, credentials, request, payload, "s3", loaded.Region, time.Now()); err != nil {
		return &failure{kind: fault.KindDenied, text: "the request could not be signed"}
	}
	return nil
}

// errorCode finds the error's code in an answer's XML. The XML is hostile, so it is not parsed.
var errorCode = regexp.MustCompile(`<Code>([A-Za-z0-9.]{1,64})</Code>`)

// refused makes the error of an answer without the bytes that were asked for.
func (s *s3Store) refused(answer *http.Response) error {
	// The body is XML that names the reason in one word.
	// It is read up to a limit and only that word is shown, because an answer may quote the request.
	start, _ := io.ReadAll(io.LimitReader(answer.Body, 8<<10))
	var word code
	if found := errorCode.FindSubmatch(start); found != nil {
		word = code(found[1])
	}
	f := ofStatus(answer.StatusCode, word, retryAfter(answer.Header.Get("Retry-After")))
	s.loading.Lock()
	own := ""
	if s.config != nil {
		own = s.config.Region
		if cache, ok := s.config.Credentials.(*aws.CredentialsCache); ok && f.ended {
			cache.Invalidate()
		}
	}
	s.loading.Unlock()
	if f.ended {
		s.renew()
	}
	// For a wrong region S3 answers 301 or 400, which alone would not say what to change.
	if region := answer.Header.Get("X-Amz-Bucket-Region"); isRegion(region) && own != "" && region != own {
		f.kind, f.again = fault.KindDenied, false
		f.text += " (the bucket is in region " + region + ", the requests are signed for " + own + ")"
	}
	return f
}
