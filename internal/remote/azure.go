//go:build !headrace_nocloud

package remote

import (
	"context"
	"net/http"
	"net/url"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"

	"github.com/headrace/headrace/internal/fault"
)

// azureStore opens containers of Azure's blobs. Account and credentials come from the environment variables of the Go
// CDK and of Azure's own tools, otherwise from Azure's default chain.
// It is asked once for each container, because bucketStore keeps the client.
type azureStore struct{ client *client }

// bucket makes the container's client with our transport and passes it to the CDK.
func (z *azureStore) bucket(_ context.Context, name string, writing bool) (*blob.Bucket, error) {
	s := z.client.storage
	options := azureblob.NewDefaultServiceURLOptions()
	// The CDK reads the defaults from the environment: AZURE_STORAGE_ACCOUNT, _DOMAIN, _PROTOCOL, _SAS_TOKEN.
	if s.Endpoint != "" {
		u, err := url.Parse(s.Endpoint)
		if err != nil {
			return nil, &failure{kind: fault.KindArgument, text: "the endpoint is no address"}
		}
		// An emulator has the account in the path instead of in the host's name.
		options.StorageDomain, options.Protocol, options.IsLocalEmulator = u.Host, u.Scheme, s.PathStyle
	}
	if s.Anonymous {
		options.SASToken = ""
	}
	service, err := azureblob.NewServiceURL(options)
	if err != nil {
		return nil, &failure{kind: fault.KindArgument, text: "the account is not known (AZURE_STORAGE_ACCOUNT)"}
	}
	c, err := z.container(string(service), name, options, writing)
	if err != nil {
		return nil, err
	}
	return azureblob.OpenBucket(context.Background(), c, nil)
}

// container makes the SDK's client. The SDK retries only what try cannot: the blocks of an upload.
// The client is made here and not by the CDK's opener, because it needs our transport. So credentials are chosen here
// too.
func (z *azureStore) container(service, name string, o *azureblob.ServiceURLOptions, writing bool) (*container.Client, error) {
	var options container.ClientOptions
	// All stores use the same connections and limits, and refuse the same addresses.
	options.Transport = &http.Client{Transport: z.client.web, CheckRedirect: stay}
	// A negative number means no retries; 0 would mean the SDK's default of 3 (azcore/policy, RetryOptions).
	if !writing {
		options.Retry = policy.RetryOptions{MaxRetries: -1}
	}
	// The library's error is not shown, because it may quote a key or a connection string.
	denied := func(err error) error {
		if err == nil {
			return nil
		}
		return &failure{kind: fault.KindDenied, text: "no credentials of Azure can be used (AZURE_STORAGE_KEY, _SAS_TOKEN, _CONNECTION_STRING, or Azure's default chain)"}
	}
	address, err := url.JoinPath(service, name)
	if err != nil {
		return nil, &failure{kind: fault.KindArgument, text: "the container's name makes no address"}
	}
	// The order is that of azureblob itself (newCredInfoFromEnv): a key, a token, a connection string, the chain.
	key, connection := os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_CONNECTION_STRING")
	var c *container.Client
	switch {
	case z.client.storage.Anonymous || (key == "" && o.SASToken != ""):
		c, err = container.NewClientWithNoCredential(address, &options)
	case key != "":
		shared, wrong := container.NewSharedKeyCredential(o.AccountName, key)
		if wrong != nil {
			return nil, denied(wrong)
		}
		c, err = container.NewClientWithSharedKeyCredential(address, shared, &options)
	case connection != "":
		c, err = container.NewClientFromConnectionString(connection, name, &options)
	default:
		chain, wrong := azidentity.NewDefaultAzureCredential(nil)
		if wrong != nil {
			return nil, denied(wrong)
		}
		c, err = container.NewClient(address, chain, &options)
	}
	return c, denied(err)
}
