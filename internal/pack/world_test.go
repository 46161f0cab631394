package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// checkNoLeaks fails the test if it leaves descriptors or goroutines behind.
func checkNoLeaks(t *testing.T) {
	descriptors := func() int {
		list, _ := os.ReadDir("/proc/self/fd")
		return len(list)
	}
	goroutines, before := runtime.NumGoroutine(), descriptors()
	t.Cleanup(func() {
		for range 100 {
			if runtime.NumGoroutine() <= goroutines && descriptors() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d goroutines and %d descriptors are left of %d and %d", runtime.NumGoroutine(), descriptors(), goroutines, before)
	})
}

func testJPEG(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	img := image.NewRGBA(image.Rect(0, 0, 20+r.IntN(60), 20+r.IntN(60)))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32() >> 28 << 4)
	}
	var b bytes.Buffer
	jpeg.Encode(&b, img, &jpeg.Options{Quality: 80})
	return b.Bytes()
}

func testPNG() []byte {
	img := image.NewGray(image.Rect(0, 0, 5, 3))
	img.Set(1, 1, color.White)
	var b bytes.Buffer
	png.Encode(&b, img)
	return b.Bytes()
}

func put(t testing.TB, root, name string, data []byte) {
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// testFolder has three classes with n good images and four other files, of which testFaults are faulty.
func testFolder(t testing.TB, n int) string {
	root := t.TempDir()
	for i := range n {
		put(t, root, fmt.Sprintf("class %d/sub/img.%03d.JPEG", i%3, i), testJPEG(uint64(i)))
	}
	whole := testJPEG(99)
	put(t, root, "class 1/x-png.JPEG", testPNG())
	put(t, root, "class 1/y-cut.jpg", whole[:len(whole)/2])
	put(t, root, "class 1/z-empty.jpg", nil)
	put(t, root, "class 2/text.png", []byte("this is no image"))
	return root
}

const testFaults = 3 // the faulty files of testFolder; the PNG named .JPEG is good

// digest is one hash over names and contents of a directory.
func digest(t testing.TB, dir string) string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	h := sha256.New()
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		fmt.Fprintf(h, "%s %d ", e.Name(), len(data))
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func packed(t testing.TB, c PackConfig) (string, Summary) {
	if c.Destination == "" {
		c.Destination = filepath.Join(t.TempDir(), "out.hr")
	}
	s, err := Pack(context.Background(), c, NewTracker())
	require.NoError(t, err)
	return c.Destination, s
}

func open(t testing.TB, path string) *catalog.Dataset {
	d, err := catalog.Open(path, catalog.Options{})
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func kindOf(err error) fault.Kind {
	e, ok := err.(*catalog.Error)
	if !ok {
		return 255
	}
	return e.Kind
}
