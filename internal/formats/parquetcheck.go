package formats

import (
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// CheckPages reads every page with a CRC-32 by its writer, and calls wrong if the page has another one.
func (p *Parquet) CheckPages(wrong func(column string, offset int64, want, found uint32)) error {
	for _, g := range p.groups {
		for i := range p.columns {
			// No page is decoded here, so none takes memory.
			budget := int64(0)
			c := parquetColumn{}
			c.start(p, g.chunks[i], &budget)
			name := fmt.Sprintf("number %d", i) // for a column inside a list
			if leaf := p.columns[i].leaf; leaf >= 0 {
				name = strings.Join(p.Leaves[leaf].Path, ".")
			}
			for c.at < c.chunk.end {
				at := c.at
				c.page.header = at
				h, begin, err := c.readHeader()
				if err != nil {
					return &WalkError{at, err}
				}
				// Few writers store one: pyarrow does if it is asked to (write_page_checksum).
				if c.at = begin + h.stored; !h.hasCRC {
					continue
				}
				sum := crc32.NewIEEE()
				if _, err := io.Copy(sum, io.NewSectionReader(p.r, begin, h.stored)); err != nil {
					return err
				}
				if found := sum.Sum32(); found != h.crc {
					wrong(name, at, h.crc, found)
				}
			}
		}
	}
	return nil
}
