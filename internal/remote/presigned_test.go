//go:build !headrace_nocloud

package remote

import (
	"context"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
)

// presigned is an address of an object of S3 with the signature in its query, by the SDK.
func presigned(t testing.TB, o *Object) string {
	t.Helper()
	sdk, err := o.store.(*s3Store).sdk(t.Context(), false)
	require.NoError(t, err)
	signed, err := s3.NewPresignClient(sdk).PresignGetObject(t.Context(),
		&s3.GetObjectInput{Bucket: aws.String(o.address.host), Key: aws.String(o.address.path)})
	require.NoError(t, err)
	return signed.URL
}

// readBySDK reads with AWS's SDK, to compare its cost with ours.
func readBySDK(ctx context.Context, o *Object, p []byte, offset int64) error {
	b, err := o.store.(*s3Store).bucketStore.bucket(ctx, o.address, false)
	if err != nil {
		return err
	}
	reader, err := b.NewRangeReader(ctx, o.address.path, offset, int64(len(p)), nil)
	if err != nil {
		return err
	}
	defer reader.Close()
	_, err = io.ReadFull(reader, p)
	return err
}
