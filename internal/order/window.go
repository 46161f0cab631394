package order

// blocksPerWindow is how many blocks of neighbours a window mixes. More blocks mix better; fewer blocks are read in
// longer stretches. bench/shuffle_quality measures it: whatever the window, the variance of the number of samples of a
// class in a batch is 1 + batch/blocksPerWindow times that of a full shuffle.
const blocksPerWindow = 1024

// windows is a shuffle for storage that should be read in stretches. Blocks of neighbouring samples are permuted. The
// resulting sequence of samples is cut into windows, and each window is permuted inside. So all samples that are read
// within a window lie in about blocksPerWindow stretches, and each stretch is read once an epoch. The beginning of the
// blocks moves from epoch to epoch, so samples that share a block in one epoch need not in the next.
type windows struct {
	n      uint64 // samples
	window uint64
	block  uint64
	blocks uint64 // the last one may be short
	short  uint64 // how many samples the last one lacks
}

// epochKey is the key from which an epoch's order is drawn.
type epochKey struct{ seed, epoch, streams uint64 }

func newWindows(window, length int64) windows {
	w := windows{n: uint64(length), window: uint64(window), block: max(1, uint64(window)/blocksPerWindow)}
	w.blocks = (w.n + w.block - 1) / w.block
	w.short = w.blocks*w.block - w.n
	return w
}

// at returns the sample at a position.
func (w *windows) at(key epochKey, position uint64) uint64 {
	number := position / w.window
	begin := number * w.window
	inside := w.inside(key, number)
	return w.unblocked(key, begin+inside.at(position-begin))
}

// inverse returns the position of a sample.
func (w *windows) inverse(key epochKey, sample uint64) uint64 {
	position := w.blocked(key, sample)
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

// shift returns the sample with which the first block begins. A block may run over the end of the dataset to its
// beginning.
func (w *windows) shift(key epochKey) uint64 {
	return absorb(shiftKey, key.seed, key.epoch, key.streams) % w.n
}

// unblocked returns the sample at position x of the sequence of permuted blocks. The last block may be short and may be
// anywhere in that sequence; the blocks behind it then come earlier by what it lacks.
func (w *windows) unblocked(key epochKey, x uint64) uint64 {
	blocks := w.permuted(key)
	short := blocks.inverse(w.blocks - 1)
	if x >= (short+1)*w.block-w.short {
		x += w.short
	}
	sample := blocks.at(x/w.block)*w.block + x%w.block
	return (sample + w.shift(key)) % w.n
}

// blocked is the inverse of unblocked.
func (w *windows) blocked(key epochKey, sample uint64) uint64 {
	blocks := w.permuted(key)
	shifted := (sample + w.n - w.shift(key)) % w.n
	block := shifted / w.block
	x := blocks.inverse(block)*w.block + shifted%w.block
	if short := blocks.inverse(w.blocks - 1); x >= (short+1)*w.block {
		x -= w.short
	}
	return x
}

// Block returns the stretch of neighbours that contains the sample at a position of a windowed order, and the number of
// its window. Samples of the stretch that belong to the window are read within it. ok is false if samples are not read
// in stretches.
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
	shifted := (uint64(sample) + w.n - w.shift(key)) % w.n
	inside := shifted % w.block
	size := min(w.block, w.n-(shifted-inside))
	begin := (uint64(sample) + w.n - inside) % w.n
	// If the block runs over the end of the dataset, only the part with the sample is returned.
	switch {
	case begin+size <= w.n:
		return int64(begin), int64(size), position / int64(w.window), true
	case uint64(sample) >= begin:
		return int64(begin), int64(w.n - begin), position / int64(w.window), true
	}
	return 0, int64(begin + size - w.n), position / int64(w.window), true
}
