package native

/*
#include "native.h"
*/
import "C"

import "unsafe"

// Op is one transform as data: one of the types of this file, pixelop.go and fixed.go. Each
// corresponds to a member of hrn_op, whose fields draws/op.h documents. Filter is a value of
// Pillow's Image.Resampling. Fill is what paddings and warps show from outside: integers from 0 to
// 255.
type Op interface {
	fill(op *C.hrn_op)
}

// Crop is a fixed box, which may lie outside the image.
type Crop struct{ Top, Left, Height, Width int32 }

// Resize resizes to an exact size.
type Resize struct{ Height, Width, Filter int32 }

// ResizeBox resizes a part of the image: left, top, right, bottom, with fractions.
type ResizeBox struct {
	Height, Width, Filter int32
	Box                   [4]float64
}

// Reduce divides both sides by whole factors, and rounds them up. With a draft libjpeg does it. A
// draft must be the first op, and both its factors must be the same, 1, 2, 4 or 8.
type Reduce struct{ Across, Down, Draft int32 }

// What a draft decodes.
const (
	DraftColours int32 = C.HRN_DRAFT_COLOURS
	DraftGrey    int32 = C.HRN_DRAFT_GREY
)

// ResizeShorter is torchvision's Resize to one number.
type ResizeShorter struct{ Size, MaxSize, Filter int32 }

// CenterCrop crops the middle, and pads a side that is too small.
type CenterCrop struct{ Height, Width int32 }

// RandomResizedCrop crops a box of random area and aspect ratio, and resizes it.
type RandomResizedCrop struct {
	Height, Width, Filter int32
	Scale, Ratio          [2]float64
}

// Padding is what is added around an image.
type Padding struct{ Left, Top, Right, Bottom, Mode int32 }

// RandomCrop crops a box of fixed size anywhere in the padded image.
type RandomCrop struct {
	Height, Width int32
	Padding       Padding
	IfNeeded      bool
	Fill          [3]float64
}

// Pads returns by how much the op pads an image of that size before it crops. With IfNeeded that
// includes what is missing for its box, on both sides.
func (c RandomCrop) Pads(width, height int32) Padding {
	p := c.Padding
	if c.IfNeeded {
		across, down := max(0, c.Width-width-p.Left-p.Right), max(0, c.Height-height-p.Top-p.Bottom)
		p.Left, p.Right, p.Top, p.Bottom = p.Left+across, p.Right+across, p.Top+down, p.Bottom+down
	}
	return p
}

// HorizontalFlip flips with its probability.
type HorizontalFlip struct{ Probability float64 }

// VerticalFlip flips with its probability.
type VerticalFlip struct{ Probability float64 }

// Pad adds to the image's sides.
type Pad struct {
	Padding Padding
	Fill    [3]float64
}

// RandomShortestSize resizes the shorter side to one of at most MaxSizes lengths.
type RandomShortestSize struct {
	MaxSize int32
	Sizes   []int32
	Filter  int32
}

// RandomResize resizes the shorter side to a length from Least up to End, which itself is never
// drawn.
type RandomResize struct{ Least, End, Filter int32 }

// ScaleJitter fits the image into a target and scales it.
type ScaleJitter struct {
	Height, Width, Filter int32
	Scale                 [2]float64
}

// ZoomOut puts the image somewhere on a larger canvas.
type ZoomOut struct {
	Mode int32
	Fill [3]float64
	Side [2]float64
}

// IoUCrop crops a random box that keeps one of the sample's boxes, as torchvision's RandomIoUCrop.
// Plan.IoUCrop draws it.
type IoUCrop struct {
	Scale, Aspect [2]float64
	Trials        int32
	Overlaps      []float64 // at most MaxOverlaps
}

// Group is the head of the Count ops behind it; Kind is OpApply, OpChoice or OpOrder.
type Group struct {
	Kind, Count         int32
	Probability, Weight float64
}

// Erasing replaces boxes of the finished values; Kind is OpErasing, OpCutout or OpErase.
type Erasing struct {
	Kind, With   int32 // With is EraseValue, ErasePixels or EraseBox
	Boxes        [2]int32
	Probability  float64
	Value        [3]float64
	Scale, Ratio [2]float64
	Side         int32
	Box          Crop
}

// FiveCrop makes several images: the corners and the middle, and with Ten those of the mirrored
// image as well.
type FiveCrop struct {
	Height, Width int32
	Ten, Vertical bool
}

// The values of Group.Kind and of Erasing.Kind.
const (
	OpApply  int32 = C.HRN_OP_APPLY
	OpChoice int32 = C.HRN_OP_CHOICE
	OpOrder  int32 = C.HRN_OP_ORDER

	OpErasing int32 = C.HRN_OP_ERASING
	OpCutout  int32 = C.HRN_OP_CUTOUT
	OpErase   int32 = C.HRN_OP_ERASE
)

// The values of Erasing.With: what an erasing fills its boxes with.
const (
	EraseValue  int32 = C.HRN_ERASE_VALUE
	ErasePixels int32 = C.HRN_ERASE_PIXELS
	EraseBox    int32 = C.HRN_ERASE_BOX
)

// MaxErasings is the most boxes that a plan erases.
const MaxErasings = C.HRN_MAX_ERASINGS

// MaxOverlaps is the most overlaps of an IoUCrop.
const MaxOverlaps = C.HRN_MAX_OVERLAPS

// MaxIoUCrops is the most IoUCrops of a plan.
const MaxIoUCrops = C.HRN_MAX_IOU_CROPS

// MaxSizes is the most lengths of a RandomShortestSize.
const MaxSizes = C.HRN_MAX_SIZES

// arguments returns the member of the op's union that belongs to its kind.
func arguments[T any](op *C.hrn_op, kind C.int32_t) *T {
	op.kind = kind
	return (*T)(unsafe.Pointer(&op.anon0))
}

func number(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

func pair(of [2]float64) [2]C.double { return [2]C.double{C.double(of[0]), C.double(of[1])} }

func triple(of [3]float64) [3]C.double {
	return [3]C.double{C.double(of[0]), C.double(of[1]), C.double(of[2])}
}

func words(key [2]uint64) [2]C.uint64_t {
	return [2]C.uint64_t{C.uint64_t(key[0]), C.uint64_t(key[1])}
}

func outside(filled bool, version int32) C.hrn_outside {
	return C.hrn_outside{filled: number(filled), version: C.int32_t(version)}
}

func size(height, width int32) C.hrn_op_size {
	return C.hrn_op_size{height: C.int32_t(height), width: C.int32_t(width)}
}

func (o Crop) c() C.hrn_op_box {
	return C.hrn_op_box{top: C.int32_t(o.Top), left: C.int32_t(o.Left), height: C.int32_t(o.Height), width: C.int32_t(o.Width)}
}

func (p Padding) c() C.hrn_op_padding {
	return C.hrn_op_padding{left: C.int32_t(p.Left), top: C.int32_t(p.Top), right: C.int32_t(p.Right),
		bottom: C.int32_t(p.Bottom), mode: C.int32_t(p.Mode)}
}

func (o Crop) fill(op *C.hrn_op) { *arguments[C.hrn_op_box](op, C.HRN_OP_CROP) = o.c() }

func (o Resize) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	*arguments[C.hrn_op_size](op, C.HRN_OP_RESIZE) = size(o.Height, o.Width)
}

func (o ResizeBox) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	to := arguments[C.hrn_op_resize_box](op, C.HRN_OP_RESIZE_BOX)
	to.size = size(o.Height, o.Width)
	for k, at := range o.Box {
		to.box[k] = C.float(at)
	}
}

func (o Reduce) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_reduce](op, C.HRN_OP_REDUCE) = C.hrn_op_reduce{
		across: C.int32_t(o.Across), down: C.int32_t(o.Down), draft: C.int32_t(o.Draft)}
}

func (o ResizeShorter) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	*arguments[C.hrn_op_shorter](op, C.HRN_OP_RESIZE_SHORTER) = C.hrn_op_shorter{
		size: C.int32_t(o.Size), max_size: C.int32_t(o.MaxSize)}
}

func (o CenterCrop) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_size](op, C.HRN_OP_CENTER_CROP) = size(o.Height, o.Width)
}

func (o RandomResizedCrop) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	*arguments[C.hrn_op_resized_crop](op, C.HRN_OP_RANDOM_RESIZED_CROP) = C.hrn_op_resized_crop{
		size: size(o.Height, o.Width), scale: pair(o.Scale), ratio: pair(o.Ratio)}
}

func (o RandomCrop) fill(op *C.hrn_op) {
	op.fill = triple(o.Fill)
	*arguments[C.hrn_op_random_crop](op, C.HRN_OP_RANDOM_CROP) = C.hrn_op_random_crop{
		size: size(o.Height, o.Width), padding: o.Padding.c(), if_needed: number(o.IfNeeded)}
}

func (o HorizontalFlip) fill(op *C.hrn_op) {
	*arguments[C.double](op, C.HRN_OP_HORIZONTAL_FLIP) = C.double(o.Probability)
}

func (o VerticalFlip) fill(op *C.hrn_op) {
	*arguments[C.double](op, C.HRN_OP_VERTICAL_FLIP) = C.double(o.Probability)
}

func (o Pad) fill(op *C.hrn_op) {
	op.fill = triple(o.Fill)
	*arguments[C.hrn_op_padding](op, C.HRN_OP_PAD) = o.Padding.c()
}

// fill leaves out sizes beyond MaxSizes. The count still says how many there were, so the op is
// refused.
func (o RandomShortestSize) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	to := arguments[C.hrn_op_shortest](op, C.HRN_OP_RANDOM_SHORTEST_SIZE)
	to.max_size, to.count = C.int32_t(o.MaxSize), C.int32_t(len(o.Sizes))
	for k, length := range o.Sizes[:min(len(o.Sizes), MaxSizes)] {
		to.size[k] = C.int32_t(length)
	}
}

func (o RandomResize) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	*arguments[C.hrn_op_resize_between](op, C.HRN_OP_RANDOM_RESIZE) = C.hrn_op_resize_between{
		least: C.int32_t(o.Least), end: C.int32_t(o.End)}
}

func (o ScaleJitter) fill(op *C.hrn_op) {
	op.filter = C.int32_t(o.Filter)
	*arguments[C.hrn_op_jitter](op, C.HRN_OP_SCALE_JITTER) = C.hrn_op_jitter{
		target: size(o.Height, o.Width), scale: pair(o.Scale)}
}

func (o ZoomOut) fill(op *C.hrn_op) {
	op.fill = triple(o.Fill)
	*arguments[C.hrn_op_zoom](op, C.HRN_OP_ZOOM_OUT) = C.hrn_op_zoom{mode: C.int32_t(o.Mode), side: pair(o.Side)}
}

// fill leaves out overlaps beyond MaxOverlaps, as fill of RandomShortestSize does with sizes.
func (o IoUCrop) fill(op *C.hrn_op) {
	to := arguments[C.hrn_op_iou_crop](op, C.HRN_OP_IOU_CROP)
	to.scale, to.aspect = pair(o.Scale), pair(o.Aspect)
	to.trials, to.count = C.int32_t(o.Trials), C.int32_t(len(o.Overlaps))
	for k, overlap := range o.Overlaps[:min(len(o.Overlaps), MaxOverlaps)] {
		to.overlap[k] = C.double(overlap)
	}
}

func (o Group) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_group](op, C.int32_t(o.Kind)) = C.hrn_op_group{
		count: C.int32_t(o.Count), probability: C.double(o.Probability), weight: C.double(o.Weight)}
}

func (o *Erasing) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_erasing](op, C.int32_t(o.Kind)) = C.hrn_op_erasing{fill: C.int32_t(o.With),
		boxes:       [2]C.int32_t{C.int32_t(o.Boxes[0]), C.int32_t(o.Boxes[1])},
		probability: C.double(o.Probability), value: triple(o.Value), scale: pair(o.Scale),
		ratio: pair(o.Ratio), side: C.int32_t(o.Side), box: o.Box.c()}
}

func (o FiveCrop) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_crops](op, C.HRN_OP_FIVE_CROP) = C.hrn_op_crops{
		size: size(o.Height, o.Width), ten: number(o.Ten), vertical: number(o.Vertical)}
}
