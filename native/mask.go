package native

/*
#cgo noescape hrn_move_mask
#cgo nocallback hrn_move_mask
#include "native.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// MaskFillOfOp stands for what each op fills images with.
const MaskFillOfOp = C.HRN_MASK_FILL_OF_OP

// Mask is what MoveMask moves: Pixels, one byte each, or, if they are nil, a file in C, mapped or
// pinned memory. The file is a PNG of one channel of up to 8 bits, or with a palette, whose indices
// are the classes.
type Mask struct {
	Pixels        []byte
	File          unsafe.Pointer
	Length        int64
	Width, Height int32 // the size of its image
	Fill          int32 // what paddings and warps show from outside, or MaskFillOfOp
}

// MoveMask does to a mask what was drawn for its image, and writes toWidth x toHeight bytes to
// `to`. Of a file only what is shown in the end is decoded.
func (c *Context) MoveMask(drawn []Drawn, mask Mask, to unsafe.Pointer, toWidth, toHeight int32) error {
	var pins runtime.Pinner
	defer pins.Unpin()
	job := C.hrn_mask{
		width: C.int32_t(mask.Width), height: C.int32_t(mask.Height),
		to_width: C.int32_t(toWidth), to_height: C.int32_t(toHeight),
		to: (*C.uint8_t)(to), fill: C.int32_t(mask.Fill),
	}
	if mask.Pixels == nil {
		if mask.Length < 0 {
			return &Error{Code: Argument, Offset: -1, Text: "a mask of a negative length"}
		}
		job.file, job.length = (*C.uint8_t)(mask.File), C.size_t(mask.Length)
	} else {
		if int64(len(mask.Pixels)) != int64(mask.Width)*int64(mask.Height) || len(mask.Pixels) == 0 {
			return &Error{Code: Argument, Offset: -1, Text: "a mask whose bytes are not its sides' product"}
		}
		pins.Pin(&mask.Pixels[0]) // because job is Go memory, too
		job.pixels = (*C.uint8_t)(&mask.Pixels[0])
	}
	ops := make([]C.hrn_drawn, len(drawn))
	for i := range drawn {
		ops[i] = drawn[i].c()
	}
	var status C.hrn_status
	C.hrn_move_mask(c.c, unsafe.SliceData(ops), C.int32_t(len(ops)), &job, &status)
	if status.code != C.HRN_OK {
		return failure(&status)
	}
	return nil
}
