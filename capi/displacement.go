package main

/*
#include "headrace.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/native"
)

// displacement is hr_decode with "displacement". The answer is no image, but how far the one
// transform, an Elastic, moves each pixel of an image of that size.
func displacement(c *decodeConfig, plan *native.Plan, into []byte, result *C.hr_image) error {
	if len(c.Size) != 2 || c.Size[0] < 1 || c.Size[1] < 1 {
		return argument(fmt.Sprintf("size is %v (expected the image's height and width)", c.Size))
	}
	need := 8 * int64(c.Size[0]) * int64(c.Size[1])
	if most := int64(c.Limits.Native().MaxDecoderBytes); need > most {
		return argument(fmt.Sprintf("size is %v, whose displacements have %d bytes (expected at most %d)", c.Size, need, most))
	}
	drawn, err := plan.Replay(native.Key{}, uint32(c.Size[1]), uint32(c.Size[0]))
	if err != nil {
		return transform.Explain(c.Transform, err)
	}
	var op native.FixedElastic
	one := len(drawn) == 1
	if one {
		op, one = drawn[0].Op.(native.FixedElastic)
	}
	if !one {
		return argument("displacement is asked of other transforms than one Elastic")
	}
	told(result, uint32(c.Size[1]), uint32(c.Size[0]), uint64(need))
	if len(into) == 0 {
		return nil
	}
	if err := room(int64(len(into)), need); err != nil {
		return err
	}
	found, err := op.Displacements(c.Size[1], c.Size[0])
	if err != nil {
		return transform.Explain(c.Transform, err)
	}
	copy(into, unsafe.Slice((*byte)(unsafe.Pointer(&found[0])), need))
	return nil
}
