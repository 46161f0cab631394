//go:build !headrace_nocloud

package remote

import (
	"context"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"

	"github.com/headrace/headrace/internal/fault"
)

// googleStore opens buckets of Google Cloud Storage with the application's default credentials.
type googleStore struct{ client *client }

func (g *googleStore) bucket(ctx context.Context, name string, writing bool) (*blob.Bucket, error) {
	s := g.client.storage
	client := gcp.NewAnonymousHTTPClient(g.client.web)
	if !s.Anonymous {
		found, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, &failure{kind: fault.KindDenied, text: `no credentials of Google were found (GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the machine's; storage={"anonymous": True} does without)`}
		}
		if client, err = gcp.NewHTTPClient(g.client.web, gcp.CredentialsTokenSource(found)); err != nil {
			return nil, &failure{kind: fault.KindDenied, text: "Google's credentials cannot be used"}
		}
	}
	client.CheckRedirect = stay // it would send the token along
	var options gcsblob.Options
	if s.Endpoint != "" {
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(s.Endpoint+"/storage/v1/"))
	}
	b, err := gcsblob.OpenBucket(ctx, client, name, &options)
	if err != nil {
		return nil, err
	}
	var library *storage.Client
	if !writing && b.As(&library) {
		library.SetRetry(storage.WithPolicy(storage.RetryNever)) // try does
	}
	return b, nil
}
