package catalog

import (
	"fmt"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
)

// ChunkConfig is a stretch of a file that decodes to images of an array.
type ChunkConfig struct {
	Offset int64  `json:"offset"` // in the file
	Stored int64  `json:"stored"` // bytes in the file
	Size   int64  `json:"size"`   // bytes after decoding
	Codec  string `json:"codec"`  // "gzip", "zlib", "zstd", "lz4", "lz4 pieces", "blosc", "plain" or "fill"
	Sum    string `json:"sum"`    // the checksum in the four bytes behind it: "crc32c", "fletcher32", "" for none
	Fill   uint8  `json:"fill"`   // for "fill", which stores nothing: the value of every byte
	File   int64  `json:"file"`   // of a tile: its number among the array's files

	codec uint8
}

var (
	chunkCodecs = map[string]uint8{"gzip": blocks.Gzip, "zlib": blocks.Zlib, "zstd": blocks.Zstd,
		"lz4": blocks.LZ4Sized, "lz4 pieces": blocks.LZ4Pieces, "blosc": blocks.Blosc, "plain": blocks.Plain}
	chunkSums = map[string]uint8{"": 0, "crc32c": blocks.CRC32C, "fletcher32": blocks.Fletcher32}
)

// check verifies that a chunk lies inside its file and is within the limit for blocks. A tile may be stored without
// compression.
func (c *ChunkConfig) check(file string, size int64, tile bool) error {
	codec, known := chunkCodecs[c.Codec]
	sum, summed := chunkSums[c.Sum]
	if c.Codec == "fill" {
		c.codec, c.Offset, c.Stored, c.Sum = blocks.Fill, int64(c.Fill), 0, ""
		if c.Size < 1 || c.Size > blocks.MostBytes {
			return NewError(fault.KindLimit, file, "%s", fault.Differs("a chunk of the array is too large", fmt.Sprintf("at most %d bytes", int64(blocks.MostBytes)), c.Size))
		}
		return nil
	}
	if c.codec = codec | sum; !known || !summed || !blocks.Known(c.codec) && !(tile && c.codec == blocks.Plain) {
		return NewError(fault.KindArgument, file, "array: a chunk of codec %q with the sum %q", c.Codec, c.Sum)
	}
	switch {
	case c.Stored < 0 || c.Size < 0 || c.Offset < 0:
		return NewError(fault.KindBadFile, file, "a chunk of the array has %d bytes at %d, %d once it is decoded", c.Stored, c.Offset, c.Size)
	case c.Stored > blocks.MostBytes || c.Size > blocks.MostBytes:
		return NewError(fault.KindLimit, file, "%s", fault.Differs("a chunk of the array is too large", fmt.Sprintf("at most %d bytes", int64(blocks.MostBytes)), max(c.Stored, c.Size)))
	case c.Offset > size-c.Stored:
		e := NewError(fault.KindTruncated, file, "%s", fault.Differs("the file ends before a chunk of the array does", fmt.Sprintf("%d bytes", c.Offset+c.Stored), size))
		e.Offset = size
		return e
	}
	return nil
}

// place returns where an image lies that begins so many bytes into the decoded chunk.
func (c *ChunkConfig) place(inner int64) BlockPlace {
	return BlockPlace{Stored: uint32(c.Stored), Size: uint32(c.Size), Inner: uint32(inner), Codec: c.codec}
}

// String returns the text that goes into a fingerprint: everything that says where the rows lie.
func (s *Stretch) String() string {
	text := fmt.Sprintf("%d %d %d %d", s.File, s.Offset, s.Stride, s.Rows)
	if s.Tiles != nil {
		text += s.Tiles.String()
	}
	if s.Chunk != nil {
		text += fmt.Sprintf(" %d %d %d %d", s.Chunk.Offset, s.Chunk.Stored, s.Chunk.Size, s.Chunk.codec)
	}
	return text
}

// Chunks returns the number of an array's compressed chunks, their bytes after decoding, and their images; all 0 if
// there are none. Tiles that make one block together count as one.
func (d *Dataset) Chunks() (count, bytes, rows int64) {
	if d.arrays != nil {
		for i := range d.arrays.stretches {
			switch s := &d.arrays.stretches[i]; {
			case s.Tiles != nil:
				count, bytes, rows = count+1, bytes+s.Tiles.tiles.Size(), rows+s.Rows
			case s.Chunk != nil && s.Chunk.codec != blocks.Fill:
				count, bytes, rows = count+1, bytes+s.Chunk.Size, rows+s.Rows
			}
		}
	}
	for _, part := range d.Parts() {
		c, b, r := part.Chunks()
		count, bytes, rows = count+c, bytes+b, rows+r
	}
	return count, bytes, rows
}
