// Command learning prints how long the bare native call takes for files without seek points while these are learned
// (docs/learned-index.md), epoch by epoch.
//
//	go run ./bench/kernel/learning [-copies 9] [-epochs 4] DIR
//
// Each image of the folder is made three times, in an order that changes from image to image and with the same draws,
// each time by a thread with its own context: without points, learning them, and with those of an inspection. The ops
// are RandomResizedCrop to 224, flip, float32. CPU time of the thread is counted, because other programs change it
// little. Each copy of an image counts as another image: it is cropped and learned by itself.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/native"
)

// The three ways, in the order of the columns.
const (
	without = iota
	learning
	byPoints
	ways
)

// orders contains each way equally often after each other one, because what was made last is still in the caches.
var orders = [...][ways]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}}

type subject struct {
	data    []byte
	crc     uint32
	whole   []byte // the points of an inspection
	learned []byte
}

func main() {
	log.SetFlags(0)
	copies := flag.Int("copies", 9, "how often each image is in an epoch")
	epochs := flag.Int("epochs", 4, "how many epochs")
	flag.Parse()
	runtime.LockOSThread()
	list, err := read(flag.Arg(0), *copies)
	if err == nil {
		err = measure(list, *epochs)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// read loads the files that can have points.
func read(folder string, copies int) (list []subject, err error) {
	context, err := native.NewContext(native.DefaultLimits())
	if err != nil {
		return nil, err
	}
	defer context.Close()
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		s := subject{data: held(content), crc: native.CRC32C(0, content)}
		if _, points, _, err := context.InspectSeek(first(s.data), int64(len(s.data)), native.SeekStep, nil); err == nil && len(points) > 0 {
			s.whole = held(points)
			list = append(list, s)
		}
		return nil
	})
	one := list
	for range copies - 1 {
		list = append(list, one...)
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%q holds no baseline JPEG", folder)
	}
	return list, err
}

func measure(list []subject, epochs int) error {
	plan, err := native.NewPlan([]native.Op{
		native.RandomResizedCrop{Height: 224, Width: 224, Filter: native.Bilinear, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{0.75, 4.0 / 3}},
		native.HorizontalFlip{Probability: 0.5},
	}, native.Output{DType: native.Float32, Layout: native.NCHW})
	if err != nil {
		return err
	}
	var contexts [ways]*native.Context
	for way := range contexts {
		if contexts[way], err = native.NewContext(native.DefaultLimits()); err != nil {
			return err
		}
	}
	size, _ := plan.FixedSize()
	to := make([][]byte, 128) // as far from the caches as a batch
	for i := range to {
		to[i] = held(make([]byte, size.Bytes))
	}
	fmt.Println("epoch  without  learning  by points         learned  in part")
	for epoch := range epochs {
		var spent [ways]time.Duration
		for n := range list {
			s := &list[n]
			for _, way := range orders[n%len(orders)] {
				begin := threadTime()
				view := native.View{Plan: plan, To: first(to[n%len(to)]), Capacity: size.Bytes}
				key := native.Key{Epoch: uint64(epoch), Sample: uint64(n)}
				if _, err := contexts[way].Sample(first(s.data), int64(len(s.data)), s.seek(way), key, nil, view); err != nil {
					return err
				}
				var points []byte
				ok := false
				if way == learning {
					points, _, ok = contexts[way].Learned() // with a checksum of the image
				}
				spent[way] += threadTime() - begin
				if ok {
					s.learned = held(points)
				}
			}
		}
		whole, part := 0, 0
		for i := range list {
			if list[i].learned == nil {
				continue
			}
			// A file counts as learned without the last twelfth of its rows (native/jpeg/learn.c).
			if rows := rowsOf(list[i].whole); rowsOf(list[i].learned) >= rows-rows/12 {
				whole++
			} else {
				part++
			}
		}
		each := func(way int) float64 { return float64(spent[way].Nanoseconds()) / 1e3 / float64(len(list)) }
		fmt.Printf("%5d  %7.1f  %8.1f  %9.1f  %6d of %6d  %7d\n", epoch+1, each(without), each(learning), each(byPoints), whole, len(list), part)
	}
	return nil
}

// rowsOf returns for how many rows of MCUs a record has points (docs/format.md).
func rowsOf(points []byte) int { return int(binary.LittleEndian.Uint16(points[10:])) }

// seek returns what a way of making an image knows of the image.
func (s *subject) seek(way int) native.Seek {
	points := s.whole
	if way == learning {
		points = s.learned
	}
	if way == without || points == nil {
		return native.Seek{Learn: way == learning}
	}
	return native.Seek{Data: first(points), Length: int64(len(points)), Image: s.crc, HasImage: true, Learn: way == learning}
}

// held copies bytes to memory that C may get, and that lives until the process ends.
func held(b []byte) []byte {
	memory, err := unix.Mmap(-1, 0, max(len(b), 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		log.Fatal(err)
	}
	copy(memory, b)
	return memory[:len(b)]
}

func first(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		log.Fatal(err)
	}
	return time.Duration(now.Nano())
}
