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

// MaskFillOfOp is what each op fills images with.
const MaskFillOfOp = C.HRN_MASK_FILL_OF_OP

// MoveMask does to a mask of width x height bytes what was drawn for its image, and writes
// toWidth x toHeight bytes to `to`. What paddings and warps take from outside is fill, or
// MaskFillOfOp.
func (c *Context) MoveMask(drawn []Drawn, mask []byte, width, height, fill int32,
	to unsafe.Pointer, toWidth, toHeight int32) error {
	if int64(len(mask)) != int64(width)*int64(height) {
		return &Error{Code: Argument, Offset: -1, Text: "a mask whose bytes are not its sides' product"}
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	job := C.hrn_mask{
		width: C.int32_t(width), height: C.int32_t(height),
		to_width: C.int32_t(toWidth), to_height: C.int32_t(toHeight),
		to: (*C.uint8_t)(to), fill: C.int32_t(fill),
	}
	if len(mask) > 0 {
		pins.Pin(&mask[0]) // for job is Go memory, too
		job.pixels = (*C.uint8_t)(&mask[0])
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
