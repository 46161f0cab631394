package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/fault"
	"github.com/stretchr/testify/require"
)

func TestListedFolderGivesPathsKeysAndLabelsInTorchvisionsOrder(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"b/2.JPG", "b/10.png", "a/x.y.jpeg", "a/s-t/0.jpg", "a/s/0.jpg", "a/note.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	d, err := Open(root, Options{})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, []string{"a", "b"}, d.Classes())
	var paths, keys []string
	var labels []int64
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		path, err := d.Path(i)
		require.NoError(t, err)
		key, err := d.Key(i)
		require.NoError(t, err)
		rel, _ := filepath.Rel(root, path)
		paths, keys, labels = append(paths, rel), append(keys, key), append(labels, s.Label)
	}
	require.Equal(t, []string{"a/x.y.jpeg", "a/s/0.jpg", "a/s-t/0.jpg", "b/10.png", "b/2.JPG"}, paths)
	require.Equal(t, []string{"a/x.y", "a/s/0", "a/s-t/0", "b/10", "b/2"}, keys)
	require.Equal(t, []int64{0, 0, 0, 1, 1}, labels)
}

func TestKeysAndClassesOfListedFilesAreTextAndAllDifferent(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"c/\xfe.jpg", "c/\xff.jpg", "c/%FF.jpg", "d%FF/x.jpg", "d\xff/x.jpg"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	d, err := Open(root, Options{})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, []string{"c", "d%25FF", "d%FF"}, d.Classes())
	listed, err := FromFiles([]string{"/x/\xfe.jpg", "/x/\xff.jpg", "/x/%FF.jpg"}, nil, nil)
	require.NoError(t, err)
	defer listed.Release()
	for dataset, want := range map[*Dataset][]string{
		d:      {"c/%25FF", "c/%FE", "c/%FF", "d%25FF/x", "d%FF/x"},
		listed: {"/x/%FE", "/x/%FF", "/x/%25FF"},
	} {
		for i, key := range want {
			found, err := dataset.Key(int64(i))
			require.NoError(t, err)
			require.Equal(t, key, found)
		}
	}
	path, err := d.Path(1)
	require.NoError(t, err)
	require.Equal(t, root+"/c/\xfe.jpg", path)
}

func TestSampleOutsideTheDatasetIsAnErrorThatNamesIt(t *testing.T) {
	d, err := FromFiles([]string{"x.jpg"}, []int64{7}, nil)
	require.NoError(t, err)
	for _, i := range []int64{-1, 1, 1 << 62} {
		_, err := d.Sample(i)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.KindArgument, e.Kind)
		require.Equal(t, i, e.Record)
	}
}
