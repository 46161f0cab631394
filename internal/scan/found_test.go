package scan

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// These tests are about files and folders that are something else than the dataset that they seem to be.

// hubCache is a repository in huggingface_hub's cache, where only the names of links say which split a file is.
func hubCache(t *testing.T, commits ...string) string {
	dir := put(t, map[string][]byte{"blobs/0a": fixture(t, "photos.parquet"), "blobs/1b": fixture(t, "photos.parquet"), "blobs/2c": []byte("# readme\n"), "refs/main": []byte(commits[0])})
	for _, commit := range commits {
		data := filepath.Join(dir, "snapshots", commit, "data")
		require.NoError(t, os.MkdirAll(data, 0o755))
		require.NoError(t, os.Symlink("../../../blobs/0a", filepath.Join(data, "train-00000-of-00001.parquet")))
		require.NoError(t, os.Symlink("../../../blobs/1b", filepath.Join(data, "test-00000-of-00001.parquet")))
		require.NoError(t, os.Symlink("../../blobs/2c", filepath.Join(dir, "snapshots", commit, "README.md")))
	}
	return dir
}

func TestARepositoryInTheHubsCacheIsReadAtItsMainRevision(t *testing.T) {
	for _, commits := range [][]string{{"aa"}, {"bb", "aa"}} {
		dir := hubCache(t, commits...)
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, `there are several splits: ["test" "train"]`)
		d := open(t, dir, Options{Split: "train"})
		require.Equal(t, int64(7), d.Len())
		require.Contains(t, d.Root(), "snapshots/"+commits[0])
	}
	dir := hubCache(t, "aa", "bb")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "refs/main"), []byte("cc"), 0o600))
	_, err := Open(dir, Options{Split: "train"})
	require.ErrorContains(t, err, `the main state is "cc", which is not there (found ["aa" "bb"])`)
	require.NoError(t, os.Remove(filepath.Join(dir, "refs/main")))
	_, err = Open(dir, Options{Split: "train"})
	require.ErrorContains(t, err, `there are several states of the repository, none of them the main one: ["aa" "bb"]; open the folder of one`)
	one := hubCache(t, "aa")
	require.NoError(t, os.WriteFile(filepath.Join(one, "refs/main"), []byte("cc"), 0o600))
	_, err = Open(one, Options{Split: "train"})
	require.ErrorContains(t, err, `the main state is "cc", which is not there (found ["aa"])`)
	require.NoError(t, os.Remove(filepath.Join(one, "refs/main")))
	require.Equal(t, int64(7), open(t, one, Options{Split: "train"}).Len())
}

func TestArchivesInAnArchiveAreRefusedWithARemedy(t *testing.T) {
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	_, err := w.Create("train.zip")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, data := range map[string][]byte{"a.tar": tarOf(t, "n01440764.zip", "n01443537.zip"), "b.zip": zipped.Bytes(),
		"c.tar": tarOf(t, "n01440764.tar.gz", "n01443537.tar.gz")} {
		_, err := Open(filepath.Join(put(t, map[string][]byte{name: data}), name), Options{})
		require.ErrorContains(t, err, "which are read only as class folders: uncompressed tars of images in a tar, opened without image=, label= and format=\"webdataset\"; extract each into a folder of its own name", name)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

func TestAnArchiveIsRecognisedByItsLastExtensionInAnyCase(t *testing.T) {
	for _, name := range []string{"a.tar", "a.TAR", "a.Tgz", "a.tar.gz", "a.TAR.GZ", "x.y/a.1.zip", "tar", "tgz", "zip", "tar.gz", "1.tar.gz", ".tar"} {
		require.True(t, isArchive(name), name)
	}
	for _, name := range []string{"", ".", "a", "a.", "gz", "a.gz", ".gz", "atar.gz", "a.tar.jpg", "atar", "a.txt", "a.tax", "a.zi", "a.zip/b", "dir.tar/gz"} {
		require.False(t, isArchive(name), name)
	}
}

func TestAnArchiveInATarNeedsANameBeforeItsExtension(t *testing.T) {
	for _, name := range []string{".tar", "a/.tar", "..tar"} {
		data := archive("b.tar", string(archive("1.jpg", "x")), name, string(archive("1.jpg", "x")))
		_, err := Open(put(t, map[string][]byte{"a.tar": data})+"/a.tar", Options{Format: "tar"})
		require.ErrorContains(t, err, "its members are archives (\""+name+"\")", name)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

func TestAGitLFSPointerIsRefusedWithARemedy(t *testing.T) {
	dir := put(t, map[string][]byte{"train.parquet": []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")})
	for _, source := range []string{dir, filepath.Join(dir, "train.parquet")} {
		_, err := Open(source, Options{})
		require.ErrorContains(t, err, "this is a pointer of Git LFS, and not the file itself; git lfs pull fetches that")
	}
}
