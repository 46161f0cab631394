package catalog

import (
	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/headroom"
)

// Stretches are the parts of a dataset that are read as wholes because they are compressed as wholes.
type Stretches struct {
	Of    []uint32 // for each sample the number of its block; blocks are in the order of their first samples
	Bytes []int64  // of each block after decoding; 0 for neighbours that lie in no block
}

// looseNeighbours is how many samples that lie in no block are taken together, for better reads from disk.
const looseNeighbours = 16

// inBlocks is true for a dataset whose samples may lie in compressed blocks.
func (d *Dataset) inBlocks() bool {
	for _, part := range d.Parts() {
		if part.inBlocks() {
			return true
		}
	}
	if count, _, _ := d.Chunks(); count > 0 {
		return true
	}
	source := d.Source()
	return source != nil && source.Blocks
}

// Stretches looks at every sample of a dataset in compressed blocks. For any other dataset it returns nil, which costs
// nothing.
func (d *Dataset) Stretches() (*Stretches, error) {
	if !d.inBlocks() {
		return nil, nil
	}
	if short := headroom.Memory(4 * d.rows); short != nil { // at most mostRows
		return nil, short
	}
	s := &Stretches{Of: make([]uint32, d.rows)}
	numbers := make(map[blocks.Block]uint32)
	last, inLast := blocks.Block{}, 0 // the block of the sample before, and the samples of its stretch so far
	for i := range d.rows {
		sample, err := d.Sample(i)
		if err != nil {
			return nil, err
		}
		block := sample.InBlock()
		// A block of one repeated value costs nothing to make.
		if block.Codec == blocks.None || block.Codec == blocks.Fill {
			block = blocks.Block{}
		}
		number := uint32(len(s.Bytes))
		switch {
		case i > 0 && block == last && (block.Codec != blocks.None || inLast < looseNeighbours):
			number = s.Of[i-1]
		case block.Codec != blocks.None:
			// Rows of a block need not follow each other, for example if a selection was saved.
			if earlier, known := numbers[block]; known {
				number = earlier
			} else {
				numbers[block] = number
			}
		}
		if int(number) == len(s.Bytes) {
			s.Bytes, inLast = append(s.Bytes, int64(block.Size)), 0
		}
		s.Of[i], last, inLast = number, block, inLast+1
	}
	return s, nil
}

// SharedBlocks describes blocks that hold several samples each, so that reading one sample costs decoding all.
type SharedBlocks struct {
	Count, Bytes, Rows int64 // blocks, their bytes after decoding, and the samples in them
	More               bool  // there may be more: the search ended when it knew enough
}

// SharedBlocks looks for blocks of several samples, and stops once they have more than `enough` bytes. A block of one
// sample costs the same in any order, and so does one whose parts are only joined.
func (d *Dataset) SharedBlocks(enough int64) (s SharedBlocks, err error) {
	for _, part := range d.Parts() {
		found, err := part.SharedBlocks(enough)
		if err != nil {
			return s, err
		}
		s = SharedBlocks{s.Count + found.Count, s.Bytes + found.Bytes, s.Rows + found.Rows, s.More || found.More}
	}
	if count, bytes, rows := d.Chunks(); d.arrays != nil && rows > count {
		s = SharedBlocks{Count: count, Bytes: bytes, Rows: rows}
	}
	if source := d.Source(); source == nil || !source.Blocks {
		return s, nil
	}
	seen := make(map[blocks.Block]bool)
	for i := range d.rows {
		sample, err := d.Sample(i)
		if err != nil {
			return s, err
		}
		block := sample.InBlock()
		if block.Codec == blocks.None || blocks.Interrupted(block.Codec) || int64(block.Size) == sample.Length {
			continue
		}
		if !seen[block] {
			if s.More = s.Bytes > enough; s.More {
				return s, nil
			}
			seen[block] = true
			s.Count, s.Bytes = s.Count+1, s.Bytes+int64(block.Size)
		}
		s.Rows++
	}
	if s.Rows == s.Count {
		return SharedBlocks{}, nil
	}
	return s, nil
}
