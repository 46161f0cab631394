package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/native"
)

// openWith opens a Loader with a user's list of transforms.
func openWith(t *testing.T, d *catalog.Dataset, list string) (*Loader, error) {
	t.Helper()
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(list), &raw))
	plan, err := transform.Parse(raw, transform.Options{DType: "uint8"})
	require.NoError(t, err)
	samples, err := order.New(order.Config{Samples: d.Len(), BatchSize: 2})
	require.NoError(t, err)
	l, err := Open(Config{Dataset: d, Recipe: OneView(plan), Order: samples, Threads: 1, Limits: native.DefaultLimits(),
		Explain: func(err error) error { return transform.Explain(raw, err) }})
	if err != nil {
		plan.Close()
		return nil, err
	}
	t.Cleanup(func() { l.Close(); <-l.gone })
	return l, nil
}

func TestImagesOfDifferentSizesAreAnErrorThatNamesTheFirstTwoAndARemedy(t *testing.T) {
	indexed := dataset(t, 8, func(i int, row *catalog.Row, data []byte) []byte {
		row.Width, row.Height = 100, 80
		if i >= 5 {
			row.Width = 60
		}
		return data
	})
	for list, sizes := range map[string][2]string{
		`[]`:                               {"80x100", "80x60"},
		`[{"name": "Resize", "size": 40}]`: {"40x50", "53x40"},
		`[{"name": "RandomVerticalFlip"}]`: {"80x100", "80x60"},
	} {
		_, err := openWith(t, indexed, list)
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.KindArgument, e.Kind)
		require.EqualValues(t, 0, e.Record)
		require.ErrorContains(t, err, "record 0 (cat/0): the image comes out of the transforms as "+sizes[0])
		require.ErrorContains(t, err, "record 5 (cat/5) as "+sizes[1])
		require.ErrorContains(t, err, oneSize)
	}
}

func TestTheSizesOfListedFilesAreReadFromTheFiles(t *testing.T) {
	root := t.TempDir()
	var paths []string
	for i := range 3 {
		paths = append(paths, filepath.Join(root, string(rune('a'+i))+".jpg"))
		require.NoError(t, os.WriteFile(paths[i], photograph(t, i), 0o600))
	}
	before := usage(t)
	defer func() { requireNoLeaks(t, before) }()
	d, err := catalog.FromFiles(paths, nil, nil)
	require.NoError(t, err)
	defer d.Release()
	_, err = openWith(t, d, `[]`)
	require.ErrorContains(t, err, "record 0 (")
	require.ErrorContains(t, err, "record 1 (")
	require.ErrorContains(t, err, "one size")
}

func TestImagesOfOneSizeWithoutATransformAreNotCalledDifferent(t *testing.T) {
	d := dataset(t, 3, nil) // the index says 1 x 1 for each
	_, err := openWith(t, d, `[]`)
	require.ErrorContains(t, err, "no transform sets the size")
	require.ErrorContains(t, err, oneSize)
}

func TestEveryTransformInTheHintGivesAllImagesOneSize(t *testing.T) {
	d := dataset(t, 4, nil)
	for _, list := range []string{`[{"name": "Resize", "size": [8, 9]}]`, `[{"name": "CenterCrop", "size": 8}]`,
		`[{"name": "RandomCrop", "size": 8}]`, `[{"name": "RandomResizedCrop", "size": 8}]`} {
		l, err := openWith(t, d, list)
		require.NoError(t, err, list)
		b, err := next(t, l)
		require.NoError(t, err, list)
		require.NoError(t, b.Release())
	}
}

func TestACropLargerThanAnImageNamesTheTransformTheArgumentAndBothSizes(t *testing.T) {
	d := dataset(t, 4, nil)
	l, err := openWith(t, d, `[{"name": "RandomHorizontalFlip"}, {"name": "RandomCrop", "size": [5000, 4000]}]`)
	require.NoError(t, err)
	_, err = next(t, l)
	var found *SampleError
	require.ErrorAs(t, err, &found)
	require.Equal(t, fault.KindArgument, found.Code)
	require.Regexp(t, `record 0 \(cat/0\).*: transform 1 \(RandomCrop\): size is 5000x4000 \(expected at most \d+x\d+, height x width of the image with its padding\); padding or pad_if_needed makes room$`, err.Error())
}
