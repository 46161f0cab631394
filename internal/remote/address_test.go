package remote

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestANameInAnIndexCannotLeadOutOfItsPrefix(t *testing.T) {
	for _, c := range [][3]string{
		{"s3://b/train.hr", "shard-0.tar", "s3://b/train.hr/shard-0.tar"},
		{"s3://b/train.hr/", "a b/%2e%2e.tar", "s3://b/train.hr/a b/%2e%2e.tar"},
		{"https://h:1/d/train.hr?sig=1", "a b/ü?.tar", "https://h:1/d/train.hr/a%20b/%C3%BC%3F.tar?sig=1"},
		{"https://h/a%2Fb", "x", "https://h/a%2Fb/x"},
		{"hf://datasets/o/n@main", "x/y", "hf://datasets/o/n@main/x/y"},
	} {
		joined, err := Join(c[0], c[1])
		require.NoError(t, err)
		assert.Equal(t, c[2], joined)
	}
	for _, relative := range []string{"", "/", "/x", "x/", "..", "../x", "a/../../x", "a//b", ".", `a\b`, "a\nb", "\xff", "x/./y", "a/.."} {
		_, err := Join("s3://b/train.hr", relative)
		assert.Equal(t, fault.KindBadFile, fault.KindOf(err), "%q", relative)
	}
	joined, err := Join("https://h/d", "http://169.254.169.254")
	assert.Error(t, err, joined)
}

func TestAnAddressIsRecognisedByItsScheme(t *testing.T) {
	for _, url := range []string{"s3://b/k", "gs://b", "az://c/k", "http://h", "https://h/x", "hf://datasets/o/n/p"} {
		assert.True(t, IsURL(url), url)
		_, err := parse(url)
		assert.NoError(t, err, url)
	}
	for _, url := range []string{"", "/data", "s3:/b", "file:///x", "photos", "C://x", "ftp://h/x"} {
		assert.False(t, IsURL(url), url)
		_, err := parse(url)
		assert.Equal(t, fault.KindArgument, fault.KindOf(err), url)
	}
	for _, url := range []string{"s3:///k", "s3://b%/k", "s3://a@b/k", "https:///x", "hf://models/a/b", "s3://b/\x00"} {
		_, err := parse(url)
		assert.Equal(t, fault.KindArgument, fault.KindOf(err), url)
	}
	assert.Equal(t, "https://h/x", Display("https://name:secret@h/x?sig=secret#secret"))
	assert.Equal(t, "/data/photos?", Display("/data/photos?"))
}

func TestAWrongStorageOptionIsAnErrorThatListsTheKnownOnes(t *testing.T) {
	s, err := ParseStorage([]byte(`{"endpoint": "http://127.0.0.1:9000/", "region": "eu-central-1", "path_style": true, "anonymous": false}`))
	require.NoError(t, err)
	assert.Equal(t, Storage{Endpoint: "http://127.0.0.1:9000", Region: "eu-central-1", PathStyle: true}, s)
	for _, text := range []string{"", "null", "{}"} {
		s, err := ParseStorage([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, Storage{}, s)
	}
	for text, says := range map[string]string{
		`[]`:                            "storage is no object of JSON",
		`{"secret_key": "SECRET"}`:      `storage's option is "secret_key" (expected some of anonymous, endpoint, path_style, region)`,
		`{"endpoint": "SECRET"}`:        `storage["endpoint"] is something else (expected an address such as "https://host:9000"`,
		`{"endpoint": "http://a@h"}`:    `storage["endpoint"]`,
		`{"endpoint": "http://h/?a=b"}`: `storage["endpoint"]`,
		`{"endpoint": "http://h/a"}`:    `storage["endpoint"]`,
		`{"endpoint": "file:///x"}`:     `storage["endpoint"]`,
		`{"region": 1}`:                 `storage["region"]`,
		`{"region": "a/b"}`:             `storage["region"]`,
		`{"path_style": "yes"}`:         `storage["path_style"] is something else (expected true or false)`,
		`{"path_style": null}`:          `storage["path_style"]`,
		`{"anonymous": 1}`:              `storage["anonymous"]`,
	} {
		_, err := ParseStorage([]byte(text))
		require.Equal(t, fault.KindArgument, fault.KindOf(err), text)
		assert.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "SECRET")
	}
}
