package fetch

import (
	"slices"

	"github.com/headrace/headrace/mmap"
)

// arena hands out ranges of one piece of memory. It takes the first free range that is long enough, so that memory
// which was touched is used again before new memory is. The system provides pages only when they are written to.
type arena struct {
	buffer mmap.Buffer
	memory []byte
	free   []span // sorted by place; no two are adjacent
}

type span struct{ at, length int64 }

func (a *arena) open(length int64) error {
	memory, err := a.buffer.Reserve(length)
	if err != nil {
		return err
	}
	a.memory, a.free = memory, []span{{0, length}}
	return nil
}

func (a *arena) close() {
	a.memory, a.free = nil, nil
	a.buffer.Free()
}

// take finds room for length bytes.
func (a *arena) take(length int64) (at int64, ok bool) {
	for i := range a.free {
		s := &a.free[i]
		if s.length < length {
			continue
		}
		at = s.at
		s.at, s.length = s.at+length, s.length-length
		if s.length == 0 {
			a.free = slices.Delete(a.free, i, i+1)
		}
		return at, true
	}
	return 0, false
}

// give frees a range that was taken, or a part of one.
func (a *arena) give(at, length int64) {
	if length == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(a.free, at, func(s span, at int64) int { return int(s.at - at) })
	before := i > 0 && a.free[i-1].at+a.free[i-1].length == at
	behind := i < len(a.free) && at+length == a.free[i].at
	switch {
	case before && behind:
		a.free[i-1].length += length + a.free[i].length
		a.free = slices.Delete(a.free, i, i+1)
	case before:
		a.free[i-1].length += length
	case behind:
		a.free[i].at, a.free[i].length = at, a.free[i].length+length
	default:
		a.free = slices.Insert(a.free, i, span{at, length})
	}
}
