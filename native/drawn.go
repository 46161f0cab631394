package native

/*
#cgo noescape hrn_plan_replay
#cgo nocallback hrn_plan_replay
#include "native.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Drawn is what one op of a plan did to one image: an op whose arguments are fixed, as plan/plan.h says.
type Drawn struct {
	Number        int32 // the op's number in the plan
	Width, Height int32 // the image's size before the op
	Op            Op
	Box           Crop // what a RandomResizedCrop or a RandomCrop drew, after its padding
	ByBoxes       bool // a Crop that an IoUCrop drew
}

// Replay says what all ops do to one image of that size. If it comes to an IoUCrop that the key has
// no crop for, it ends with that op.
func (p *Plan) Replay(key Key, width, height uint32) ([]Drawn, error) {
	var drawn [2*MaxOps + MaxPixelOps]C.hrn_drawn
	var count C.int32_t
	var status C.hrn_status
	k := key.c()
	C.hrn_plan_replay(p.c, &k, C.uint32_t(width), C.uint32_t(height), &drawn[0], C.int32_t(len(drawn)), &count, &status)
	runtime.KeepAlive(p)
	if status.code != C.HRN_OK {
		return nil, failure(&status)
	}
	found := make([]Drawn, count)
	for i := range found {
		d := &drawn[i]
		found[i] = Drawn{int32(d.number), int32(d.width), int32(d.height), opOf(&d.op), cropOf(d.box), d.by_boxes != 0}
	}
	return found, nil
}

func (d *Drawn) c() C.hrn_drawn {
	drawn := C.hrn_drawn{number: C.int32_t(d.Number), width: C.int32_t(d.Width), height: C.int32_t(d.Height),
		by_boxes: number(d.ByBoxes), box: d.Box.c()}
	d.Op.fill(&drawn.op)
	return drawn
}

// member returns the op's union as its member of type T.
func member[T any](op *C.hrn_op) T { return *(*T)(unsafe.Pointer(&op.anon0)) }

// opOf returns the Op of a replay that corresponds to op; nil for a kind that no replay has.
func opOf(op *C.hrn_op) Op {
	filter, fill := int32(op.filter), three(op.fill)
	switch op.kind {
	case C.HRN_OP_CROP:
		return cropOf(member[C.hrn_op_box](op))
	case C.HRN_OP_RESIZE:
		size := member[C.hrn_op_size](op)
		return Resize{int32(size.height), int32(size.width), filter}
	case C.HRN_OP_RESIZE_BOX:
		from := member[C.hrn_op_resize_box](op)
		box := [4]float64{float64(from.box[0]), float64(from.box[1]), float64(from.box[2]), float64(from.box[3])}
		return ResizeBox{int32(from.size.height), int32(from.size.width), filter, box}
	case C.HRN_OP_REDUCE:
		from := member[C.hrn_op_reduce](op)
		return Reduce{int32(from.across), int32(from.down), int32(from.draft)}
	case C.HRN_OP_RESIZE_SHORTER:
		from := member[C.hrn_op_shorter](op)
		return ResizeShorter{int32(from.size), int32(from.max_size), filter}
	case C.HRN_OP_CENTER_CROP:
		size := member[C.hrn_op_size](op)
		return CenterCrop{int32(size.height), int32(size.width)}
	case C.HRN_OP_RANDOM_RESIZED_CROP:
		from := member[C.hrn_op_resized_crop](op)
		return RandomResizedCrop{int32(from.size.height), int32(from.size.width), filter, two(from.scale), two(from.ratio)}
	case C.HRN_OP_RANDOM_CROP:
		from := member[C.hrn_op_random_crop](op)
		return RandomCrop{int32(from.size.height), int32(from.size.width), paddingOf(from.padding), from.if_needed != 0, fill}
	case C.HRN_OP_HORIZONTAL_FLIP:
		return HorizontalFlip{float64(member[C.double](op))}
	case C.HRN_OP_VERTICAL_FLIP:
		return VerticalFlip{float64(member[C.double](op))}
	case C.HRN_OP_PAD:
		return Pad{paddingOf(member[C.hrn_op_padding](op)), fill}
	case C.HRN_OP_IOU_CROP:
		return IoUCrop{} // a replay ends here; nothing is drawn yet
	case C.HRN_OP_FIVE_CROP:
		from := member[C.hrn_op_crops](op)
		return FiveCrop{int32(from.size.height), int32(from.size.width), from.ten != 0, from.vertical != 0}
	case C.HRN_OP_ERASE:
		from := member[C.hrn_op_erasing](op)
		return &Erasing{Kind: OpErase, With: int32(from.fill), Boxes: [2]int32{1, 1}, Probability: 1,
			Value: three(from.value), Box: cropOf(from.box)}
	case C.HRN_OP_PIXEL:
		pixel := member[C.hrn_op_pixel](op)
		return pixelOf(&pixel, filter, fill)
	}
	return nil
}

func two(of [2]C.double) [2]float64 { return [2]float64{float64(of[0]), float64(of[1])} }

func three(of [3]C.double) [3]float64 {
	return [3]float64{float64(of[0]), float64(of[1]), float64(of[2])}
}

func cropOf(box C.hrn_op_box) Crop {
	return Crop{int32(box.top), int32(box.left), int32(box.height), int32(box.width)}
}

func paddingOf(p C.hrn_op_padding) Padding {
	return Padding{int32(p.left), int32(p.top), int32(p.right), int32(p.bottom), int32(p.mode)}
}
