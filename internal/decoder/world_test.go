package decoder

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

const (
	side = 32
	size = side * side * 3
)

// compile knows three texts: a crop, the whole image, and one that panics. A colon and more text after it make
// a different text with the same meaning.
func compile(text string, epoch uint64) (*Recipe, error) {
	name, _, _ := strings.Cut(text, ":")
	switch name {
	case "crop":
		plan, err := native.NewPlan([]native.Op{
			native.RandomResizedCrop{Height: side, Width: side, Filter: native.Bilinear, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{0.75, 4.0 / 3}},
			native.HorizontalFlip{Probability: 0.5},
		}, native.Output{DType: native.Uint8, Layout: native.NHWC})
		return &Recipe{Plan: plan, Limits: native.DefaultLimits(), Explain: func(err error) error { return err }}, err
	case "whole":
		plan, err := native.NewPlan(nil, native.Output{DType: native.Uint8, Layout: native.NHWC})
		return &Recipe{Plan: plan, Limits: native.DefaultLimits(), Explain: func(err error) error { return err }}, err
	case "odd":
		panic("odd")
	}
	return nil, fmt.Errorf("no text %q", text)
}

var photographs = sync.OnceValue(func() [][]byte {
	found := make([][]byte, 5)
	for number := range found {
		picture := image.NewNRGBA(image.Rect(0, 0, 40+20*number, 90-10*number))
		for i := range picture.Pix {
			picture.Pix[i] = uint8(i*i/50 + i/7*number)
		}
		picture.Set(0, 0, color.White)
		var b bytes.Buffer
		if err := jpeg.Encode(&b, picture, nil); err != nil {
			panic(err)
		}
		found[number] = b.Bytes()
	}
	return found
})

// memory is memory of the calling program, outside of Go's heap.
func memory(t testing.TB, size int) []byte {
	t.Helper()
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() {
		closeAll(t) // also in a test that failed while its images were being made
		require.NoError(t, unix.Munmap(m))
	})
	return m
}

// decoders holds the decoders of each test. They must be closed before the test's memory is unmapped.
var decoders sync.Map

func closeAll(t testing.TB) {
	decoders.Range(func(d, of any) bool {
		if of == t {
			d.(*Decoder).Close()
			<-d.(*Decoder).gone
		}
		return true
	})
}

func pointer(m []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m)) }

// stored copies encoded bytes into the program's memory.
func stored(t testing.TB, encoded []byte) []byte {
	t.Helper()
	m := memory(t, len(encoded))
	copy(m, encoded)
	return m
}

func inMemory(encoded []byte, key native.Key, into []byte) Task {
	return Task{InMemory: true, Bytes: pointer(encoded), Length: int64(len(encoded)), Descriptor: -1, Config: []byte("crop"),
		Key: key, To: pointer(into), Capacity: int64(len(into))}
}

func inFile(path string, key native.Key, into []byte) Task {
	return Task{Path: []byte(path), Descriptor: -1, Config: []byte("crop"), Key: key, To: pointer(into), Capacity: int64(len(into))}
}

func writeFile(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "photograph.jpg")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// alone returns what a single call of native makes of an image.
func alone(t testing.TB, encoded []byte, key native.Key) []byte {
	t.Helper()
	recipe, err := compile("crop", 0)
	require.NoError(t, err)
	defer recipe.Plan.Close()
	context, err := native.NewContext(recipe.Limits)
	require.NoError(t, err)
	defer context.Close()
	from, into := stored(t, encoded), memory(t, size)
	_, err = context.Sample(pointer(from), int64(len(from)), native.Seek{}, key, nil,
		native.View{Plan: recipe.Plan, To: pointer(into), Capacity: size})
	require.NoError(t, err)
	return bytes.Clone(into)
}

// open makes a Decoder. It is closed at the end of the test at the latest, and may leave nothing open then.
func open(t testing.TB, threads int, delay time.Duration) *Decoder {
	t.Helper()
	before := usage(t)
	d, err := Open(Config{Threads: threads, Compile: compile, Store: mmap.Options{ReadDelay: delay}})
	require.NoError(t, err)
	decoders.Store(d, t)
	t.Cleanup(func() {
		decoders.Delete(d)
		d.Close()
		d.Close()
		<-d.gone // a test may have left a read that hangs
		assert.Empty(t, d.works)
		assert.Empty(t, d.queue)
		assert.Zero(t, d.waiting)
		assert.Empty(t, d.recipes.known)
		// What an earlier test closed may still be counted at the beginning, so fewer than before are right,
		// too.
		for deadline := time.Now().Add(10 * time.Second); usage(t).more(before) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if now := usage(t); now.more(before) {
			assert.Equal(t, before, now, "the test left descriptors, goroutines or buffers")
		}
	})
	return d
}

type counts struct {
	descriptors, goroutines int
	buffers                 int64
}

func (c counts) more(than counts) bool {
	return c.descriptors > than.descriptors || c.goroutines > than.goroutines || c.buffers > than.buffers
}

func usage(t testing.TB) counts {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return counts{len(entries), runtime.NumGoroutine(), mmap.BufferBytes()}
}

// finished waits for a work and returns its results.
func finished(t testing.TB, w *Work) []Result {
	t.Helper()
	failed, err := w.Wait(time.Minute)
	require.NoError(t, err)
	results := make([]Result, len(w.tasks))
	for i := range results {
		results[i], err = w.Result(uint64(i))
		require.NoError(t, err)
		if results[i].Err != nil {
			failed--
		}
	}
	require.Zero(t, failed, "the count of failed tasks is wrong")
	return results
}

func submit(t testing.TB, d *Decoder, list ...Task) *Work {
	t.Helper()
	w, err := d.Submit(list)
	require.NoError(t, err)
	return w
}

func requireClosed(t testing.TB, w *Work) {
	t.Helper()
	_, err := w.Wait(time.Minute)
	require.True(t, errors.Is(err, ErrClosed), "%v", err)
}
