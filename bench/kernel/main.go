// Command kernel prints the rate of the bare native call, as a line of JSON.
//
// It is the ceiling that the loader is measured against: threads that do nothing but call Sample (checksum,
// RandomResizedCrop, flip, Normalize). They use files that are already in memory, with the seek points that packing
// would have stored, and write batches that have been touched before. There is no order, no reading and no delivery.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/native"
	"golang.org/x/sys/unix"
)

// batchSize is how many samples of output a thread cycles through, so that they are as far from the caches as a batch.
const batchSize = 128

// At least leastImages are timed, however long they take.
const leastImages = 32

type record struct {
	bytes []byte
	crc   uint32
	seek  native.Seek
}

// options say what is measured.
type options struct {
	threads  int
	duration time.Duration
	seek     bool
	task     string
	dtype    string
	size     int
	minScale float64
}

// result is the line that is printed.
type result struct {
	Images     int64   `json:"images"`
	Seconds    float64 `json:"seconds"`
	Rate       float64 `json:"rate"`
	CPUSeconds float64 `json:"cpu_seconds"`
	DType      string  `json:"dtype"`
	Shape      []int   `json:"shape"`
	SIMD       string  `json:"simd"`
	Libraries  string  `json:"libraries"`
}

func main() {
	log.SetFlags(0)
	var o options
	flag.IntVar(&o.threads, "threads", runtime.NumCPU(), "threads that decode")
	flag.DurationVar(&o.duration, "for", 3*time.Second, "how long to measure, after a warm-up")
	flag.BoolVar(&o.seek, "seek", true, "with seek points")
	flag.StringVar(&o.task, "task", "train", "train or eval: Resize(256) and CenterCrop")
	flag.StringVar(&o.dtype, "dtype", "float32", "float32, float16, or uint8 (not normalised)")
	flag.IntVar(&o.size, "size", 224, "pixels of a side of the result")
	flag.Float64Var(&o.minScale, "min-scale", 0.08, "the least part of the image that a crop takes")
	flag.Parse()
	records, err := read(flag.Arg(0), o.seek)
	if err != nil {
		log.Fatal(err)
	}
	found, err := o.measure(records)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// read loads every good image below the folder.
func read(folder string, seek bool) ([]record, error) {
	context, err := native.NewContext(native.DefaultLimits())
	if err != nil {
		return nil, err
	}
	defer context.Close()
	var records []record
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		r, err := load(context, path, seek)
		if refused := (*native.Error)(nil); errors.As(err, &refused) {
			return nil // not an image, or a bad one
		}
		records = append(records, r)
		return err
	})
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("%q holds no image", folder)
	}
	return records, err
}

func load(context *native.Context, path string, seek bool) (record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	data, err := offHeap(content)
	if err != nil {
		return record{}, err
	}
	facts, points, _, err := context.InspectSeek(first(data), int64(len(data)), native.SeekStep, nil)
	if err != nil {
		return record{}, errors.Join(err, unix.Munmap(data))
	}
	r := record{bytes: data, crc: facts.CRC32C}
	if seek && len(points) > 0 {
		crc := native.CRC32C(0, points)
		if points, err = offHeap(points); err != nil {
			return record{}, err
		}
		r.seek = native.Seek{Data: first(points), Length: int64(len(points)), CRC32C: crc, HasCRC: true}
	}
	return r, nil
}

// offHeap copies bytes to memory outside the Go heap, as cgo demands for memory that C gets pointers to.
func offHeap(content []byte) ([]byte, error) {
	memory, err := allocate(max(len(content), 1))
	return memory[:copy(memory, content)], err
}

func allocate(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func first(memory []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(memory)) }

// plan compiles what a loader would be asked for, and returns how large a sample is.
func (o *options) plan() (*native.Plan, uint64, error) {
	side := int32(o.size)
	var ops []native.Op
	switch o.task {
	case "train":
		crop := native.RandomResizedCrop{Height: side, Width: side, Filter: native.Bilinear,
			Scale: [2]float64{o.minScale, 1}, Ratio: [2]float64{3.0 / 4, 4.0 / 3}}
		ops = []native.Op{crop, native.HorizontalFlip{Probability: 0.5}}
	case "eval":
		resize := native.ResizeShorter{Size: 256, Filter: native.Bilinear}
		ops = []native.Op{resize, native.CenterCrop{Height: side, Width: side}}
	default:
		return nil, 0, fmt.Errorf("-task %q is neither train nor eval", o.task)
	}
	output := native.Output{Layout: native.NCHW}
	switch o.dtype {
	case "float32":
		output.DType = native.Float32
	case "float16":
		output.DType = native.Float16
	case "uint8":
		output.DType = native.Uint8
	default:
		return nil, 0, fmt.Errorf("-dtype %q is none of float32, float16 and uint8", o.dtype)
	}
	if output.DType != native.Uint8 {
		output.Normalize = true
		output.Mean = [3]float32{0.485, 0.456, 0.406}
		output.Std = [3]float32{0.229, 0.224, 0.225}
	}
	plan, err := native.NewPlan(ops, output)
	if err != nil {
		return nil, 0, err
	}
	size, _ := plan.FixedSize()
	return plan, size.Bytes, nil
}

func (o *options) measure(records []record) (*result, error) {
	plan, sampleBytes, err := o.plan()
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	samples := int64(len(records))
	visits, err := order.New(order.Config{Samples: samples, Shuffle: true, BatchSize: 1, WorldSize: 1})
	if err != nil {
		return nil, err
	}
	var next, done atomic.Int64
	var stop atomic.Bool
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range o.threads {
		group.Go(func() {
			runtime.LockOSThread()
			if err := decode(plan, sampleBytes, visits, records, &next, &done, &stop); err != nil {
				failed.Store(&err)
			}
		})
	}
	time.Sleep(o.duration / 3) // caches, page tables, clocks
	before, spent, begun := done.Load(), cpuSeconds(), time.Now()
	time.Sleep(o.duration)
	for done.Load()-before < leastImages && failed.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	count, took, used := done.Load()-before, time.Since(begun).Seconds(), cpuSeconds()-spent
	stop.Store(true)
	group.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	simd, err := native.SIMD()
	return &result{
		Images: count, Seconds: took, Rate: float64(count) / took, CPUSeconds: used,
		DType: o.dtype, Shape: []int{1, 3, o.size, o.size},
		SIMD: simd, Libraries: native.Versions(),
	}, err
}

// cpuSeconds returns the user and system time of this process.
func cpuSeconds() float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func decode(plan *native.Plan, sampleBytes uint64, visits *order.Order, records []record,
	next, done *atomic.Int64, stop *atomic.Bool) error {
	context, err := native.NewContext(native.DefaultLimits())
	if err != nil {
		return err
	}
	defer context.Close()
	batch, err := allocate(batchSize * int(sampleBytes))
	if err != nil {
		return err
	}
	for !stop.Load() {
		position := next.Add(1) - 1
		epoch := position / int64(len(records))
		sample, _ := visits.At(epoch, position%int64(len(records)))
		record := &records[sample]
		key := native.Key{Epoch: uint64(epoch), Sample: uint64(sample)}
		place := batch[uint64(position%batchSize)*sampleBytes:][:sampleBytes]
		_, err := context.Sample(first(record.bytes), int64(len(record.bytes)), record.seek, key,
			&record.crc, native.View{Plan: plan, To: first(place), Capacity: sampleBytes})
		if err != nil {
			return fmt.Errorf("file number %d: %w", sample, err)
		}
		done.Add(1)
	}
	return nil
}
