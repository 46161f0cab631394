// Command kernel prints the rate of the bare native call, in images a second.
//
// It is the ceiling that the loader is measured against: threads that do nothing but call Sample
// (checksum, RandomResizedCrop(224), flip, Normalize, float32 NCHW) on files that are already in
// memory, and write batches that have been touched before. No order, no reading, no delivery.
package main

import (
	"flag"
	"fmt"
	"hash/crc32"
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

const (
	side      = 224
	batchSize = 128 // samples of output a thread cycles through: as far from the caches as a batch
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type record struct {
	bytes []byte
	crc   uint32
}

func main() {
	threads := flag.Int("threads", runtime.NumCPU(), "threads that decode")
	duration := flag.Duration("for", 3*time.Second, "how long to measure, after a warm-up")
	flag.Parse()
	records, err := read(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	rate, err := measure(records, *threads, *duration)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n", rate)
}

func read(folder string) ([]record, error) {
	var records []record
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := offHeap(path)
		records = append(records, record{data, crc32.Checksum(data, castagnoli)})
		return err
	})
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("%s holds no file", folder)
	}
	return records, err
}

// offHeap copies a file to memory outside the Go heap, as cgo wants memory that C is pointed to.
func offHeap(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	memory, err := allocate(len(data))
	copy(memory, data)
	return memory, err
}

func allocate(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func newPlan() (*native.Plan, error) {
	crop := native.Op{Kind: native.OpRandomResizedCrop, Filter: native.Bilinear, I: [8]int32{side, side}}
	crop.P = [12]float64{0.08, 1, 3.0 / 4, 4.0 / 3}
	flip := native.Op{Kind: native.OpHorizontalFlip, P: [12]float64{0.5}}
	return native.NewPlan([]native.Op{crop, flip}, native.Output{
		DType:     native.Float32,
		Layout:    native.NCHW,
		Normalize: true,
		Mean:      [3]float32{0.485, 0.456, 0.406},
		Std:       [3]float32{0.229, 0.224, 0.225},
	})
}

func measure(records []record, threads int, duration time.Duration) (float64, error) {
	plan, err := newPlan()
	if err != nil {
		return 0, err
	}
	defer plan.Close()
	samples := int64(len(records))
	visits, err := order.New(order.Config{Samples: samples, Shuffle: true, BatchSize: 1, WorldSize: 1})
	if err != nil {
		return 0, err
	}
	var next, done atomic.Int64
	var stop atomic.Bool
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			runtime.LockOSThread()
			if err := decode(plan, visits, records, &next, &done, &stop); err != nil {
				failed.Store(&err)
			}
		})
	}
	time.Sleep(duration / 3) // caches, page tables, clocks
	before, begun := done.Load(), time.Now()
	time.Sleep(duration)
	count, took := done.Load()-before, time.Since(begun)
	stop.Store(true)
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(count) / took.Seconds(), nil
}

func decode(plan *native.Plan, visits *order.Order, records []record,
	next, done *atomic.Int64, stop *atomic.Bool) error {
	context, err := native.NewContext(native.DefaultLimits())
	if err != nil {
		return err
	}
	defer context.Close()
	const sampleBytes = side * side * 3 * 4
	batch, err := allocate(batchSize * sampleBytes)
	if err != nil {
		return err
	}
	for !stop.Load() {
		position := next.Add(1) - 1
		epoch := position / int64(len(records))
		sample := visits.At(epoch, position%int64(len(records)))
		record := &records[sample]
		key := native.Key{Epoch: uint64(epoch), Sample: uint64(sample)}
		place := batch[position%batchSize*sampleBytes:][:sampleBytes]
		_, err := context.Sample(plan, unsafe.Pointer(unsafe.SliceData(record.bytes)),
			int64(len(record.bytes)), native.Seek{}, key, &record.crc, unsafe.Pointer(unsafe.SliceData(place)), sampleBytes)
		if err != nil {
			return fmt.Errorf("file number %d: %w", sample, err)
		}
		done.Add(1)
	}
	return nil
}
