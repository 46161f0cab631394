package catalog

import (
	"fmt"

	"github.com/headrace/headrace/internal/blocks"
)

// Verdict is the result of reading all entropy data of a file. It belongs to the file, and never to a crop of it.
type Verdict uint8

// These values stand in the index, so their numbers never change.
const (
	Unknown     Verdict = iota // only listed: nobody has read the file
	Good                       //
	Warnings                   // the decoder warned; the pixels are those Pillow gives
	Truncated                  // the entropy data ends before the last block
	Bad                        // not a valid image of its kind
	Unsupported                // a valid kind that is not decoded here
	Limit                      // over a limit that applied when it was packed or indexed
	verdicts
)

var verdictNames = [verdicts]string{"unknown", "good", "warnings", "truncated", "bad", "unsupported", "limit"}

func (v Verdict) String() string {
	if v < verdicts {
		return verdictNames[v]
	}
	return "invalid"
}

// UnknownLength is the length of a sample in a folder that was only listed: no file was touched.
const UnknownLength = -1

// NoLabel is the label of a sample without a label.
const NoLabel = -1

// Sample says where a sample's bytes are and what is known of them. In a folder every sample is its own file: Shard and
// Offset are 0, and Dataset.Path names the file. A concatenation counts the samples and the shards of all its parts
// together.
type Sample struct {
	Index   int64
	Shard   uint32
	Offset  int64 // of the encoded bytes in the shard, or of their block
	Length  int64 // of the encoded bytes, UnknownLength in a listed folder
	Label   int64
	MTimeNs int64 // of the file when it was indexed; 0 in packed and listed datasets
	Facts
	HasCRC  bool // CRC32C is known; false in a listed folder
	Verdict Verdict
	Seek    SeekPlace
	Pixels  *Pixels // the layout of an image of an array; nil for files
	Block   BlockPlace
}

// BlockPlace is where a sample's bytes lie in a stretch of a container that is compressed as a whole. It is all 0 if
// the container stores the bytes as they are. Codecs are those of package blocks.
type BlockPlace struct {
	Stored, Size uint32 // bytes of the block in the container, and after decoding
	Inner        uint32 // where the sample begins in the decoded block
	Codec        uint8
}

// ValuePlace is the place of a field's value in a block, and the CRC-32C of its bytes. Pages compressed by snappy have
// no checksum of their own, and zstd's mostly have none. 0 means that the checksum is not known, as for a value that
// lies in no block.
type ValuePlace struct {
	BlockPlace
	CRC32C uint32
}

// Check refuses an impossible block, and a range of so many bytes that does not lie in it. The caller checks that the
// block lies in its container.
func (b BlockPlace) Check(length uint64) error {
	stored, decoded, inner := uint64(b.Stored), uint64(b.Size), uint64(b.Inner)
	if !blocks.Known(b.Codec) || stored > blocks.MostBytes || decoded > blocks.MostBytes || inner > decoded || length > decoded-inner {
		return fmt.Errorf("%d bytes at %d of a block of codec %d, %d bytes stored and %d decoded", length, inner, b.Codec, stored, decoded)
	}
	return nil
}

// Stored returns how many bytes of its container hold the sample.
func (s *Sample) Stored() int64 {
	if s.Block.Codec != 0 {
		return int64(s.Block.Stored)
	}
	return s.Length
}

// InBlock returns the block in which the sample lies.
func (s *Sample) InBlock() blocks.Block {
	return blocks.Block{Container: s.Shard, Offset: s.Offset, Stored: s.Block.Stored, Size: s.Block.Size, Codec: s.Block.Codec}
}

// SeekPlace is where a sample's seek points lie in the seek file; all 0 if it has none.
type SeekPlace struct {
	Offset, Length int64
	CRC32C         uint32
}

// Facts mirrors what package native finds in a file; 0 always means unknown. Codes are those of native/core/facts.h.
type Facts struct {
	Width, Height, CRC32C                           uint32
	Channels, Codec, Sampling, Process, Orientation uint8
}

// Field describes one of the further values that a sample has beside image and label.
type Field struct {
	Name  string    `json:"name"`
	Type  FieldType `json:"type"`
	DType string    `json:"dtype,omitempty"` // for arrays: NumPy's name
	Shape []int64   `json:"shape,omitempty"` // for arrays that all have one shape; otherwise empty
	// Located: the index holds where the value lies in the sample's container, and not the value.
	Located bool `json:"located,omitempty"`
	// Blocks: the value of a located field may lie in a compressed block of the container, and the index has columns
	// for that.
	Blocks bool `json:"blocks,omitempty"`
}

// FieldType is the type of a field, in words that Python shares.
type FieldType string

// The five types. Values are int64, float64, string, []byte and Array.
const (
	Int       FieldType = "int"
	Float     FieldType = "float"
	Str       FieldType = "str"
	Bytes     FieldType = "bytes"
	ArrayType FieldType = "array"
)

// Array is a value of an array field: little-endian, row-major.
type Array struct {
	DType string
	Shape []int64
	Data  []byte
}

// Kind says how a dataset lies on disk.
type Kind uint8

// The eight kinds.
const (
	Packed       Kind = iota // shards and index in one directory
	Indexed                  // an image folder with an index in it or elsewhere
	Listed                   // an image folder, or a list of files, without index
	Concatenated             // several datasets of any kind, one after the other
	Scanned                  // containers of others, whose headers were read
	Contained                // containers of others, with an index
	Arrays                   // arrays of pixels in files
	InMemory                 // arrays of pixels in the program's memory
)

// InShards is true if samples are parts of larger files, which have numbers.
func (k Kind) InShards() bool { return k == Packed || k == Scanned || k == Contained || k == Arrays }

func (k Kind) String() string {
	switch k {
	case Packed:
		return "packed"
	case Indexed:
		return "indexed"
	case Concatenated:
		return "concatenated"
	case Scanned:
		return "scanned"
	case Contained:
		return "contained"
	case Arrays:
		return "arrays"
	case InMemory:
		return "memory"
	default:
		return "listed"
	}
}

// ShardInfo is one shard, or one container, as the manifest states it.
type ShardInfo struct {
	Name string `json:"name"` // for containers: below the manifest's root, with slashes
	Size int64  `json:"size"` // of the whole file
	Rows int64  `json:"rows"`

	MTimeNs int64  `json:"mtime_ns,omitempty"`    // of a container when it was indexed
	Ends    string `json:"ends_crc32c,omitempty"` // checksum of its first and last bytes (EndsOf)
	Version string `json:"version,omitempty"`     // of a container in a store when it was indexed
	Txn     uint64 `json:"txn,omitempty"`         // for an LMDB: the number of its last transaction
}
