package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/mmap"
)

// wide is a JPEG with several seek points a row.
func wide(t testing.TB, number int) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(number), 9))
	picture := image.NewNRGBA(image.Rect(0, 0, 260+random.IntN(60), 60+random.IntN(30)))
	for y := range picture.Rect.Dy() {
		for x := range picture.Rect.Dx() {
			picture.SetNRGBA(x, y, color.NRGBA{uint8(x + random.IntN(30)), uint8(y*2 + random.IntN(40)), uint8(number * 40), 255})
		}
	}
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, picture, &jpeg.Options{Quality: 70}))
	return b.Bytes()
}

// folder makes an image folder of wide JPEGs in two classes, and fails a test that leaves anything open.
func folder(t testing.TB, images int) string {
	before := usage(t)
	t.Cleanup(func() { requireNoLeaks(t, before) })
	root := t.TempDir()
	for i := range images {
		path := filepath.Join(root, fmt.Sprint("class ", i%2), fmt.Sprintf("%03d.jpg", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, wide(t, i), 0o600))
	}
	return root
}

func packFolder(t testing.TB, source string, noSeek bool) string {
	c := pack.PackConfig{Source: source, Destination: filepath.Join(t.TempDir(), "data.hr")}
	c.NoSeek = noSeek
	_, err := pack.Pack(context.Background(), c, nil)
	require.NoError(t, err)
	return c.Destination
}

// hashOf is the stream of some epochs of a dataset.
func hashOf(t testing.TB, path string, o mmap.Options, epochs int) (string, error) {
	d, err := catalog.Open(path, catalog.Options{})
	if err != nil {
		return "", err
	}
	defer d.Release()
	l := open(t, d, settings{order: order.Config{Seed: 3, Shuffle: true, BatchSize: 3}, Config: Config{Threads: 2, VerifyCRC: true, Store: o}})
	defer l.Close()
	return consume(t, l, epochs).hash, nil
}

func TestTheStreamIsTheSameWithAndWithoutSeekPoints(t *testing.T) {
	source := folder(t, 12)
	want, err := hashOf(t, source, mmap.Options{}, 3)
	require.NoError(t, err)
	with, without := packFolder(t, source, false), packFolder(t, source, true)
	require.FileExists(t, filepath.Join(with, catalog.SeekFileName(0)))
	_, err = pack.Index(context.Background(), pack.IndexConfig{Source: source}, nil)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(source, catalog.SeekFileName(0)))
	// The last one has read-ahead threads.
	for _, o := range []mmap.Options{{}, {Backend: mmap.Pread}, {ReadDelay: 2 * time.Millisecond}} {
		for _, path := range []string{with, without, source} {
			found, err := hashOf(t, path, o, 3)
			require.NoError(t, err)
			require.Equal(t, want, found, "%s, %+v", path, o)
		}
	}
}

func TestAnAlteredByteOfTheSeekFileIsAnErrorAtOpenOrChangesNoPixel(t *testing.T) {
	source := folder(t, 3)
	dir := packFolder(t, source, false)
	want, err := hashOf(t, dir, mmap.Options{}, 2)
	require.NoError(t, err)
	path := filepath.Join(dir, catalog.SeekFileName(0))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := 0
	for at := range whole {
		data := bytes.Clone(whole)
		data[at] ^= 1 << (at % 8)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		found, err := hashOf(t, dir, mmap.Options{Backend: mmap.Backend(1 + at%2)}, 2)
		if err != nil {
			refused++
			continue
		}
		require.Equal(t, want, found, "byte %d of %d", at, len(whole))
	}
	require.Equal(t, catalog.SeekHeadBytes, refused, "only changes of the head are errors at open")
}

func TestASeekFileCutWhileALoaderRunsChangesNoPixel(t *testing.T) {
	source := folder(t, 8)
	dir := packFolder(t, source, false)
	want, err := hashOf(t, dir, mmap.Options{}, 4)
	require.NoError(t, err)
	for _, backend := range []mmap.Backend{mmap.Mapped, mmap.Pread} {
		copied := packFolder(t, source, false)
		d, err := catalog.Open(copied, catalog.Options{})
		require.NoError(t, err)
		l := open(t, d, settings{order: order.Config{Seed: 3, Shuffle: true, BatchSize: 3},
			Config: Config{Threads: 2, VerifyCRC: true, Store: mmap.Options{Backend: backend}}})
		require.NoError(t, os.Truncate(filepath.Join(copied, catalog.SeekFileName(0)), catalog.SeekHeadBytes+5))
		require.Equal(t, want, consume(t, l, 4).hash, backend)
		l.Close()
		d.Release()
	}
}
