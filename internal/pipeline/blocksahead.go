package pipeline

import (
	"time"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
)

// blocksAhead is how many samples in advance, at the latest, a block is decoded in a windowed order. A window begins
// with samples of all its blocks. If each block were decoded when its sample is due, the other threads would wait for
// it, though each could decode another block.
const blocksAhead = 64

// cachedBytesPerSecond is the least speed at which a block comes out of the page cache. A slower read is from a disk.
const cachedBytesPerSecond = 1 << 30

// slowness returns the part of the time for reading blocks that shows how slow the storage is. The time for decoding
// does not count, because readers would not decode any sooner.
func slowness(fetched time.Duration, sample *catalog.Sample) time.Duration {
	return max(0, fetched-time.Duration(sample.Stored())*time.Second/cachedBytesPerSecond)
}

// decodeAhead decodes a block of the next window of a windowed order if one is due. It also decodes the block of a
// sample that this rank needs soon; except in an epoch's first window that one is decoded already.
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

// prepareBlock decodes the block of the sample at a position, unless that was done.
func (w *worker) prepareBlock(epoch, position int64) {
	l := w.loader
	index, _ := l.order.At(epoch, position)
	later, err := l.config.Dataset.Sample(index)
	// Two windows take three quarters of the room, and a block that is decoded ahead must not push out one of theirs.
	if err != nil || later.Block.Codec == blocks.None || int64(later.Block.Size) > l.config.Blocks.Room()/4 {
		return
	}
	l.willNeedAt(epoch, position)
	l.store.PrepareBlock(later, &w.blockTime)
}
