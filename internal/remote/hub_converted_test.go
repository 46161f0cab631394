package remote

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestTheErrorOfARevisionThatADatasetOfTheHubDoesNotHaveSaysWhichItMayHave(t *testing.T) {
	newHub(t)
	unknown := `the dataset has no revision "v2" (expected a branch, a tag, a commit, or refs/convert/parquet for what the hub converted to Parquet)`
	unconverted := "the hub has not converted this dataset to Parquet, so it has no revision refs/convert/parquet; its own files are below hf://datasets/org/pets/"
	for url, says := range map[string]string{
		"hf://datasets/org/pets@v2/data/b.tar":                       unknown,
		"hf://datasets/org/pets@refs/convert/parquet/default/train/": unconverted,
		"hf://datasets/org/pets@refs%2Fconvert%2Fparquet/0000.tar":   unconverted,
		"hf://datasets/org/pets@~parquet/default/train/0000.parquet": unconverted,
		"hf://datasets/org/dogs/data/b.tar":                          "there is no such dataset or revision: the server answered 404 Not Found RepoNotFound",
		"hf://datasets/org/dogs@refs/convert/parquet/default/train/": "there is no such dataset or revision: the server answered 404 Not Found RepoNotFound",
	} {
		_, err := Open(t.Context(), url, hasty())
		assert.ErrorIs(t, err, os.ErrNotExist, url)
		assert.ErrorIs(t, err, ErrNoBucket, url)
		assert.ErrorContains(t, err, says, url)
		_, err = List(t.Context(), url, hasty())
		assert.ErrorContains(t, err, says, url)
	}
}

func TestTheErrorOfAFileThatTheHubDoesNotHaveSaysInWhichRevision(t *testing.T) {
	newHub(t).converted = []string{"default/train/0000.parquet"}
	says := `(in the revision "main"; what the hub converted to Parquet is in @refs/convert/parquet)`
	_, err := Open(t.Context(), "hf://datasets/org/pets/default/train/0000.parquet", hasty())
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, says)
	_, err = List(t.Context(), "hf://datasets/org/pets/default/train/", hasty())
	assert.ErrorContains(t, err, says)
	_, err = Open(t.Context(), "hf://datasets/org/pets@refs/convert/parquet/none.parquet", hasty())
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.NotContains(t, err.Error(), "what the hub converted")
}

func TestTheErrorOfADatasetWhoseTermsAreNotAcceptedSaysWhereTheyAre(t *testing.T) {
	newHub(t)
	_, err := Open(t.Context(), "hf://datasets/org/gated/data/b.tar", hasty())
	assert.Equal(t, fault.KindDenied, kindOf(t, err))
	assert.ErrorContains(t, err, "403 Forbidden GatedRepo (its terms are accepted on the dataset's page, by the account that HF_TOKEN is of)")
	assert.NotContains(t, err.Error(), "does not exist")
}

func TestFoldersThatTheHubConvertedAreFoundOfADatasetsOwnAddress(t *testing.T) {
	h := newHub(t)
	converted := func(url string) []string { return Converted(t.Context(), url, hasty()) }
	require.Empty(t, converted("hf://datasets/org/pets/"))
	h.converted = []string{"README.md", "plain/train/0001.parquet", "plain/train/0000.parquet", "plain/partial-test/0000.parquet",
		"../../../../other/pets/0000.parquet", "/0000.parquet"}
	branch := "hf://datasets/org/pets@refs/convert/parquet/plain/"
	want := []string{branch + "partial-test/", branch + "train/"}
	for _, url := range []string{"hf://datasets/org/pets", "hf://datasets/org/pets/data/x", "hf://datasets/org/pets@refs/pr/1/"} {
		assert.Equal(t, want, converted(url), url)
	}
	for _, url := range []string{"hf://datasets/org/pets@~parquet/", "hf://datasets/org/dogs/", "hf://datasets/org", "s3://bucket/x", "no address"} {
		assert.Empty(t, converted(url), url)
	}
}
