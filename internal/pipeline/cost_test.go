package pipeline

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// BenchmarkASampleIsCounted measures what statistics cost for each sample: reading clocks and adding up.
func BenchmarkASampleIsCounted(b *testing.B) {
	var w worker
	for b.Loop() {
		countOne(&w)
	}
}

// countOne counts a sample as a worker does, without the work itself.
func countOne(w *worker) {
	began := time.Now()
	w.read(110_000, time.Since(began))
	began = time.Now()
	w.images.Add(1)
	w.points.Add(1)
	w.decode.Add(int64(time.Since(began)))
}

// BenchmarkStatisticsBesideAnImage measures the cost of statistics relative to the decoding of an image of 500 x 375.
// It runs pairs of short rounds, with statistics and without, which take turns to be first, and reports the median
// ratio of their CPU times with its 95 % confidence interval. Statistics cannot be switched off in a loader, so one
// side has them in addition.
func BenchmarkStatisticsBesideAnImage(b *testing.B) {
	const images, pairs = 20, 200
	picture := image.NewNRGBA(image.Rect(0, 0, 500, 375))
	for y := range 375 {
		for x := range 500 {
			picture.SetNRGBA(x, y, color.NRGBA{uint8(x * y / 90), uint8(x*3 + y*7), uint8(x ^ y), 255})
		}
	}
	var encoded bytes.Buffer
	require.NoError(b, jpeg.Encode(&encoded, picture, &jpeg.Options{Quality: 85}))
	const side = 224
	// C gets memory from outside Go's heap, as in a loader.
	var from, into mmap.Buffer
	defer from.Free()
	defer into.Free()
	data, err := from.Reserve(int64(encoded.Len()))
	require.NoError(b, err)
	copy(data, encoded.Bytes())
	plan, err := native.NewPlan([]native.Op{
		native.RandomResizedCrop{Height: side, Width: side, Filter: native.Bilinear, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{0.75, 4.0 / 3}},
		native.HorizontalFlip{Probability: 0.5},
	}, native.Output{DType: native.Float32, Layout: native.NCHW})
	require.NoError(b, err)
	defer plan.Close()
	context, err := native.NewContext(native.DefaultLimits())
	require.NoError(b, err)
	defer context.Close()
	to, err := into.Reserve(4 * 3 * side * side)
	require.NoError(b, err)
	view := native.View{Plan: plan, To: unsafe.Pointer(&to[0]), Capacity: uint64(len(to))}
	var w worker
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	round := func(counted bool) float64 {
		began := cpuOfThread(b)
		for i := range uint64(images) {
			_, err := context.Sample(unsafe.Pointer(&data[0]), int64(len(data)), native.Seek{}, native.Key{Sample: i}, nil, view)
			require.NoError(b, err)
			if counted {
				countOne(&w)
			}
		}
		return cpuOfThread(b) - began
	}
	round(true)
	for b.Loop() {
		var ratios []float64
		for n := range pairs {
			var with, without float64
			if n%2 == 0 {
				with, without = round(true), round(false)
			} else {
				without, with = round(false), round(true)
			}
			ratios = append(ratios, with/without)
		}
		slices.Sort(ratios)
		outside := int(float64(pairs)/2 - 0.98*math.Sqrt(pairs))
		b.ReportMetric(100*(ratios[pairs/2]-1), "%")
		b.ReportMetric(100*(ratios[outside]-1), "%-least")
		b.ReportMetric(100*(ratios[pairs-1-outside]-1), "%-most")
	}
}

// cpuOfThread is the thread's CPU time in seconds.
func cpuOfThread(b *testing.B) float64 {
	var at unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at))
	return float64(at.Nano()) / 1e9
}
