package order

import "fmt"

// repeatRound: timm and DeiT round a dataset's size down to a multiple of it for the length of an epoch.
const repeatRound = 256

// Repeated selects every sample `times` times in a row, cut off after `length` positions: repeated augmentation (Hoffer
// et al., 2020; Touvron et al., 2021). A negative length means that of timm's RepeatAugSampler: the dataset's size
// rounded down to a multiple of 256, so that an epoch takes as long as without repeats. A smaller dataset, for which
// timm's epoch would be empty, is not rounded.
func Repeated(samples, times, length int64) (*Selection, error) {
	if times < 1 || (samples > 0 && times > maxSamples/samples) {
		return nil, fmt.Errorf("times is %d (expected at least 1, and 2^62 positions at most)", times)
	}
	if length < 0 {
		length = samples
		if samples >= repeatRound {
			length = samples / repeatRound * repeatRound
		}
	}
	if length > samples*times {
		return nil, fmt.Errorf("length is %d (expected at most %d, which is all of %d samples %d times)", length, samples*times, samples, times)
	}
	return &Selection{samples: samples, length: length, times: times, stride: 1, count: samples}, nil
}

// Spread returns the position whose sample comes at a position of the step that begins at `begin`. The two differ if
// samples are repeated: repeats are neighbours in the order, and a rank's part of a step is contiguous. So the first
// repeats go to the front of the step, the second ones behind them, and so on. Then a rank gets no sample twice unless
// there are fewer ranks than repeats, and an op that mixes neighbours mixes different samples. Spread depends only on
// the step, which is the same for any number of ranks, and stays inside it, so positions still say what was taken.
func (o *Order) Spread(begin, position int64) int64 {
	s := o.config.Selection
	if s == nil || s.times < 2 {
		return position
	}
	_, _, next := o.Batch(begin)
	total, world := next-begin, o.config.WorldSize
	if o.config.Pad && total < o.global {
		total = (total + world - 1) / world * world
	}
	// The first `longer` rows have one position more than the others.
	each, longer := total/s.times, total%s.times
	place := position - begin
	if front := longer * (each + 1); place >= front {
		place -= front
		return begin + longer + place/each + place%each*s.times
	}
	return begin + place/(each+1) + place%(each+1)*s.times
}
