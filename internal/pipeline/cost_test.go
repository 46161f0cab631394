package pipeline

import (
	"testing"
	"time"
)

// What statistics cost a sample: the clocks that produce reads and what it adds up.
func BenchmarkASampleIsCounted(b *testing.B) {
	var w worker
	for b.Loop() {
		began := time.Now()
		w.read(110_000, time.Since(began))
		began = time.Now()
		w.images.Add(1)
		w.points.Add(1)
		w.decode.Add(int64(time.Since(began)))
	}
}
