package order

// blocksPerWindow is how many blocks of neighbours a window mixes. More mix better, fewer read
// longer stretches: bench/shuffle_quality measures it: the number of a class in a
// batch varies by 1 + batch/blocksPerWindow of what a full shuffle has, whatever the window.
const blocksPerWindow = 1024

// windows is a shuffle for storage that wants to be read in stretches. Blocks of neighbouring
// samples are permuted, and the sequence of samples that this gives is cut into windows, each of
// which is permuted inside. So all samples that are read within a window lie in about
// blocksPerWindow stretches, each read once an epoch. Where the blocks begin moves from epoch to
// epoch, so that samples share a block in one epoch and not in the next.
type windows struct {
	n      uint64 // places
	window uint64
	block  uint64
	blocks uint64 // the last one may be short
	short  uint64 // by so many
}

// epochKey is what the orders of an epoch are drawn from.
type epochKey struct{ seed, epoch, streams uint64 }

func newWindows(window, length int64) windows {
	w := windows{n: uint64(length), window: uint64(window), block: max(1, uint64(window)/blocksPerWindow)}
	w.blocks = (w.n + w.block - 1) / w.block
	w.short = w.blocks*w.block - w.n
	return w
}

// at is the place at a position.
func (w *windows) at(key epochKey, position uint64) uint64 {
	number := position / w.window
	begin := number * w.window
	inside := w.inside(key, number)
	return w.unblocked(key, begin+inside.at(position-begin))
}

// inverse is where in the order a place comes.
func (w *windows) inverse(key epochKey, place uint64) uint64 {
	position := w.blocked(key, place)
	number := position / w.window
	begin := number * w.window
	inside := w.inside(key, number)
	return begin + inside.inverse(position-begin)
}

// inside permutes one window; the last one may be short.
func (w *windows) inside(key epochKey, number uint64) permutation {
	size := min(w.window, w.n-number*w.window)
	return newPermutation(size, windowKey, key.seed, key.epoch, key.streams, number)
}

func (w *windows) permuted(key epochKey) permutation {
	return newPermutation(w.blocks, blockKey, key.seed, key.epoch, key.streams)
}

// shift is where the first block begins; blocks run over the end of the set to its beginning.
func (w *windows) shift(key epochKey) uint64 {
	return absorb(shiftKey, key.seed, key.epoch, key.streams) % w.n
}

// unblocked is the place that stands at x in the sequence of permuted blocks. The last block, which
// may be short, stands somewhere in the middle of it, and what comes behind is nearer by as much.
func (w *windows) unblocked(key epochKey, x uint64) uint64 {
	blocks := w.permuted(key)
	short := blocks.inverse(w.blocks - 1)
	if x >= (short+1)*w.block-w.short {
		x += w.short
	}
	place := blocks.at(x/w.block)*w.block + x%w.block
	return (place + w.shift(key)) % w.n
}

// blocked is the inverse of unblocked.
func (w *windows) blocked(key epochKey, place uint64) uint64 {
	blocks := w.permuted(key)
	place = (place + w.n - w.shift(key)) % w.n
	block := place / w.block
	x := blocks.inverse(block)*w.block + place%w.block
	if short := blocks.inverse(w.blocks - 1); x >= (short+1)*w.block {
		x -= w.short
	}
	return x
}

// Block is the stretch of neighbours that the sample at a position of a windowed order lies in, and
// the number of the window: all of it that belongs to the window is read within that. ok is false
// where samples are not read in stretches.
func (o *Order) Block(epoch, position int64) (first, count, window int64, ok bool) {
	if o.config.Window == 0 || o.config.Selection != nil || position < 0 || position >= o.length {
		return 0, 0, 0, false
	}
	w, key := &o.window, o.windowKey(epoch)
	sample, _ := o.At(epoch, position)
	if o.stretches != nil {
		first, count, ok := o.stretches.neighbours(uint64(sample))
		return int64(first), int64(count), position / o.config.Window, ok
	}
	place := (uint64(sample) + w.n - w.shift(key)) % w.n
	inside := place % w.block
	size := min(w.block, w.n-(place-inside))
	begin := (uint64(sample) + w.n - inside) % w.n
	// A block may run over the end of the set: the part that the sample is in.
	switch {
	case begin+size <= w.n:
		return int64(begin), int64(size), position / int64(w.window), true
	case uint64(sample) >= begin:
		return int64(begin), int64(w.n - begin), position / int64(w.window), true
	}
	return 0, int64(begin + size - w.n), position / int64(w.window), true
}
