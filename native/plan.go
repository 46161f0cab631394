package native

/*
#cgo noescape hrn_plan_new
#cgo nocallback hrn_plan_new
#cgo noescape hrn_plan_size
#cgo nocallback hrn_plan_size
#cgo noescape hrn_plan_drawn_size
#cgo nocallback hrn_plan_drawn_size
#cgo noescape hrn_plan_iou_crop
#cgo nocallback hrn_plan_iou_crop
#cgo noescape hrn_plan_draw
#cgo nocallback hrn_plan_draw
#include "native.h"
*/
import "C"

import (
	"runtime"
	"slices"
	"unsafe"
)

// The values of an op's Filter: Pillow's Image.Resampling, and two of torch's filters.
const (
	Nearest  int32 = C.HRN_NEAREST
	Lanczos  int32 = C.HRN_LANCZOS
	Bilinear int32 = C.HRN_BILINEAR
	Bicubic  int32 = C.HRN_BICUBIC
	Box      int32 = C.HRN_BOX
	Hamming  int32 = C.HRN_HAMMING

	// TensorBilinear and TensorBicubic round as torch does when it resizes tensors of bytes.
	TensorBilinear int32 = C.HRN_TENSOR_BILINEAR
	TensorBicubic  int32 = C.HRN_TENSOR_BICUBIC
)

// RandomCrop's padding modes.
const (
	PadConstant  int32 = C.HRN_PAD_CONSTANT
	PadEdge      int32 = C.HRN_PAD_EDGE
	PadReflect   int32 = C.HRN_PAD_REFLECT
	PadSymmetric int32 = C.HRN_PAD_SYMMETRIC
)

// The values of Output's fields.
const (
	Uint8    int32 = C.HRN_UINT8
	Float16  int32 = C.HRN_FLOAT16
	BFloat16 int32 = C.HRN_BFLOAT16
	Float32  int32 = C.HRN_FLOAT32

	NCHW int32 = C.HRN_NCHW
	NHWC int32 = C.HRN_NHWC

	ScaleDiv int32 = C.HRN_SCALE_DIV
	ScaleMul int32 = C.HRN_SCALE_MUL

	Exact int32 = C.HRN_EXACT
	Fast  int32 = C.HRN_FAST

	PassesCheaper    int32 = C.HRN_PASSES_CHEAPER
	PassesTall       int32 = C.HRN_PASSES_TALL
	PassesHorizontal int32 = C.HRN_PASSES_HORIZONTAL
)

// MaxOps is the most ops that a plan takes.
const MaxOps = C.HRN_MAX_OPS

// MaxPixelOps is the most ops on pixels that one image takes.
const MaxPixelOps = C.HRN_MAX_PIXEL_OPS

// Output is the form of a finished sample.
type Output struct {
	DType, Layout, Scale, Mode int32
	Passes                     int32 // which pass of a resize comes first
	Unmixed                    bool  // Sample writes what FinishMixed takes
	Grey                       bool  // only the first of the three channels
	Normalize                  bool
	Mean, Std                  [3]float32
	SourceWidth, SourceHeight  uint32 // the size of every image that the plan will see; 0: unknown
	SourceGrey                 bool   // each of those images has one channel
}

// Plan is a checked and compiled sequence of ops. It is immutable: any number of contexts may use
// it at once. Its memory is C memory, freed by Close.
type Plan struct {
	c        *C.hrn_plan
	size     Size
	output   Output
	mix      *Mix
	boxes    bool // it has an IoUCrop
	programs bool // it has a User or a Displaced op
}

// Size is the size of a finished sample. Fixed says that it is the same for every image.
type Size struct {
	Fixed         bool
	Width, Height uint32
	Images        uint32 // 0: one image as such; else how many, one after the other
	Bytes         uint64
}

// NewPlan checks and compiles the ops. The error is an *Error with code Argument that names the op
// by its number, and the parameter.
func NewPlan(ops []Op, output Output) (*Plan, error) {
	list := make([]C.hrn_op, len(ops)+1) // one more, so that an empty plan has an address
	for i, op := range ops {
		if op != nil { // nil is refused as an op of no kind
			op.fill(&list[i])
		}
	}
	form := C.hrn_output{
		dtype:  C.int32_t(output.DType),
		layout: C.int32_t(output.Layout),
		scale:  C.int32_t(output.Scale),
		mode:   C.int32_t(output.Mode),
		passes: C.int32_t(output.Passes),
	}
	form.source_width, form.source_height = C.int32_t(output.SourceWidth), C.int32_t(output.SourceHeight)
	if output.SourceGrey {
		form.source_grey = 1
	}
	if output.Unmixed {
		form.unmixed = 1
	}
	if output.Grey {
		form.grey = 1
	}
	if output.Normalize {
		form.normalize = 1
	}
	for c := range output.Mean {
		form.mean[c] = C.float(output.Mean[c])
		form.std[c] = C.float(output.Std[c])
	}
	var status C.hrn_status
	plan := C.hrn_plan_new(&list[0], C.int32_t(len(ops)), &form, &status)
	if plan == nil {
		return nil, failure(&status)
	}
	p := &Plan{c: plan, output: output}
	p.boxes = slices.ContainsFunc(ops, func(op Op) bool { _, ok := op.(IoUCrop); return ok })
	p.programs = slices.ContainsFunc(ops, func(op Op) bool {
		switch op.(type) {
		case User, Displaced:
			return true
		}
		return false
	})
	if size, err := p.Size(1, 1); err == nil && size.Fixed {
		p.size = size
	}
	return p, nil
}

// Close frees the plan. No Sample may be running with it; closing twice is harmless.
func (p *Plan) Close() {
	C.hrn_plan_free(p.c)
	p.c = nil
}

// Output returns the form of the plan's samples.
func (p *Plan) Output() Output { return p.output }

// LooksAtBoxes says whether what the plan draws depends on the boxes of a sample: it has an
// IoUCrop.
func (p *Plan) LooksAtBoxes() bool { return p.boxes }

// UsesProgram says whether the plan calls a function of the program or reads its memory: it has a
// User or a Displaced.
func (p *Plan) UsesProgram() bool { return p.programs }

// FixedSize returns the size of every sample, and whether all have the same, which a batch needs.
func (p *Plan) FixedSize() (Size, bool) { return p.size, p.size.Fixed }

// Size returns the size of the sample that is made from an image of width x height.
func (p *Plan) Size(width, height uint32) (Size, error) {
	var size C.hrn_size
	var status C.hrn_status
	C.hrn_plan_size(p.c, C.uint32_t(width), C.uint32_t(height), &size, &status)
	runtime.KeepAlive(p)
	if status.code != C.HRN_OK {
		return Size{}, failure(&status)
	}
	return sizeOf(&size), nil
}

// DrawnSize returns the size of the sample that the key makes from an image of width x height, also
// if the plan leaves the size to chance.
func (p *Plan) DrawnSize(key Key, width, height uint32) (Size, error) {
	var size C.hrn_size
	var status C.hrn_status
	k := key.c()
	C.hrn_plan_drawn_size(p.c, &k, C.uint32_t(width), C.uint32_t(height), &size, &status)
	runtime.KeepAlive(p)
	if status.code != C.HRN_OK {
		return Size{}, failure(&status)
	}
	return sizeOf(&size), nil
}

func sizeOf(size *C.hrn_size) Size {
	return Size{size.fixed != 0, uint32(size.width), uint32(size.height), uint32(size.images), uint64(size.bytes)}
}

// Key is what random ops draw from, together with the op's place in the plan. Draw is 0 if a sample
// comes once an epoch; otherwise it distinguishes the sample's appearances. View 0 is a sample's
// only or first view.
type Key struct {
	Seed, Epoch, Sample, Draw uint64
	View                      uint32
	// What the first Settled IoUCrops that the plan meets have drawn for the sample's boxes. A
	// Height of 0 leaves the image as it is.
	Settled int32
	Crops   [MaxIoUCrops]Crop
}

func (k Key) c() C.hrn_key {
	key := C.hrn_key{
		seed:    C.uint64_t(k.Seed),
		epoch:   C.uint64_t(k.Epoch),
		sample:  C.uint64_t(k.Sample),
		draw:    C.uint64_t(k.Draw),
		view:    C.uint32_t(k.View),
		settled: C.int32_t(k.Settled),
	}
	for i, crop := range k.Crops[:k.Settled] {
		key.crop[i] = C.hrn_settled_crop{top: C.int32_t(crop.Top), left: C.int32_t(crop.Left),
			height: C.int32_t(crop.Height), width: C.int32_t(crop.Width)}
	}
	return key
}

// IoUCrop says what op number op, an IoUCrop, draws for an image of that size and its boxes (left,
// top, right, bottom of each). The error has code Limit if torchvision would try with no end in
// sight.
func (p *Plan) IoUCrop(op int32, key Key, width, height int32, boxes []float32) (Crop, error) {
	k := key.c()
	var crop C.hrn_settled_crop
	var status C.hrn_status
	C.hrn_plan_iou_crop(p.c, C.int32_t(op), &k, C.int32_t(width), C.int32_t(height),
		(*C.float)(unsafe.SliceData(boxes)), C.int32_t(len(boxes)/4), &crop, &status)
	runtime.KeepAlive(p)
	if status.code != C.HRN_OK {
		return Crop{}, failure(&status)
	}
	return Crop{int32(crop.top), int32(crop.left), int32(crop.height), int32(crop.width)}, nil
}

// Draw says what op number op would do to an image of that size: top, left, height, width for the
// random crops; 1 in the first place for a flip that flips.
func (p *Plan) Draw(op int, key Key, width, height uint32) ([8]int32, error) {
	k := key.c()
	var draw C.hrn_draw
	var status C.hrn_status
	C.hrn_plan_draw(p.c, C.int32_t(op), &k, C.uint32_t(width), C.uint32_t(height), &draw, &status)
	if status.code != C.HRN_OK {
		return [8]int32{}, failure(&status)
	}
	return *(*[8]int32)(unsafe.Pointer(&draw.value)), nil
}
