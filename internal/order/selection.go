package order

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// Selection says which samples of a dataset an epoch draws from, and how often. It is made once from what the caller
// gave, and an order computes every position from it. Apart from the caller's own numbers there is nothing to keep, and
// nothing to save.
type Selection struct {
	samples int64 // of the dataset
	length  int64 // positions of an epoch
	times   int64 // how often each entry comes in a row; 0 is taken as 1

	// The entries: a list, or so many samples at a stride. The entries of a group are neighbours.
	list                 []int64
	first, stride, count int64

	// Nil if each entry comes once an epoch.
	groups []group
}

// group is entries of equal weight.
type group struct {
	begin, size uint64 // in the list
	end         uint64 // the weight of all entries up to the group's last one
	each        uint64
}

// heaviest is the integer to which the largest weight is scaled, so that the number of times an entry comes is exact.
// The sum of maxWeighted such weights stays below 2^63.
const (
	heaviest    = 1 << 32
	maxWeighted = 1 << 30
)

// A Part is some samples of a dataset: those of List or, if List is nil, Count samples from First on in steps of
// Stride.
type Part struct {
	List                 []int64
	First, Stride, Count int64
}

func (p *Part) size() int64 {
	if p.List != nil {
		return int64(len(p.List))
	}
	return p.Count
}

func (p *Part) at(i int64) int64 {
	if p.List != nil {
		return p.List[i]
	}
	return p.First + i*p.Stride
}

// check refuses samples that the dataset lacks, and samples that are listed twice.
func (p *Part) check(samples int64) error {
	if p.List == nil {
		if p.Count < 0 || p.Count > samples || (p.Count > 1 && p.Stride == 0) {
			return fmt.Errorf("%d samples at stride %d of a set of %d", p.Count, p.Stride, samples)
		}
		// A large stride could wrap around to a number that is inside again.
		if p.Stride <= -maxSamples || p.Stride >= maxSamples ||
			(p.Count > 1 && max(p.Stride, -p.Stride) > samples/(p.Count-1)) {
			return fmt.Errorf("%d samples at stride %d leave a set of %d", p.Count, p.Stride, samples)
		}
		if p.Count > 0 {
			return errors.Join(inSet(p.First, samples), inSet(p.at(p.Count-1), samples))
		}
		return nil
	}
	for _, sample := range p.List {
		if err := inSet(sample, samples); err != nil {
			return err
		}
	}
	sorted := slices.Sorted(slices.Values(p.List))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return fmt.Errorf("sample %d is listed twice; weights say how often a sample comes", sorted[i])
		}
	}
	return nil
}

func inSet(sample, samples int64) error {
	if sample < 0 || sample >= samples {
		return fmt.Errorf("sample %d is not in [0, %d)", sample, samples)
	}
	return nil
}

// Subset selects some samples, each once an epoch.
func Subset(samples int64, part Part) (*Selection, error) {
	if err := part.check(samples); err != nil {
		return nil, err
	}
	return &Selection{samples: samples, length: part.size(),
		list: part.List, first: part.First, stride: part.Stride, count: part.Count}, nil
}

// Weighted draws `length` samples an epoch, each in proportion to its weight.
func Weighted(weights []float64, length int64) (*Selection, error) {
	parts := make([]Part, len(weights))
	for i := range parts {
		parts[i] = Part{First: int64(i), Count: 1}
	}
	return Mix(int64(len(weights)), parts, weights, length)
}

// Balanced draws `length` samples an epoch, equally many of each label that occurs.
func Balanced(labels []int64, length int64) (*Selection, error) {
	groups := map[int64][]int64{}
	for sample, label := range labels {
		groups[label] = append(groups[label], int64(sample))
	}
	var parts []Part
	var weights []float64
	for _, label := range slices.Sorted(maps.Keys(groups)) {
		parts = append(parts, Part{List: groups[label]})
		weights = append(weights, 1)
	}
	return Mix(int64(len(labels)), parts, weights, length)
}

// Mix draws `length` samples an epoch from parts in proportion to their weights, and the samples of
// a part equally often.
func Mix(samples int64, parts []Part, weights []float64, length int64) (*Selection, error) {
	if length < 0 || length > maxSamples {
		return nil, fmt.Errorf("%d draws an epoch are not in [0, 2^62]", length)
	}
	if len(parts) != len(weights) {
		return nil, fmt.Errorf("%d parts have %d weights", len(parts), len(weights))
	}
	s := &Selection{samples: samples, length: length}
	each, heavy := make([]float64, len(parts)), 0.0 // of one sample of each part
	for i, weight := range weights {
		if err := parts[i].check(samples); err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		size := parts[i].size()
		switch {
		case !(weight >= 0) || math.IsInf(weight, 1):
			return nil, fmt.Errorf("weight %d is %v; 0 or more was expected, and finite", i, weight)
		case weight > 0 && size == 0:
			return nil, fmt.Errorf("part %d has a weight of %v and no sample", i, weight)
		case size > maxWeighted-int64(len(s.list)):
			return nil, fmt.Errorf("more than %d samples have weights", maxWeighted)
		case weight > 0:
			each[i] = weight / float64(size)
			heavy = max(heavy, each[i])
		}
	}
	if heavy == 0 && length > 0 {
		return nil, errors.New("no weight is above 0")
	}
	total := uint64(0)
	for i := range parts {
		if each[i] == 0 {
			continue
		}
		weight := max(1, uint64(math.Round(each[i]/heavy*heaviest)))
		g := group{begin: uint64(len(s.list)), size: uint64(parts[i].size()), each: weight}
		total += g.size * weight
		g.end = total
		s.groups = append(s.groups, g)
		for k := range parts[i].size() {
			s.list = append(s.list, parts[i].at(k))
		}
	}
	return s, nil
}

// Repeats is true if a sample may come more than once an epoch, with another draw each time.
func (s *Selection) Repeats() bool { return s.weighted() || s.times > 1 }

func (s *Selection) weighted() bool { return s.groups != nil }

// Length returns the number of positions in an epoch.
func (s *Selection) Length() int64 { return s.length }

func (s *Selection) entries() uint64 {
	if s.list != nil {
		return uint64(len(s.list))
	}
	return uint64(s.count)
}

func (s *Selection) entry(i uint64) int64 {
	if s.list != nil {
		return s.list[i]
	}
	return s.first + int64(i)*s.stride
}

// at returns the sample at a shuffled place. With weights, this is systematic sampling (Madow, 1949): the line of all
// weights is cut into as many equal strata as there are draws. Each stratum gives the entry at the same point of the
// stratum, and the epoch draws that point. So each entry comes as often as its share of the draws demands, rounded down
// or up, and with equal weights every entry comes exactly once. Equal entries change places from epoch to epoch,
// because otherwise the same ones would always come together.
func (s *Selection) at(place, epoch, seed uint64) int64 {
	if s.groups == nil {
		return s.entry(place)
	}
	total, draws := s.groups[len(s.groups)-1].end, uint64(s.length)
	offset, _ := bits.Mul64(absorb(drawKey, seed, epoch), total) // in [0, total)
	high, low := bits.Mul64(place, total)
	low, carry := bits.Add64(low, offset, 0)
	point, _ := bits.Div64(high+carry, low, draws) // below total, for place < draws
	i := sort.Search(len(s.groups), func(i int) bool { return s.groups[i].end > point })
	g := &s.groups[i]
	inside := (point - (g.end - g.size*g.each)) / g.each
	if g.size > 1 {
		p := newPermutation(g.size, groupKey, seed, epoch, uint64(i))
		inside = p.at(inside)
	}
	return s.list[g.begin+inside]
}
