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

// Storage says which samples of a dataset are read together, because they lie in one stretch that is decoded as a
// whole. A windowed order uses these stretches as its blocks of neighbours.
type Storage struct {
	Of    []uint32 // for each sample the number of its stretch
	Bytes []int64  // of each stretch after decoding; 0 for one that costs nothing
	Room  int64    // bytes of decoded stretches that the reader of the samples keeps
}

// windowShare is the part of the room for one window: where one window ends and the next begins, the stretches of both
// are read, and they differ in size.
const windowShare, windowShareOf = 3, 8

// stretches is the shuffle in windows over stretches of any length. The stretches are permuted, and the entries of each
// stay together. The resulting sequence is cut into windows, and each window is permuted inside. So each stretch is
// read in one window, or in two that follow each other.
type stretches struct {
	windows           // only its window and n are used
	of      []uint32  // the stretch of each entry's sample
	starts  []uint64  // the beginning of each stretch among the members, and n
	members []uint64  // the entries, stretch by stretch; nil: they are in that order already
	named   *[32]byte // checksum of everything that the order depends on

	// The epochs that were asked for last, by their lowest bit: at the end of an epoch the next one is begun.
	epochs [2]atomic.Pointer[arrangement]
}

// arrangement is an epoch's order of the stretches.
type arrangement struct {
	key    epochKey
	begins []uint64 // where the first, second, ... stretch begins, and n
}

// checkStorage refuses a Storage that does not fit these samples.
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

// newStretches makes a windowed order of the entries; sampleOf says their samples. It makes the window smaller if the
// stretches of one window would not be kept.
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

// name computes the checksum of the window, and of the place of each entry's stretch among the others.
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

// Stretches returns a checksum of the window and of the storage's stretches from which a windowed order was made; "" if
// it was made of none. Two orders with different checksums differ, whatever else is the same.
func (o *Order) Stretches() string {
	if o.stretches == nil {
		return ""
	}
	return hex.EncodeToString(o.stretches.named[:16])
}

// ByStretches is true for a windowed order that follows the stretches of storage.
func (o *Order) ByStretches() bool { return o.stretches != nil }

// Later returns the position that this rank reaches so many samples after a position of the step that begins at
// `begin`, in the same epoch.
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

// Due returns a position in the window after that of a position of this rank, whose step begins at `begin`. It is the
// first position of a stretch that should be decoded now. The stretches of a window become due one after the other,
// evenly, while the window before is read. So the thread that decodes them never has much to do at once. ok is false if
// none is due.
func (o *Order) Due(epoch, begin, position int64) (due int64, ok bool) {
	w := o.stretches
	if w == nil || o.domain != o.length {
		return 0, false
	}
	first, _, _ := o.Batch(begin)
	world := uint64(o.config.WorldSize)
	at := uint64(begin) + uint64(position-first)*world // roughly as far as all ranks have come
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

// member returns the entry at a place of the stretches in their own order.
func (w *stretches) member(place uint64) uint64 {
	if w.members == nil {
		return place
	}
	return w.members[place]
}

// arranged returns an epoch's order of the stretches; the first caller computes it.
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

// find returns the number of the last stretch that begins at or before a place; begins are the beginnings of all.
func find(begins []uint64, place uint64) uint64 {
	return uint64(sort.Search(len(begins)-1, func(i int) bool { return begins[i+1] > place }))
}

// at returns the entry at a position.
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
	// The entries of a stretch are in their own order, because the sort was stable.
	place, _ := slices.BinarySearchFunc(w.members, entry, func(member, entry uint64) int {
		return cmp.Or(cmp.Compare(w.of[member], w.of[entry]), cmp.Compare(member, entry))
	})
	return uint64(place)
}

// inverse returns where in the order an entry comes.
func (w *stretches) inverse(key epochKey, entry uint64) uint64 {
	place := w.placeOf(entry)
	stretch := find(w.starts, place)
	permuted := w.permuted(key)
	x := w.arranged(key).begins[permuted.inverse(stretch)] + place - w.starts[stretch]
	begin := x / w.window * w.window
	inside := w.inside(key, x/w.window)
	return begin + inside.inverse(x-begin)
}

// neighbours returns the samples of the stretch that contains a sample, if they are neighbours.
func (w *stretches) neighbours(sample uint64) (first, count uint64, ok bool) {
	if w.members != nil {
		return 0, 0, false
	}
	stretch := find(w.starts, sample)
	return w.starts[stretch], w.starts[stretch+1] - w.starts[stretch], true
}
