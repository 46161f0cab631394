package scan_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/scan"
)

func init() { scan.AlsoIndex = index }

// index makes an index of a container, for which every image is decoded, and opens it.
func index(t testing.TB, file string, o scan.Options) {
	out := filepath.Join(filepath.Dir(file), "index.hr")
	require.NoError(t, os.RemoveAll(out))
	c := pack.IndexConfig{Source: file, Out: out, Options: pack.Options{Threads: 1}}
	c.Format, c.Image = o.Format, o.Image
	_, err := pack.Index(context.Background(), c, nil)
	if err != nil {
		require.NotContains(t, []fault.Kind{fault.KindInternal, fault.KindMemory}, fault.KindOf(err), err)
		require.Contains(t, err.Error(), filepath.Base(file))
		return
	}
	d, err := catalog.Open(out, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	scan.ReadAll(t, d)
}
