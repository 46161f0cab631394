package native

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -lm
#include "core/times.h"
#include "native.h"
*/
import "C"

import (
	_ "github.com/headrace/headrace/native/core"
	_ "github.com/headrace/headrace/native/decode"
	_ "github.com/headrace/headrace/native/draws"
	_ "github.com/headrace/headrace/native/jpeg"
	_ "github.com/headrace/headrace/native/pixels"
	_ "github.com/headrace/headrace/native/plan"
	_ "github.com/headrace/headrace/native/resize"
	_ "github.com/headrace/headrace/native/write"
)

// Limits bound what one record may cost. The zero value is useless; start from DefaultLimits.
type Limits struct {
	MaxPixels       uint64 // width x height
	MaxDecoderBytes uint64 // what a Context may hold
	MaxRecordBytes  uint64 // encoded size
	MaxScanBlocks   uint64 // blocks that all scans of a JPEG together go through
	MaxScans        uint32 // scans of a progressive JPEG
}

// DefaultLimits returns the limits that core/memory.h documents.
func DefaultLimits() Limits {
	l := C.hrn_default_limits()
	return Limits{
		MaxPixels:       uint64(l.max_pixels),
		MaxDecoderBytes: uint64(l.max_decoder_bytes),
		MaxRecordBytes:  uint64(l.max_record_bytes),
		MaxScanBlocks:   uint64(l.max_scan_blocks),
		MaxScans:        uint32(l.max_scans),
	}
}

// Context is the memory of one decoding thread.
type Context struct {
	c     *C.hrn_context
	times *C.hrn_times // inside c; nil unless they are noted
}

// NewContext makes a context; it allocates little until the first image.
func NewContext(limits Limits) (*Context, error) {
	l := C.hrn_limits{
		max_pixels:        C.uint64_t(limits.MaxPixels),
		max_decoder_bytes: C.uint64_t(limits.MaxDecoderBytes),
		max_record_bytes:  C.uint64_t(limits.MaxRecordBytes),
		max_scan_blocks:   C.uint64_t(limits.MaxScanBlocks),
		max_scans:         C.uint32_t(limits.MaxScans),
	}
	c := C.hrn_context_new(&l)
	if c == nil {
		return nil, &Error{Code: Memory, Offset: -1, Text: "no memory for the tables of a decoding thread"}
	}
	return &Context{c: c}, nil
}

// Close frees the context's memory. It may be called twice, but not while a call runs.
func (c *Context) Close() {
	C.hrn_context_free(c.c)
	c.c, c.times = nil, nil
}
