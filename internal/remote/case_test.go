package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestTheCaseOfASchemeDoesNotMatter(t *testing.T) {
	for given, normal := range map[string]string{
		"HTTPS://h/X?Sig=1": "https://h/X?Sig=1", "Http://h": "http://h", "S3://Bucket/K": "s3://Bucket/K",
		"HF://datasets/O/n": "hf://datasets/O/n", "aZ://c/n": "az://c/n", "s3://b/k": "s3://b/k",
		"HTTP://h/x#y?Z": "http://h/x", "https://h/x?sig=1#": "https://h/x?sig=1", "s3://b/k#y": "s3://b/k#y",
	} {
		assert.True(t, IsURL(given), given)
		assert.Equal(t, normal, Normal(given))
		_, err := parse(given)
		assert.NoError(t, err, given)
	}
	for _, path := range []string{"ſ3://b/k", "FTP://h/x", "S3:/b", "/data/HTTP", "HTTP:", "S3"} {
		assert.False(t, IsURL(path), path)
		assert.Equal(t, path, Normal(path))
	}
	assert.Equal(t, "http://h/x", Display("HTTP://user:SECRET@h/x?sig=SECRET"))
	for prefix, below := range map[string]string{"S3://b/t.hr": "s3://b/t.hr/x", "HTTP://h/t.hr?sig=1": "http://h/t.hr/x?sig=1"} {
		joined, err := Join(prefix, "x")
		require.NoError(t, err)
		assert.Equal(t, below, joined)
	}
	data := content(100)
	o, err := Open(t.Context(), strings.Replace(serving(t, data).URL, "http", "HTTP", 1)+"/data.bin", hasty())
	require.NoError(t, err)
	assert.Equal(t, int64(100), o.Size())
	assert.True(t, strings.HasPrefix(o.Key(), " http://"), "one object has one key, whatever the case of the scheme")
}

func TestARefusedAddressIsShownWithoutItsSecrets(t *testing.T) {
	for _, url := range []string{"s3://ID:SECRET@bucket/k", "S3://ID:SEC/SECRET@bucket/k", "HTTP://u:SECRET@/x", "HTTP://u:SECRET@h:x/", "hf://SECRET@datasets/o/n"} {
		_, err := parse(url)
		require.Equal(t, fault.KindArgument, fault.KindOf(err), url)
		assert.NotContains(t, err.Error(), "SECRET")
	}
}
