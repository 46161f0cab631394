package pipeline

import (
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
)

// shuffledBlocks says what a full shuffle costs if samples share compressed blocks, which are pages and frames of
// containers and chunks of arrays; empty if it costs nothing, or if all blocks are kept.
func (c *Config) shuffledBlocks() (string, error) {
	o := c.Order.Config()
	if scattered := o.Shuffle && o.Window <= 0 || c.Submitted && c.Scattered; !scattered {
		return "", nil
	}
	kept := c.Blocks.Room()
	s, err := c.Dataset.SharedBlocks(kept)
	if err != nil || s.Bytes <= kept {
		return "", err
	}
	what, more, remedy := "block", "", `shuffle="window"`
	if c.Submitted { // torch's loader, which submits the batches, has no such option
		remedy = `headrace.Loader with shuffle="window"`
	}
	if c.Dataset.Kind() == catalog.Arrays {
		what = "chunk"
	}
	if s.More {
		more = "more than "
	}
	return fmt.Sprintf("the images lie in %s%d compressed %ss of %d images and %d kB on average, of which %d MB are kept: in shuffled order "+
		"nearly every image costs a whole %s; %s decodes one for its neighbours, and headrace pack makes shards, whose images cost the same in any order",
		more, s.Count, what, s.Rows/s.Count, s.Bytes/s.Count>>10, kept>>20, what, remedy), nil
}
