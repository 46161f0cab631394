package formats

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"

	"github.com/headrace/headrace/internal/blocks"
)

// readLevels reads the levels: for a list the repetition levels, which say where a list begins, and then the definition
// levels. In version 1 each comes before the values and after its length.
func (c *parquetColumn) readLevels(h pageHeader, at int64, v2 bool) (err error) {
	p := &c.page
	if err := c.take(&c.heldLevels, 0); err != nil { // the levels of the last page are dropped
		return err
	}
	if c.listed {
		var repeats *hybrid
		if v2 {
			repeats, err = c.levelsAt(at, h.repeated, 1)
		} else {
			repeats, err = c.levelsBefore(h.repeatEncoding, 1)
		}
		if err != nil {
			return err
		}
		p.repeats.of = repeats
	}
	switch {
	case c.present == 0:
	case v2:
		p.levels, err = c.levelsAt(at+h.repeated, h.definition, c.present)
	default:
		p.levels, err = c.levelsBefore(h.levelEncoding, c.present)
	}
	p.depths.of = p.levels
	return err
}

// levelsAt reads the levels of a page of version 2; most is the highest level.
func (c *parquetColumn) levelsAt(at, length int64, most int) (*hybrid, error) {
	if length > blocks.MostBytes {
		return nil, fmt.Errorf("%w: levels of %d bytes", ErrLimit, length)
	}
	raw, err := c.readLevelsAt(at, length)
	return &hybrid{data: raw, width: bits.Len(uint(most))}, err
}

// readLevelsAt reads levels that are not in memory yet. They are kept until the next page.
func (c *parquetColumn) readLevelsAt(at, length int64) ([]byte, error) {
	if err := c.take(&c.heldLevels, c.heldLevels+length); err != nil {
		return nil, err
	}
	raw := make([]byte, length)
	return raw, readAt(c.r, raw, at)
}

// levelsBefore reads the levels that precede the values.
func (c *parquetColumn) levelsBefore(encoding format.Encoding, most int) (*hybrid, error) {
	p := &c.page
	if encoding != format.RLE {
		return nil, fmt.Errorf("%w: levels encoded by %v (expected RLE)", ErrUnsupported, encoding)
	}
	length, err := c.length(&p.body, p.next)
	if err != nil {
		return nil, err
	}
	p.next += 4
	if length > p.body.end-p.next || length > blocks.MostBytes {
		return nil, fmt.Errorf("%w: levels of %d bytes in a page of %d", ErrBad, length, p.body.end-p.body.at)
	}
	var raw []byte
	if p.body.data != nil {
		raw = p.body.data[p.next:][:length]
	} else if raw, err = c.readLevelsAt(p.next, length); err != nil {
		return nil, err
	}
	p.next += length
	return &hybrid{data: raw, width: bits.Len(uint(most))}, nil
}

// levelRun says how often the next level occurs in succession, as far as that is known.
type levelRun struct {
	of    *hybrid
	value int
	left  int64
}

// look makes value the next level.
func (r *levelRun) look() error {
	if r.left > 0 {
		return nil
	}
	v, err := r.of.next()
	r.value, r.left = int(v), 1
	if err == nil && !r.of.packed {
		more := min(r.of.left, 1<<40)
		r.left, r.of.left = r.left+int64(more), r.of.left-more
	}
	return err
}

// hybrid reads numbers of a few bits, in runs and in packs of eight ("RLE/Bit-Packing Hybrid" in Parquet's
// Encodings.md). It reads them one by one, so that a run of millions takes no memory.
type hybrid struct {
	data   []byte
	width  int
	plain  bool // only packs, without headers
	left   uint64
	packed bool
	value  uint32
	bits   uint64 // bits of packed numbers that were read and not used yet
	have   int
}

func (h *hybrid) next() (uint32, error) {
	for h.left == 0 {
		if h.plain {
			h.packed, h.left, h.have = true, 1<<62, 0
			break
		}
		head, n := binary.Uvarint(h.data)
		if n <= 0 {
			return 0, fmt.Errorf("%w: a page has fewer levels or indices than values", ErrBad)
		}
		h.data = h.data[n:]
		h.left, h.packed, h.bits, h.have = head>>1, head&1 == 1, 0, 0
		if h.packed {
			if h.left > uint64(len(h.data))+1<<20 { // a group takes no byte if its numbers have no bits
				return 0, fmt.Errorf("%w: a run of %d groups in %d bytes", ErrBad, h.left, len(h.data))
			}
			h.left *= 8
			continue
		}
		size := (h.width + 7) / 8
		if size > len(h.data) {
			return 0, fmt.Errorf("%w: a run without its value", ErrBad)
		}
		h.value = 0
		for i, c := range h.data[:size] {
			h.value |= uint32(c) << (8 * i)
		}
		h.data = h.data[size:]
	}
	h.left--
	if !h.packed {
		return h.value, nil
	}
	for h.have < h.width {
		if len(h.data) == 0 {
			return 0, fmt.Errorf("%w: a page has fewer levels or indices than values", ErrBad)
		}
		h.bits |= uint64(h.data[0]) << h.have
		h.data, h.have = h.data[1:], h.have+8
	}
	value := uint32(h.bits & (1<<h.width - 1))
	h.bits, h.have = h.bits>>h.width, h.have-h.width
	return value, nil
}
