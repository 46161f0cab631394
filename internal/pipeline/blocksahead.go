package pipeline

import (
	"time"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
)

// blocksAhead is how many samples before its turn a block is decoded at the latest in a windowed order. A window begins with
// samples of all its blocks: decoded at their turn, the other threads wait for each, where all of them can decode another one.
const blocksAhead = 64

// cachedBytesPerSecond is how fast at least a block comes out of the page cache. Who reads slower reads from a disk.
const cachedBytesPerSecond = 1 << 30

// slowness is what of the time that reading blocks took says something of the storage. That of decoding does not: readers
// would decode no sooner.
func slowness(fetched time.Duration, sample *catalog.Sample) time.Duration {
	return max(0, fetched-time.Duration(sample.Stored())*time.Second/cachedBytesPerSecond)
}

// decodeAhead decodes a block of the next window of a windowed order, where one is due, and that of the sample that this rank
// comes to soon, which is there already but in an epoch's first window.
func (w *worker) decodeAhead(d *draft, i int64) {
	l := w.loader
	if d.chosen != nil || !l.order.ByStretches() || i >= d.count || l.config.Dataset.Away() {
		return
	}
	if position, ok := l.order.Due(d.epoch, d.begin, d.position(i)); ok {
		w.prepareBlock(d.epoch, position)
	}
	if position, ok := l.order.Later(d.begin, d.position(i), blocksAhead); ok {
		w.prepareBlock(d.epoch, position)
	}
}

// prepareBlock decodes the block of the sample at a position, if it is not there yet.
func (w *worker) prepareBlock(epoch, position int64) {
	l := w.loader
	index, _ := l.order.At(epoch, position)
	later, err := l.config.Dataset.Sample(index)
	// Two windows take three quarters of the room: a block that is ahead must not push out one of theirs.
	if err != nil || later.Block.Codec == blocks.None || int64(later.Block.Size) > l.config.Blocks.Room()/4 {
		return
	}
	l.willNeedAt(epoch, position)
	l.store.PrepareBlock(later, &w.blockTime)
}
