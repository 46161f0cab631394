package scan

import (
	"archive/zip"
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestAnImageFolderInsideAZipIsTheOneInsideATar(t *testing.T) {
	d, other := open(t, "testdata/folders.zip", Options{}), open(t, "testdata/folders.tar", Options{})
	require.Equal(t, "zip", d.Source().Format)
	require.Equal(t, other.Classes(), d.Classes())
	require.Equal(t, keys(t, other), keys(t, d))
	require.Equal(t, labels(t, other), labels(t, d))
	require.Equal(t, contents(t, other), contents(t, d))
}

func zipped(t *testing.T, method uint16, names ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		require.NoError(t, err)
		_, err = f.Write([]byte(name))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestAFlatZipIsUnlabelledAndWarnedOf(t *testing.T) {
	d := open(t, put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, "2.jpg", "1.jpg", "x/3.jpg")})+"/a.zip", Options{})
	require.Equal(t, []string{"1", "2", "x/3"}, keys(t, d))
	require.Equal(t, []int64{-1, -1, -1}, labels(t, d))
	require.Len(t, d.Warnings(), 1)
}

func TestCompressedAndEncryptedMembersAreUnsupportedByName(t *testing.T) {
	data := zipped(t, zip.Deflate, "a/1.jpg")
	_, err := Open(put(t, map[string][]byte{"a.zip": data})+"/a.zip", Options{})
	require.ErrorContains(t, err, `the member "a/1.jpg" is compressed by method 8`)
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))

	data = zipped(t, zip.Store, "a/1.jpg")
	data[bytes.Index(data, []byte("PK\x01\x02"))+8] |= 1
	_, err = Open(put(t, map[string][]byte{"a.zip": data})+"/a.zip", Options{})
	require.ErrorContains(t, err, `the member "a/1.jpg" is encrypted`)
}
