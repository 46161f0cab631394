package scan

import (
	"archive/tar"
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

// tarOf is an archive of members with one byte each.
func tarOf(t *testing.T, names ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 1}))
		_, err := w.Write([]byte("1"))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestASourceInDoubtCanBeInspectedAndNotOpened(t *testing.T) {
	many := []string{"0.jpg"}
	for i := range 30 {
		many = append(many, fmt.Sprintf("0.x%02d", i))
	}
	dir := put(t, map[string][]byte{"two.tar": tarOf(t, "0.jpg", "0.png", "0.cls", "1.jpg", "1.cls"), "none.tar": tarOf(t, "0.txt"), "many.tar": tarOf(t, many...),
		"labels.tar": tarOf(t, "0.jpg", "0.cls", "0.class")})
	for _, c := range []struct {
		name, doubt string
		Options
		columns []catalog.SourceColumn
	}{
		{name: "two.tar", doubt: "jpg and png may both be the image; image= says which (the sample has cls, jpg, png)", columns: []catalog.SourceColumn{
			{Name: "jpg", Type: "bytes", Samples: 2, Use: "image"}, {Name: "png", Type: "bytes", Samples: 1, Use: "image?"}, {Name: "cls", Type: "bytes", Samples: 2, Use: "label"}}},
		{name: "none.tar", doubt: `no column is known as the image (found "txt"); image= names it`, columns: []catalog.SourceColumn{{Name: "txt", Type: "str", Samples: 1, Use: "field"}}},
		{name: "none.tar", doubt: `no sample has a column "photo" (found "txt")`, Options: Options{Image: "photo"}},
		{name: "labels.tar", doubt: "cls and class may both be the label; label= says which (the sample has class, cls, jpg)", columns: []catalog.SourceColumn{
			{Name: "jpg", Type: "bytes", Samples: 1, Use: "image"}, {Name: "cls", Type: "bytes", Samples: 1, Use: "label?"}, {Name: "class", Type: "bytes", Samples: 1, Use: "label?"}}},
		{name: "many.tar", doubt: `no sample has a column "photo" (found "jpg", `, Options: Options{Fields: []string{"photo"}}},
	} {
		_, err := Open(dir+"/"+c.name, c.Options)
		require.ErrorContains(t, err, c.doubt)
		c.Inspect = true
		d := open(t, dir+"/"+c.name, c.Options)
		require.Contains(t, fmt.Sprint(d.Warnings()), c.doubt)
		if c.name == "labels.tar" {
			require.NotContains(t, fmt.Sprint(d.Warnings()), "no column is known as the label", "several may be it")
		}
		source := d.Source()
		if c.columns != nil {
			require.Equal(t, c.columns, source.Columns)
		}
		if c.name == "many.tar" {
			require.Len(t, source.Columns, 31, "not all columns are listed")
			require.Equal(t, "x29", source.Sample[30])
		}
	}
}

func TestTheInspectionOfAnUnambiguousContainerShowsWhatItOpensAs(t *testing.T) {
	for _, file := range []string{"webdataset.tar", "slim.tfrecord", "photos.parquet", "mds", "plain.lmdb", "jpeg.beton", "labels.rec"} {
		d, looked := open(t, "testdata/"+file, Options{}), open(t, "testdata/"+file, Options{Inspect: true})
		require.Equal(t, d.Source().Image, looked.Source().Image)
		require.Equal(t, d.Len(), looked.Len())
		require.Equal(t, d.Warnings(), looked.Warnings())
		require.Equal(t, d.Fingerprint(), looked.Fingerprint())
	}
}
