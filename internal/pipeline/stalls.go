package pipeline

import (
	"math/bits"
	"time"
)

// stalls measures how long the consumer waits for each batch; the Loader's lock protects it. A wait that timeouts cut
// into pieces counts as one.
type stalls struct {
	first   time.Time // time of the first call
	before  int64     // bytes that were read before the first call
	began   time.Time // beginning of the present wait
	waiting bool
	batches int64
	samples int64
	total   time.Duration
	longest time.Duration
	counts  [64 * stallSteps]int64
}

// stallSteps is into how many parts each power of two of nanoseconds is divided: with 8 a quantile is exact to 6 %.
const (
	stallSteps = 8
	stepBits   = 3
)

// begin notes when a wait began. Python waits in slices so that Ctrl-C works, so a wait may have begun already.
// bytesRead returns the bytes that were read since Open, and is called only once.
func (s *stalls) begin(now time.Time, bytesRead func() int64) {
	if s.first.IsZero() {
		s.first, s.before = now, bytesRead()
	}
	if !s.waiting {
		s.began, s.waiting = now, true
	}
}

// end counts the wait for a batch that is being delivered.
func (s *stalls) end(samples int64) {
	stall := time.Since(s.began)
	s.waiting = false
	s.batches++
	s.samples += samples
	s.total += stall
	s.longest = max(s.longest, stall)
	s.counts[stallCell(stall)]++
}

// drop ends the present wait without counting it, because another one begins after a SeekTo.
func (s *stalls) drop() { s.waiting = false }

// stallCell numbers durations by their highest bit and the three below it.
func stallCell(d time.Duration) int {
	// Shorter durations do not have those three bits, and no clock distinguishes them.
	ns := uint64(max(d, 1<<stepBits))
	exponent := bits.Len64(ns) - 1
	return exponent*stallSteps + int(ns>>(exponent-stepBits)&(stallSteps-1))
}

// quantile returns the middle of the cell that holds the quantile.
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

// fill writes the summary. The histogram is read here and not at every batch.
func (s *stalls) fill(to *Stats) {
	to.Batches, to.Samples, to.ConsumerWait = s.batches, s.samples, s.total
	to.StallP50, to.StallP99, to.StallMax = s.quantile(0.50), s.quantile(0.99), s.longest
	if s.samples > 0 {
		since := time.Since(s.first).Seconds()
		to.ImagesPerSecond = float64(s.samples) / since
		// Bytes and time have to begin at the same moment. Workers read before the first call, which may come late.
		to.BytesPerSecond = float64(to.BytesRead-s.before) / since
	}
}
