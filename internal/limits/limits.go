// Package limits reads the limits that a configuration sets for what is opened, in JSON. docs/limits.md says what each
// of them bounds. Their defaults and ranges are where the limits are kept: those of images in package native, those of
// compressed blocks in package blocks.
package limits

import (
	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/native"
)

// Limits are native.Limits and blocks.Limits in JSON; 0 stands for the default.
type Limits struct {
	MaxPixels       uint64 `json:"max_pixels"`
	MaxDecoderBytes uint64 `json:"max_decoder_bytes"`
	MaxRecordBytes  uint64 `json:"max_record_bytes"`
	MaxScanBlocks   uint64 `json:"max_scan_blocks"`
	MaxScans        uint32 `json:"max_scans"`
	MaxBlockBytes   int64  `json:"max_block_bytes"`
	MaxCachedBytes  int64  `json:"max_cached_bytes"`
}

// Blocks returns the limits of compressed blocks, which only datasets have. They are not checked.
func (l Limits) Blocks() blocks.Limits {
	return blocks.Limits{Block: l.MaxBlockBytes, Cached: l.MaxCachedBytes}
}

// Native returns the limits of images, with defaults for those that are not given.
func (l Limits) Native() native.Limits {
	n := native.DefaultLimits()
	set := func(to *uint64, v uint64) {
		if v != 0 {
			*to = v
		}
	}
	set(&n.MaxPixels, l.MaxPixels)
	set(&n.MaxDecoderBytes, l.MaxDecoderBytes)
	set(&n.MaxRecordBytes, l.MaxRecordBytes)
	set(&n.MaxScanBlocks, l.MaxScanBlocks)
	if l.MaxScans != 0 {
		n.MaxScans = l.MaxScans
	}
	return n
}
