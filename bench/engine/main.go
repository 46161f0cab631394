// Command engine measures what the engine costs: its rate against a bare loop of the same C calls on as many threads,
// in turns, over the same photographs, crops and flips. It also prints the costs of the first batch, of a ready batch
// and of an image.
//
//	go run ./bench/engine [-threads 2] [-backend mmap] [-delay 20ms] IMAGES
//
// IMAGES is an image folder. It is packed into a temporary directory first.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/threads"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

var (
	decoders = flag.Int("threads", threads.Default(), "decode threads")
	batch    = flag.Int64("batch", 128, "samples a batch")
	rounds   = flag.Int("rounds", 5, "rounds of bare loop and engine in turns")
	images   = flag.Int64("images", 6000, "images a round")
	backend  = flag.String("backend", "auto", "auto, mmap or pread")
	delay    = flag.Duration("delay", 0, "every read waits so long (the engine's only)")
	listed   = flag.Bool("listed", false, "read the folder in place instead of packing it")
	sleep    = flag.Duration("sleep", 0, "the consumer works so long on each batch")
)

func main() {
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run(source string) error {
	d, done, err := open(source)
	if err != nil {
		return err
	}
	defer done()
	samples, err := order.New(order.Config{Samples: d.Len(), Shuffle: true, BatchSize: *batch, DropLast: d.Len() >= *batch})
	if err != nil {
		return err
	}
	loop, err := newBare(d, samples)
	if err != nil {
		return err
	}
	e, err := newEngine(d, samples)
	if err != nil {
		return err
	}
	defer e.loader.Close()
	fmt.Printf("%d photographs, %d threads, batch %d, %s\n", d.Len(), *decoders, *batch, native.Versions())
	fmt.Printf("first batch after Open: %v\n", e.first.Round(time.Millisecond))
	var wall, cpu []float64
	for range *rounds {
		bare, err := loop.rate(*images)
		if err != nil {
			return err
		}
		engine, err := e.rate(*images)
		if err != nil {
			return err
		}
		wall = append(wall, engine.images/bare.images)
		cpu = append(cpu, bare.cpu.Seconds()/engine.cpu.Seconds())
		fmt.Printf("bare %7.0f images/s %8v of CPU each   engine %7.0f images/s %8v   ratio %.3f, by CPU time %.3f\n",
			bare.images, bare.cpu, engine.images, engine.cpu, wall[len(wall)-1], cpu[len(cpu)-1])
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	fmt.Printf("ratio, median of %d: %.3f, by CPU time %.3f\n", len(wall), wall[len(wall)/2], cpu[len(cpu)/2])
	return e.costs()
}

// rate is what one round reached. CPU time is that of all threads; on a machine that others use too, it is the steadier
// of the two.
type rate struct {
	images float64       // images a second
	cpu    time.Duration // CPU time of an image
}

// measure times a function that delivers n images. made counts the images that were decoded, to which the CPU time
// belongs: an engine works ahead of what it has delivered.
func measure(n int64, made func() int64, work func() error) (rate, error) {
	from, before, begin := made(), cpuTime(), time.Now()
	if err := work(); err != nil {
		return rate{}, err
	}
	elapsed, cpu := time.Since(begin), cpuTime()-before
	return rate{float64(n) / elapsed.Seconds(), cpu / time.Duration(max(1, made()-from))}, nil
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails only for a bad address
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// open packs the folder, or opens it in place.
func open(source string) (*catalog.Dataset, func(), error) {
	if *listed {
		d, err := catalog.Open(source, catalog.Options{AllowEmpty: true})
		if err != nil {
			return nil, nil, err
		}
		return d, d.Release, nil
	}
	directory, err := os.MkdirTemp("", "headrace-bench-")
	if err != nil {
		return nil, nil, err
	}
	packed := filepath.Join(directory, "packed")
	_, err = pack.Pack(context.Background(), pack.PackConfig{Source: source, Destination: packed}, pack.NewTracker())
	if err == nil {
		var d *catalog.Dataset
		if d, err = catalog.Open(packed, catalog.Options{}); err == nil {
			return d, func() { d.Release(); os.RemoveAll(directory) }, nil
		}
	}
	os.RemoveAll(directory)
	return nil, nil, err
}

func storage() mmap.Options {
	return mmap.Options{ReadDelay: *delay, Backend: map[string]mmap.Backend{
		"auto": mmap.Pread, "mmap": mmap.Mapped, "pread": mmap.Pread}[*backend]}
}

// plan is the usual training transform: random resized crop to 224, flip, normalise, float32.
func plan() (*native.Plan, error) {
	return native.NewPlan([]native.Op{
		native.RandomResizedCrop{Height: 224, Width: 224, Filter: native.Bilinear, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{3.0 / 4, 4.0 / 3}},
		native.HorizontalFlip{Probability: 0.5},
	}, native.Output{DType: native.Float32, Layout: native.NCHW, Normalize: true,
		Mean: [3]float32{0.485, 0.456, 0.406}, Std: [3]float32{0.229, 0.224, 0.225}})
}

// allocated returns the total of all allocations on the Go heap so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
