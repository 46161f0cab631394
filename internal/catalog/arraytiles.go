package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pathjson"
)

// TilesConfig says of which chunks images are assembled if they lie in pieces of several chunks, as with the chunks
// that h5py and zarr-python choose. Such chunks make one block together, which is decoded as a whole and kept as one.
type TilesConfig struct {
	Shape  []int64       `json:"shape"`  // of all images together: 2 to 4 axes in stored order, the images first
	Chunk  []int64       `json:"chunk"`  // of each chunk
	Chunks []ChunkConfig `json:"chunks"` // the last axis changes first; freed once they are checked

	tiles blocks.Tiles
	named blocks.Block // the block's name in the cache: a stored chunk, which no other block has
}

// check verifies that the chunks make one block, and that each lies inside its file.
func (c *TilesConfig) check(files []pathjson.Text, sizes []int64) error {
	refuse := func(file, format string, args ...any) error {
		return NewError(fault.KindArgument, file, "array: "+format, args...)
	}
	if len(c.Shape) != len(c.Chunk) || len(c.Shape) < 2 || len(c.Shape) > 4 {
		return refuse("", "tiles of %d axes of a block of %d (expected 2 to 4)", len(c.Chunk), len(c.Shape))
	}
	c.tiles = blocks.Tiles{Shape: [4]int64{1, 1, 1, 1}, Chunk: [4]int64{1, 1, 1, 1}, Parts: make([]blocks.Block, 0, len(c.Chunks))}
	copy(c.tiles.Shape[:], c.Shape)
	copy(c.tiles.Chunk[:], c.Chunk)
	for i := range c.Chunks {
		one := &c.Chunks[i]
		if one.File < 0 || one.File >= int64(len(files)) {
			return refuse("", "a tile is of file %d of %d", one.File, len(files))
		}
		if err := one.check(string(files[one.File]), sizes[one.File], true); err != nil {
			return err
		}
		b := blocks.Block{Container: uint32(one.File), Offset: one.Offset, Stored: uint32(one.Stored), Size: uint32(one.Size), Codec: one.codec}
		if c.tiles.Parts = append(c.tiles.Parts, b); c.named.Codec == blocks.None && b.Codec != blocks.Fill {
			c.named = b
		}
	}
	if err := c.tiles.Check(); err != nil {
		return refuse("", "%v", err)
	}
	if c.named.Codec == blocks.None {
		return refuse("", "none of %d tiles is stored", len(c.Chunks))
	}
	c.named.Size, c.named.Codec = uint32(c.tiles.Size()), blocks.Tiled
	c.Chunks = nil
	return nil
}

// place returns where an image lies that begins so many bytes into the block.
func (c *TilesConfig) place(inner int64) (file uint32, offset int64, place BlockPlace) {
	b := &c.named
	return b.Container, b.Offset, BlockPlace{Stored: b.Stored, Size: b.Size, Inner: uint32(inner), Codec: b.Codec}
}

// String returns a checksum for the fingerprint.
func (c *TilesConfig) String() string {
	h := sha256.New()
	fmt.Fprintf(h, "%v %v", c.tiles.Shape, c.tiles.Chunk)
	for i := range c.tiles.Parts {
		fmt.Fprintf(h, " %v", c.tiles.Parts[i])
	}
	return " " + hex.EncodeToString(h.Sum(nil))
}

// Tiles returns the chunks from which a sample of codec blocks.Tiled is assembled. Their containers are numbered from
// shard `first` on. It returns nil for any other sample.
func (d *Dataset) Tiles(i int64) (tiles *blocks.Tiles, first uint32) {
	for d.parts != nil && uint64(i) < uint64(d.rows) {
		var n int
		n, i = d.parts.of(i)
		d, first = d.parts.list[n], first+uint32(d.parts.shards[n])
	}
	if d.arrays == nil || uint64(i) >= uint64(d.rows) {
		return nil, 0
	}
	if s, _ := d.arrays.at(i); s.Tiles != nil {
		return &s.Tiles.tiles, first
	}
	return nil, 0
}
