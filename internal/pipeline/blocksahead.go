package pipeline

import (
	"time"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
)

// blocksAhead is how many samples before its turn a block is decoded in a windowed order. A window begins with samples of
// all its blocks: decoded at their turn, the other threads wait for each, where all of them can decode another one.
const blocksAhead = 64

// cachedBytesPerSecond is how fast at least a block comes out of the page cache. Who reads slower reads from a disk.
const cachedBytesPerSecond = 1 << 30

// slowness is what of the time that reading blocks took says something of the storage. That of decoding does not: readers
// would decode no sooner.
func slowness(fetched time.Duration, sample *catalog.Sample) time.Duration {
	return max(0, fetched-time.Duration(sample.Stored())*time.Second/cachedBytesPerSecond)
}

// decodeAhead decodes the block of a sample that this rank comes to so many samples later in a windowed order.
func (w *worker) decodeAhead(d *draft, i int64) {
	l := w.loader
	if d.chosen != nil || !l.order.ByStretches() || i >= d.count || l.config.Dataset.Away() {
		return
	}
	position, ok := l.order.Later(d.begin, d.position(i), blocksAhead)
	if !ok {
		return
	}
	index, _ := l.order.At(d.epoch, position)
	later, err := l.config.Dataset.Sample(index)
	// Two windows take three quarters of the room: a block that is ahead must not push out one of theirs.
	if err != nil || later.Block.Codec == blocks.None || int64(later.Block.Size) > l.config.Blocks.Room()/4 {
		return
	}
	l.willNeedAt(d.epoch, position)
	l.store.PrepareBlock(later, &w.blockTime)
}
