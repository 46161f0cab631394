package pipeline

import "sync"

// stretches reads the blocks of a windowed order ahead as wholes: when the first sample of a block
// is about to be read, the storage is asked for all of it, because the window needs the rest too.
type stretches struct {
	mu sync.Mutex
	// Of two windows, for at the border both are read: their blocks that were asked for, by their
	// first samples.
	windows [2]askedFor
	asked   int64 // in all
}

type askedFor struct {
	epoch, window int64
	blocks        map[int64]struct{}
}

// fresh notes a block and says whether it is the first time in this window.
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

// willNeed is called before sample i of a draft is read. The extent of a read that is announced twice
// costs a system call; 16 neighbours of 110 kB that are not announced cost 16 places of a disk.
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
