package main

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
	"github.com/headrace/headrace/pinned"
)

// bare is a loop of C calls over records that are already in memory, in the engine's order and with its draws, into one
// slot.
type bare struct {
	order    *order.Order
	plan     *native.Plan
	samples  []catalog.Sample
	records  []mmap.View
	points   []mmap.View // seek points of records
	slot     *pinned.Slot
	size     int64
	position int64
}

func newBare(d *catalog.Dataset, o *order.Order) (*bare, error) {
	p, err := plan()
	if err != nil {
		return nil, err
	}
	size, _ := p.FixedSize()
	b := &bare{order: o, plan: p, size: int64(size.Bytes)}
	pool, err := pinned.NewPool(pinned.Options{SlotBytes: b.size * *batch})
	if err != nil {
		return nil, err
	}
	if b.slot, err = pool.Acquire(); err != nil {
		return nil, err
	}
	if err := b.slot.Populate(0, b.slot.Bytes()); err != nil {
		return nil, err
	}
	limits := native.DefaultLimits()
	s, err := store.Open(d, store.Options{Options: mmap.Options{Backend: storage().Backend}, MaxRecordBytes: int64(limits.MaxRecordBytes)})
	if err != nil {
		return nil, err
	}
	for i := range d.Len() {
		sample, err := d.Sample(i)
		if err != nil {
			return nil, err
		}
		view, err := s.Read(sample, new(mmap.Buffer)) // lives as long as the program
		if err != nil {
			return nil, err
		}
		points, err := s.ReadSeek(sample, new(mmap.Buffer))
		if err != nil {
			return nil, err
		}
		b.samples, b.records, b.points = append(b.samples, sample), append(b.records, view), append(b.points, points)
	}
	return b, nil
}

// rate makes n images.
func (b *bare) rate(n int64) (rate, error) {
	r, err := measure(n, func() int64 { return b.position }, func() error {
		err := b.loop(n)
		b.position += n
		return err
	})
	return r, err
}

func (b *bare) loop(n int64) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, *decoders)
	for t := range *decoders {
		group.Go(func() {
			runtime.LockOSThread()
			context, err := native.NewContext(native.DefaultLimits())
			if err != nil {
				errs[t] = err
				return
			}
			defer context.Close()
			for i := next.Add(1) - 1; i < n && errs[t] == nil; i = next.Add(1) - 1 {
				errs[t] = b.sample(context, b.position+i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (b *bare) sample(context *native.Context, position int64) error {
	length := min(b.order.Steps()**batch, int64(len(b.samples))) // what one epoch delivers
	epoch := position / length
	index, _ := b.order.At(epoch, position%length)
	sample, record := &b.samples[index], b.records[index]
	var crc *uint32
	if sample.HasCRC {
		crc = &sample.CRC32C
	}
	place := unsafe.Add(b.slot.Pointer(), position%*batch*b.size)
	points := b.points[index]
	seek := native.Seek{Data: points.Pointer, Length: points.Length, CRC32C: sample.Seek.CRC32C, HasCRC: points.Length > 0}
	_, err := context.Sample(record.Pointer, record.Length, seek,
		native.Key{Epoch: uint64(epoch), Sample: uint64(index)}, crc,
		native.View{Plan: b.plan, To: place, Capacity: uint64(b.size)})
	return err
}
