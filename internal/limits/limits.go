// Package limits reads the limits that a configuration gives on what is opened, in JSON. What each of them
// bounds stands in docs/limits.md, their defaults and least and greatest values where they are kept: package
// native has those of images, package blocks those of compressed blocks.
package limits

import (
	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/native"
)

// Limits are native.Limits and blocks.Limits in JSON; 0 stands for the default of each.
type Limits struct {
	MaxPixels       uint64 `json:"max_pixels"`
	MaxDecoderBytes uint64 `json:"max_decoder_bytes"`
	MaxRecordBytes  uint64 `json:"max_record_bytes"`
	MaxScanBlocks   uint64 `json:"max_scan_blocks"`
	MaxScans        uint32 `json:"max_scans"`
	MaxBlockBytes   int64  `json:"max_block_bytes"`
	MaxCachedBytes  int64  `json:"max_cached_bytes"`
}

// Blocks are those of compressed blocks, which datasets alone have. They are not checked.
func (l Limits) Blocks() blocks.Limits {
	return blocks.Limits{Block: l.MaxBlockBytes, Cached: l.MaxCachedBytes}
}

// Native are those of images, with the defaults of what is not given.
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
