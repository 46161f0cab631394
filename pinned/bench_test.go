package pinned

import (
	"fmt"
	"sync"
	"testing"
)

// batch is 128 normalised ImageNet samples: 128 x 3 x 224 x 224 float32.
const batchBytes = 128 * 3 * 224 * 224 * 4

// BenchmarkFirstTouch is what a new slot costs until it can be written at full speed.
func BenchmarkFirstTouch(b *testing.B) {
	for _, noDevZero := range []bool{false, true} {
		for threads := range 3 {
			b.Run(fmt.Sprintf("noDevZero=%v/threads=%d", noDevZero, threads), func(b *testing.B) {
				b.SetBytes(batchBytes)
				for b.Loop() {
					m, err := newMemory(batchBytes, noDevZero)
					if err != nil {
						b.Fatal(err)
					}
					var group sync.WaitGroup
					s := &Slot{memory: m}
					for i := range int64(threads) { // 0: allocation alone
						part := batchBytes / int64(threads)
						group.Go(func() { _ = s.Populate(i*part, part) })
					}
					group.Wait()
					b.StopTimer()
					m.unmap()
					b.StartTimer()
				}
			})
		}
	}
}

// BenchmarkTenancy takes a slot that is reused through all its states.
func BenchmarkTenancy(b *testing.B) {
	p, err := NewPool(Options{SlotBytes: batchBytes, Keep: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		s, err := p.Acquire()
		if err != nil {
			b.Fatal(err)
		}
		for i := range int64(128) {
			_ = s.Populate(i*(batchBytes/128), batchBytes/128)
		}
		_, _, _ = s.Ready(), s.Hold(), s.Release()
	}
}

func BenchmarkAvailableBytes(b *testing.B) {
	for b.Loop() {
		availableBytes()
	}
}
