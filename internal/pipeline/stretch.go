package pipeline

import "sync"

// stretches reads whole blocks of a windowed order ahead: when the first sample of a block is about to be read, the
// storage is asked for the whole block, because the window needs the rest too.
type stretches struct {
	mu sync.Mutex
	// windows has the blocks that were asked for, by their first samples. There are two windows, because at their border
	// both are read.
	windows [2]askedFor
	asked   int64 // number of all requests
}

type askedFor struct {
	epoch, window int64
	blocks        map[int64]struct{}
}

// fresh notes a block, and returns true if it is new in this window.
func (s *stretches) fresh(epoch, window, first int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.windows[window%2]
	if a.blocks == nil || a.epoch != epoch || a.window != window {
		*a = askedFor{epoch, window, map[int64]struct{}{}}
	}
	if _, known := a.blocks[first]; known {
		return false
	}
	a.blocks[first] = struct{}{}
	s.asked++
	return true
}

// willNeed is called before sample i of a draft is read. Announcing a read in vain costs a system call; not announcing
// 16 neighbours of 110 kB costs 16 separate reads of a disk.
func (l *Loader) willNeed(d *draft, i int64) {
	if d.chosen != nil {
		return
	}
	l.willNeedAt(d.epoch, d.position(i))
}

func (l *Loader) willNeedAt(epoch, position int64) {
	first, count, window, ok := l.order.Block(epoch, position)
	if ok && l.stretches.fresh(epoch, window, first) {
		l.store.WillNeed(first, count)
	}
}
