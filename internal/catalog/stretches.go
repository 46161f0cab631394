package catalog

import "github.com/headrace/headrace/internal/blocks"

// Stretches are the parts of a dataset that are read as wholes because they are compressed as such.
type Stretches struct {
	Of    []uint32 // of each sample the number of its block, in the order of their first samples
	Bytes []int64  // of each block once it is decoded; 0 of neighbours that lie in none
}

// looseNeighbours are how many samples that lie in no block are taken together, for the disk's sake.
const looseNeighbours = 16

// inBlocks is true of a dataset of which samples may lie in compressed blocks.
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

// Stretches looks at every sample of a dataset in compressed blocks. It is nil of any other, which costs nothing.
func (d *Dataset) Stretches() (*Stretches, error) {
	if !d.inBlocks() {
		return nil, nil
	}
	s := &Stretches{Of: make([]uint32, d.rows)}
	numbers := make(map[blocks.Block]uint32)
	last, inLast := blocks.Block{}, 0 // the block of the sample before, and how many samples its stretch has up to here
	for i := range d.rows {
		sample, err := d.Sample(i)
		if err != nil {
			return nil, err
		}
		block := sample.InBlock()
		if block.Codec == blocks.None {
			block = blocks.Block{}
		}
		number := uint32(len(s.Bytes))
		switch {
		case i > 0 && block == last && (block.Codec != blocks.None || inLast < looseNeighbours):
			number = s.Of[i-1]
		case block.Codec != blocks.None:
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
