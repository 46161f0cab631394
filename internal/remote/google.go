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
// A bucket needs no request to be opened; credentials are looked for at the first one.
type googleStore struct{ client *client }

func (g *googleStore) bucket(ctx context.Context, name string, writing bool) (*blob.Bucket, error) {
	s := g.client.storage
	// Without credentials nothing is signed: public buckets answer.
	client := gcp.NewAnonymousHTTPClient(g.client.web)
	if !s.Anonymous {
		client = &gcp.HTTPClient{Client: http.Client{Transport: newGoogleTokens(g.client)}}
	}
	client.CheckRedirect = stay // it would send the token along
	var options gcsblob.Options
	if s.Endpoint != "" {
		// The path of the JSON API, which the library adds to its own endpoint alone.
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(s.Endpoint+"/storage/v1/"))
	}
	b, err := gcsblob.OpenBucket(ctx, client, name, &options)
	if err != nil {
		return nil, err
	}
	var library *storage.Client
	// The parts of an upload are the library's to try again, since they are nobody else's to see.
	if !writing && b.As(&library) {
		library.SetRetry(storage.WithPolicy(storage.RetryNever)) // try does
	}
	return b, nil
}
