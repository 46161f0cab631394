package pack

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

func TestWriterKeepsImagesLabelsAndTypedFieldsInOrder(t *testing.T) {
	checkNoLeaks(t)
	dst := filepath.Join(t.TempDir(), "w.hr")
	w, err := NewWriter(WriterConfig{Destination: dst, ShardBytes: minShardBytes})
	require.NoError(t, err)
	for i := range int64(50) {
		require.NoError(t, w.Add(testJPEG(uint64(i)), Added{Label: &i, Fields: map[string]any{
			"caption": fmt.Sprint("nº ", i), "age": i, "score": float64(i) / 4, "raw": []byte{byte(i)},
			"box": catalog.Array{DType: "float32", Shape: []int64{i % 3, 4}, Data: make([]byte, i%3*16)},
		}}))
	}
	s, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, 50, s.Rows)
	d := open(t, dst)
	require.Len(t, d.Fields(), 5)
	for i := range int64(50) {
		sample, err := d.Sample(i)
		require.NoError(t, err)
		require.Equal(t, i, sample.Label)
		require.EqualValues(t, len(testJPEG(uint64(i))), sample.Length)
		caption, err := d.FieldValue(i, "caption")
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("nº ", i), caption)
		box, err := d.FieldValue(i, "box")
		require.NoError(t, err)
		require.Equal(t, []int64{i % 3, 4}, box.(catalog.Array).Shape)
	}
	require.True(t, verify(t, VerifyConfig{Source: dst, Decode: true}).OK)
	require.ErrorContains(t, w.Add(nil, Added{}), "closed")
}

func TestWriterRefusesWhatDoesNotFitAndGoesOn(t *testing.T) {
	checkNoLeaks(t)
	dst := filepath.Join(t.TempDir(), "w.hr")
	w, err := NewWriter(WriterConfig{Destination: dst, Classes: []string{"a", "b"}})
	require.NoError(t, err)
	jpg := testJPEG(1)
	require.NoError(t, w.AddJSON(jpg, []byte(`{"label": "b", "key": "x", "n": 3, "f": 1.5, "raw": {"bytes": "AAE="}}`)))
	for text, want := range map[string]string{
		`{"label": 2, "key": "y", "n": 3, "f": 1, "raw": {"bytes": ""}}`:               "there are 2 classes",
		`{"label": "c", "key": "y", "n": 3, "f": 1, "raw": {"bytes": ""}}`:             "none of the 2 classes",
		`{"label": 1, "key": "x", "n": 3, "f": 1, "raw": {"bytes": ""}}`:               "key",
		`{"label": 1, "key": "y", "n": "3", "f": 1, "raw": {"bytes": ""}}`:             `field "n" is of type int`,
		`{"label": 1, "key": "y", "f": 1, "raw": {"bytes": ""}}`:                       `field "n" is missing`,
		`{"label": 1, "key": "y", "n": 3, "f": 1, "raw": {"bytes": ""}, "more": true}`: "more",
		`{"label": 1, "key": "y", "n": 3, "f": 1, "raw": {"bytes": ""}, "more": 1}`:    `no field "more"`,
		`[]`: "no JSON object",
	} {
		err := w.AddJSON(jpg, []byte(text))
		require.ErrorContains(t, err, want, text)
	}
	nan := fmt.Sprintf(`{"label": null, "n": 4, "f": {"float": "nan"}, "raw": %q}`, base64.StdEncoding.EncodeToString([]byte("z")))
	require.NoError(t, w.AddJSON(jpg, []byte(nan)))
	s, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Rows)
	d := open(t, dst)
	last, err := d.Sample(1)
	require.NoError(t, err)
	require.EqualValues(t, catalog.NoLabel, last.Label)
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
}

func TestWriterRefusesNegativeLabelsAndNamesThatEverySampleHas(t *testing.T) {
	checkNoLeaks(t)
	dst := filepath.Join(t.TempDir(), "w.hr")
	w, err := NewWriter(WriterConfig{Destination: dst})
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"label": -5}`:  "label is -5 (expected 0 or more, or none)",
		`{"label": -1}`:  "label is -1",
		`{"image": 1}`:   `"image" is no name for a field`,
		`{"index": "a"}`: `"index" is no name for a field`,
		`{"path": 1.5}`:  `"path" is no name for a field`,
	} {
		require.ErrorContains(t, w.AddJSON(testJPEG(1), []byte(text)), want, text)
	}
	require.NoError(t, w.AddJSON(testJPEG(1), []byte(`{"label": null}`)))
	s, err := w.Finish()
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Rows)
	for _, name := range []string{"image", "label", "key", "index", "path"} {
		_, err := NewWriter(WriterConfig{Destination: dst, Fields: []catalog.Field{{Name: name, Type: catalog.Int}}})
		require.ErrorContains(t, err, "no name for a field", name)
	}
}

func TestUnfinishedAndEmptyWritersLeaveNothing(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	for n := range 4 {
		w, err := NewWriter(WriterConfig{Destination: filepath.Join(dir, "w.hr")})
		require.NoError(t, err)
		for range 40 * n {
			require.NoError(t, w.Add(testJPEG(1), Added{}))
		}
		if n == 0 {
			_, err := w.Finish()
			require.Equal(t, fault.KindEmpty, kindOf(err))
		}
		w.Abort()
		w.Abort()
		requireNothing(t, dir)
	}
}

func TestAFaultInAWriterThatRaisesEndsItAndLeavesNothing(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	w, err := NewWriter(WriterConfig{Destination: filepath.Join(dir, "w.hr"), OnFault: RaiseFaults})
	require.NoError(t, err)
	require.NoError(t, w.Add([]byte("no image"), Added{Key: "culprit"}))
	_, err = w.Finish()
	require.ErrorContains(t, err, "culprit")
	requireNothing(t, dir)
	_, err = Verify(context.Background(), VerifyConfig{Source: filepath.Join(dir, "w.hr")}, nil)
	require.Error(t, err)
}

func TestAClassNameThatNoReaderAcceptsIsRefused(t *testing.T) {
	checkNoLeaks(t)
	dst, long := filepath.Join(t.TempDir(), "w.hr"), strings.Repeat("x", 4097)
	_, err := NewWriter(WriterConfig{Destination: dst, Classes: []string{"a", long}})
	require.EqualError(t, err, "classes[1] has 4097 bytes (expected at most 4096)")
	root := tableFolder(t)
	put(t, root, "list.csv", []byte("path,label\nimg/a.jpg,a\nimg/b.jpg,"+long+"\n"))
	_, err = Pack(context.Background(), PackConfig{Source: filepath.Join(root, "list.csv"), Destination: dst}, nil)
	require.ErrorContains(t, err, "record 1 at byte 23: bad: the label")
	requireNothing(t, filepath.Dir(dst))
}

func TestAManifestThatNoReaderAcceptsIsNotWritten(t *testing.T) {
	checkNoLeaks(t)
	dst := filepath.Join(t.TempDir(), "w.hr")
	classes := make([]string, 30_000) // over the limit of 100 MiB, each name within its own
	for i := range classes {
		classes[i] = strings.Repeat("x", 4000)
	}
	w, err := NewWriter(WriterConfig{Destination: dst, Classes: classes})
	require.NoError(t, err)
	require.NoError(t, w.AddJSON(testJPEG(1), []byte(`{"label": 0}`)))
	_, err = w.Finish()
	require.ErrorContains(t, err, "the manifest: it has 12")
	requireNothing(t, filepath.Dir(dst))
}
