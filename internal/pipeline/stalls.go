package pipeline

import (
	"math/bits"
	"time"
)

// stalls measures what the consumer waits for each batch, with the Loader's lock held. A wait cut
// into pieces by timeouts is one.
type stalls struct {
	first   time.Time // of all calls
	began   time.Time // of the wait under way
	waiting bool
	batches int64
	samples int64
	total   time.Duration
	longest time.Duration
	counts  [64 * stallSteps]int64
}

// stallSteps is how many parts each power of two of nanoseconds is cut into: 8 make a quantile
// good to 6 %.
const (
	stallSteps = 8
	stepBits   = 3
)

// begin notes when a wait began. Python waits in slices so that Ctrl-C works, hence the flag.
func (s *stalls) begin(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
	if !s.waiting {
		s.began, s.waiting = now, true
	}
}

// end counts the wait of a batch that is delivered now.
func (s *stalls) end(samples int64) {
	stall := time.Since(s.began)
	s.waiting = false
	s.batches++
	s.samples += samples
	s.total += stall
	s.longest = max(s.longest, stall)
	s.counts[stallCell(stall)]++
}

// drop forgets the wait under way: after a SeekTo another one begins.
func (s *stalls) drop() { s.waiting = false }

// stallCell numbers durations by their highest bit and the three below it.
func stallCell(d time.Duration) int {
	// Shorter ones have no three bits, and no clock tells them apart.
	ns := uint64(max(d, 1<<stepBits))
	exponent := bits.Len64(ns) - 1
	return exponent*stallSteps + int(ns>>(exponent-stepBits)&(stallSteps-1))
}

// quantile is the middle of the cell that holds it.
func (s *stalls) quantile(q float64) time.Duration {
	rank := int64(q * float64(s.batches))
	for cell, count := range s.counts {
		if rank -= count; rank < 0 {
			exponent := cell / stallSteps
			width := time.Duration(1) << (exponent - stepBits)
			middle := time.Duration(cell%stallSteps+stallSteps)*width + width/2
			return min(middle, s.longest)
		}
	}
	return s.longest
}

// fill writes the summary; the histogram is walked here and not at every batch.
func (s *stalls) fill(to *Stats) {
	to.Batches, to.Samples, to.ConsumerWait = s.batches, s.samples, s.total
	to.StallP50, to.StallP99, to.StallMax = s.quantile(0.50), s.quantile(0.99), s.longest
	if s.samples > 0 {
		since := time.Since(s.first).Seconds()
		to.ImagesPerSecond = float64(s.samples) / since
		to.BytesPerSecond = float64(to.BytesRead) / since
	}
}
