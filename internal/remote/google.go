//go:build !headrace_nocloud

package remote

import (
	"context"
	"net/http"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"
)

// googleStore opens buckets of Google Cloud Storage with the application's default credentials.
// Opening a bucket needs no request; credentials are looked for at the first request.
type googleStore struct{ client *client }

func (g *googleStore) bucket(ctx context.Context, name string, writing bool) (*blob.Bucket, error) {
	s := g.client.storage
	// Without credentials nothing is signed; public buckets answer such requests.
	client := gcp.NewAnonymousHTTPClient(g.client.web)
	if !s.Anonymous {
		client = &gcp.HTTPClient{Client: http.Client{Transport: newGoogleTokens(g.client)}}
	}
	client.CheckRedirect = stay // a redirect would receive the token
	var options gcsblob.Options
	if s.Endpoint != "" {
		// The library adds the path of the JSON API only to its own endpoint.
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(s.Endpoint+"/storage/v1/"))
	}
	b, err := gcsblob.OpenBucket(ctx, client, name, &options)
	if err != nil {
		return nil, err
	}
	var library *storage.Client
	// The library retries the parts of an upload, because nobody else sees them.
	if !writing && b.As(&library) {
		library.SetRetry(storage.WithPolicy(storage.RetryNever)) // try retries instead
	}
	return b, nil
}
