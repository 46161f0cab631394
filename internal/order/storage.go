package order

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"
)

// Storage says of a dataset which samples are read together, because they lie in one stretch that is decoded
// as a whole. A windowed order takes its blocks of neighbours from it.
type Storage struct {
	Of    []uint32 // of each sample the number of its stretch
	Bytes []int64  // of each stretch once it is decoded; 0 of one that costs nothing
	Room  int64    // bytes of decoded stretches that whoever reads the samples keeps
}

// windowShare of the room is for one window: where one ends and the next begins the stretches of both are
// read, and they differ in size.
const windowShare, windowShareOf = 3, 8

// stretches is the shuffle of windows over stretches of any length. The stretches are permuted, the entries
// of each stand together, and the sequence that this gives is cut into windows, each of which is permuted
// inside: so each stretch is read in one window, or in two that follow each other.
type stretches struct {
	windows           // its window and n
	of      []uint32  // of each entry's sample the stretch
	starts  []uint64  // of each stretch among the members, and n
	members []uint64  // the entries, stretch by stretch; nil: they stand so already
	named   *[32]byte // checksum of all that the order depends on

	// The last epochs that were asked for, by their lowest bit: at the end of one the next is begun.
	epochs [2]atomic.Pointer[arrangement]
}

// arrangement is an epoch's order of the stretches.
type arrangement struct {
	key    epochKey
	begins []uint64 // of the stretch that is first, second, ..., and n
}

// checkStorage refuses one that is not of these samples.
func checkStorage(s *Storage, samples int64) error {
	if int64(len(s.Of)) != samples {
		return fmt.Errorf("the storage of %d samples is known (expected %d)", len(s.Of), samples)
	}
	for sample, stretch := range s.Of {
		if int(stretch) >= len(s.Bytes) {
			return fmt.Errorf("sample %d lies in stretch %d of %d", sample, stretch, len(s.Bytes))
		}
	}
	return nil
}

// newStretches makes a windowed order of the entries, whose samples sampleOf says. The window becomes smaller
// where the stretches of one would not be kept.
func newStretches(s *Storage, window, entries int64, sampleOf func(uint64) int64) *stretches {
	w := &stretches{of: make([]uint32, entries)}
	w.n = uint64(entries)
	sorted := true
	for i := range w.of {
		w.of[i] = s.Of[sampleOf(uint64(i))]
		sorted = sorted && (i == 0 || w.of[i-1] <= w.of[i])
	}
	if !sorted {
		w.members = make([]uint64, entries)
		for i := range w.members {
			w.members[i] = uint64(i)
		}
		slices.SortStableFunc(w.members, func(a, b uint64) int { return cmp.Compare(w.of[a], w.of[b]) })
	}
	bytes := int64(0)
	for place := range w.n {
		if stretch := w.of[w.member(place)]; place == 0 || w.of[w.member(place-1)] != stretch {
			w.starts = append(w.starts, place)
			bytes += max(0, s.Bytes[stretch])
		}
	}
	w.starts = append(w.starts, w.n)
	w.blocks = uint64(len(w.starts)) - 1
	if bytes > 0 {
		each := (bytes + entries - 1) / entries
		window = min(window, max(1, s.Room/windowShareOf*windowShare/each))
	}
	w.window = uint64(window)
	w.name()
	return w
}

// name is the checksum of the window, and of where each entry's stretch stands among the others.
func (w *stretches) name() {
	h := sha256.New()
	b := binary.LittleEndian.AppendUint64(nil, w.window)
	for _, start := range w.starts {
		b = binary.LittleEndian.AppendUint64(b, start)
	}
	h.Write(b)
	for _, member := range w.members {
		h.Write(binary.LittleEndian.AppendUint64(b[:0], member))
	}
	w.named = (*[32]byte)(h.Sum(nil))
}

// Stretches is a checksum of the window and of the stretches of storage that a windowed order was made of;
// "" where it was made of none. Orders of another one differ, whatever else is the same.
func (o *Order) Stretches() string {
	if o.stretches == nil {
		return ""
	}
	return hex.EncodeToString(o.stretches.named[:16])
}

// ByStretches is true of a windowed order that goes by the stretches of storage.
func (o *Order) ByStretches() bool { return o.stretches != nil }

// Later is the position that this rank comes to so many samples after one of the step which begins at `begin`, in the
// same epoch.
func (o *Order) Later(begin, position, samples int64) (later int64, ok bool) {
	first, _, _ := o.Batch(begin)
	samples += position - first
	if begin += samples / o.config.BatchSize * o.global; begin >= o.length {
		return 0, false
	}
	first, count, _ := o.Batch(begin)
	later = first + samples%o.config.BatchSize
	return later, later < min(first+count, o.length)
}

// Due is a position in the window behind that of a position of this rank, whose step begins at `begin`: the first one of a
// stretch which is to be decoded then. The stretches of a window come due one after the other, evenly, while the window
// before is read, so that whoever decodes them has never much to do at once. Not ok where none is due.
func (o *Order) Due(epoch, begin, position int64) (due int64, ok bool) {
	w := o.stretches
	if w == nil || o.domain != o.length {
		return 0, false
	}
	first, _, _ := o.Batch(begin)
	world := uint64(o.config.WorldSize)
	at := uint64(begin) + uint64(position-first)*world // as far all ranks are, by and large
	number := at/w.window + 1
	next := number * w.window
	if next >= w.n {
		return 0, false
	}
	key := o.windowKey(epoch)
	begins := w.arranged(key).begins
	from, last := find(begins, next), find(begins, min(next+w.window, w.n)-1)
	count, into := last-from+1, at%w.window
	rank := from + into*count/w.window
	if min(into+world, w.window)*count/w.window+from <= rank {
		return 0, false
	}
	inside := w.inside(key, number)
	return int64(next + inside.inverse(max(begins[rank], next)-next)), true
}

// member is the entry at a place of the stretches in their own order.
func (w *stretches) member(place uint64) uint64 {
	if w.members == nil {
		return place
	}
	return w.members[place]
}

// arranged is an epoch's order of the stretches: computed once, by whoever asks first.
func (w *stretches) arranged(key epochKey) *arrangement {
	kept := &w.epochs[key.epoch%2]
	if a := kept.Load(); a != nil && a.key == key {
		return a
	}
	a := &arrangement{key: key, begins: make([]uint64, w.blocks+1)}
	permuted := w.permuted(key)
	for rank := range w.blocks {
		stretch := permuted.at(rank)
		a.begins[rank+1] = a.begins[rank] + w.starts[stretch+1] - w.starts[stretch]
	}
	kept.Store(a)
	return a
}

// find is the number of the stretch that begins last at or before a place, where begins are those of all.
func find(begins []uint64, place uint64) uint64 {
	return uint64(sort.Search(len(begins)-1, func(i int) bool { return begins[i+1] > place }))
}

// at is the entry at a position.
func (w *stretches) at(key epochKey, position uint64) uint64 {
	number := position / w.window
	begin := number * w.window
	inside := w.inside(key, number)
	x := begin + inside.at(position-begin)
	begins := w.arranged(key).begins
	rank := find(begins, x)
	permuted := w.permuted(key)
	return w.member(w.starts[permuted.at(rank)] + x - begins[rank])
}

// placeOf is the inverse of member.
func (w *stretches) placeOf(entry uint64) uint64 {
	if w.members == nil {
		return entry
	}
	// Entries of a stretch are in their own order, for the sort was stable.
	place, _ := slices.BinarySearchFunc(w.members, entry, func(member, entry uint64) int {
		return cmp.Or(cmp.Compare(w.of[member], w.of[entry]), cmp.Compare(member, entry))
	})
	return uint64(place)
}

// inverse is where in the order an entry comes.
func (w *stretches) inverse(key epochKey, entry uint64) uint64 {
	place := w.placeOf(entry)
	stretch := find(w.starts, place)
	permuted := w.permuted(key)
	x := w.arranged(key).begins[permuted.inverse(stretch)] + place - w.starts[stretch]
	begin := x / w.window * w.window
	inside := w.inside(key, x/w.window)
	return begin + inside.inverse(x-begin)
}

// neighbours are the samples of the stretch that a sample lies in, where they stand together.
func (w *stretches) neighbours(sample uint64) (first, count uint64, ok bool) {
	if w.members != nil {
		return 0, 0, false
	}
	stretch := find(w.starts, sample)
	return w.starts[stretch], w.starts[stretch+1] - w.starts[stretch], true
}
