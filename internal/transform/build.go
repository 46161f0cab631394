package transform

import (
	"fmt"

	"github.com/headrace/headrace/native"
)

// filters are those of Pillow, and those of torch for tensors. torchvision hands Pillow the same constant for
// nearest-exact as for nearest (pil_modes_mapping in transforms/functional.py). A resize of a uint8 tensor differs from
// Pillow's, by 1 for bilinear and by up to 23 for bicubic, so it has its own filters.
var filters = map[string]int32{
	"nearest": native.Nearest, "nearest-exact": native.Nearest, "box": native.Box,
	"bilinear": native.Bilinear, "hamming": native.Hamming, "bicubic": native.Bicubic,
	"lanczos": native.Lanczos, "tensor-bilinear": native.TensorBilinear,
	"tensor-bicubic": native.TensorBicubic,
}

// paddingModes are those of numpy.pad, which torchvision names in transforms.Pad: reflect leaves the edge out,
// symmetric repeats it.
var paddingModes = map[string]int32{
	"constant": native.PadConstant, "edge": native.PadEdge, "reflect": native.PadReflect,
	"symmetric": native.PadSymmetric,
}

// builder makes the op of a transform whose arguments have been checked one by one. It still refuses arguments that do
// not go together.
type builder func(v map[string]value) (native.Op, *Error)

// geometry are the transforms that decide which pixels are seen where. Crop, ResizeBox, Reduce and Draft are in no
// user's list: they appear in a replay, and in what a program did to an image that it opened itself.
var geometry = map[string]builder{
	"RandomResizedCrop":    buildResizedCrop,
	"Resize":               buildResize,
	"CenterCrop":           buildCenterCrop,
	"FiveCrop":             buildFiveCrop,
	"TenCrop":              buildTenCrop,
	"RandomCrop":           buildRandomCrop,
	"RandomHorizontalFlip": buildHorizontalFlip,
	"RandomVerticalFlip":   buildVerticalFlip,
	"Crop":                 buildCrop,
	"ResizeBox":            buildResizeBox,
	"Reduce":               buildReduce,
	"Draft":                buildDraft,
	"Pad":                  buildPad,
	"RandomShortestSize":   buildShortestSize,
	"RandomResize":         buildRandomResize,
	"ScaleJitter":          buildScaleJitter,
	"RandomZoomOut":        buildZoomOut,
	"RandomIoUCrop":        buildIoUCrop,
}

// build makes the op of a transform. No name is in two of the tables, so the order of the lookups does not matter.
func build(name string, v map[string]value) (native.Op, *Error) {
	if build, ok := geometry[name]; ok {
		return build(v)
	}
	if build, ok := pixels[name]; ok {
		return build(v)
	}
	// Transforms that differ only in a number share one table.
	if adjusts, ok := adjustments[name]; ok {
		return adjusts.build(v), nil
	}
	if erases(name) {
		return buildErasing(name, v)
	}
	// This is a row of transforms.json without an op; the package's tests parse every row.
	return nil, &Error{Text: "it is in the table and has no op"}
}

// buildResizedCrop: scale is a share of the image's area, and ratio is width divided by height. torchvision draws the
// logarithm of the ratio uniformly, tries ten boxes, and crops the middle if none fits (RandomResizedCrop.get_params).
// native does the same, because it knows the image's size.
func buildResizedCrop(v map[string]value) (native.Op, *Error) {
	height, width := sizeOf(v["size"])
	return native.RandomResizedCrop{Height: height, Width: width, Filter: filterOf(v),
		Scale: v["scale"].pair(), Ratio: v["ratio"].pair()}, nil
}

// buildCenterCrop: torchvision pads an image that is smaller than the crop with 0 (functional.center_crop). The amount
// depends on the image, so native does that (native/plan/sizes.c).
func buildCenterCrop(v map[string]value) (native.Op, *Error) {
	height, width := sizeOf(v["size"])
	return native.CenterCrop{Height: height, Width: width}, nil
}

// buildFiveCrop: the four corners and the middle, each as its own image (functional.five_crop).
func buildFiveCrop(v map[string]value) (native.Op, *Error) {
	height, width := sizeOf(v["size"])
	return native.FiveCrop{Height: height, Width: width}, nil
}

func buildTenCrop(v map[string]value) (native.Op, *Error) {
	height, width := sizeOf(v["size"])
	// Both use one op: the ten are the five crops, and then the five of the flipped image (functional.ten_crop).
	return native.FiveCrop{Height: height, Width: width, Ten: true, Vertical: v["vertical_flip"].on()}, nil
}

// buildRandomCrop: the crop's place is drawn among all places in the padded image.
func buildRandomCrop(v map[string]value) (native.Op, *Error) {
	height, width := sizeOf(v["size"])
	// The padding has to stay with the crop: pad_if_needed pads what is still too small after the padding, so its
	// amount depends on the image.
	return native.RandomCrop{Height: height, Width: width, Padding: paddingOf(v), Fill: fillOf(v),
		IfNeeded: v["pad_if_needed"].on()}, nil
}

// buildHorizontalFlip: a flip draws by itself, so it needs no group with the probability (entry.WithChance).
func buildHorizontalFlip(v map[string]value) (native.Op, *Error) {
	return native.HorizontalFlip{Probability: v["p"].numbers[0]}, nil
}

func buildVerticalFlip(v map[string]value) (native.Op, *Error) {
	return native.VerticalFlip{Probability: v["p"].numbers[0]}, nil
}

func buildCrop(v map[string]value) (native.Op, *Error) {
	// Corners may lie outside: pixels from there are 0, as in torchvision and Image.crop.
	return native.Crop{Top: v["top"].integer(0), Left: v["left"].integer(0),
		Height: v["height"].integer(0), Width: v["width"].integer(0)}, nil
}

// buildResizeBox: Image.resize with a box. Its corners may have fractions, like those that Image.thumbnail asks for
// after a draft or a reduce.
func buildResizeBox(v map[string]value) (native.Op, *Error) {
	height, width := sizeOf(v["size"])
	op := native.ResizeBox{Height: height, Width: width, Filter: filterOf(v), Box: [4]float64(v["box"].numbers)}
	// Each number of the box was checked only against its own range; Image.resize refuses an empty box, too.
	if op.Box[0] >= op.Box[2] || op.Box[1] >= op.Box[3] {
		return nil, &Error{Argument: "box", Text: fmt.Sprintf("is %v (expected left < right and top < bottom)", op.Box)}
	}
	return op, nil
}

// buildReduce: Image.reduce has one factor for both sides, or (across, down). The width comes first, unlike in a size.
func buildReduce(v map[string]value) (native.Op, *Error) {
	return native.Reduce{Across: int32(v["factor"].each(0)), Down: int32(v["factor"].each(1))}, nil
}

// buildDraft: what Image.draft sets before an image is read. It has to come first, because it changes how a JPEG is
// decoded.
func buildDraft(v map[string]value) (native.Op, *Error) {
	// Image.draft makes libjpeg decode at a fraction; Pillow uses 1, 2, 4 and 8 (JpegImagePlugin.draft).
	op := native.Reduce{Across: v["factor"].integer(0), Down: v["factor"].integer(0), Draft: native.DraftColours}
	if v["grey"].on() {
		op.Draft = native.DraftGrey
	}
	return op, nil
}

// buildPad: the fill matters only for the mode "constant"; torchvision accepts it with every mode and ignores it in
// others.
func buildPad(v map[string]value) (native.Op, *Error) {
	return native.Pad{Padding: paddingOf(v), Fill: fillOf(v)}, nil
}

// buildShortestSize: one of the lengths for the shorter side, each equally likely (RandomShortestSize of torchvision's
// v2).
func buildShortestSize(v map[string]value) (native.Op, *Error) {
	// The sizes are an array in a plan for C that has room for MaxSizes.
	op := native.RandomShortestSize{Filter: filterOf(v)}
	for i := range v["min_size"].numbers {
		op.Sizes = append(op.Sizes, v["min_size"].integer(i))
	}
	if len(op.Sizes) == 0 || len(op.Sizes) > native.MaxSizes {
		return nil, &Error{Argument: "min_size", Text: fmt.Sprintf("has %d sizes (expected 1 to %d)", len(op.Sizes), native.MaxSizes)}
	}
	// Without max_size the longer side may have any length; 0 stands for that.
	if limit := v["max_size"]; !limit.isNull {
		op.MaxSize = limit.integer(0)
	}
	return op, nil
}

func buildRandomResize(v map[string]value) (native.Op, *Error) {
	least, end := v["min_size"].integer(0), v["max_size"].integer(0)
	// torch.randint(min_size, max_size) draws below max_size and needs at least one number there
	// (RandomResize.make_params).
	if end <= least {
		return nil, &Error{Argument: "max_size", Text: fmt.Sprintf("is %d (expected more than min_size, which is %d)", end, least)}
	}
	return native.RandomResize{Least: least, End: end, Filter: filterOf(v)}, nil
}

// buildScaleJitter: the image is fitted into the target and then scaled by a factor (ScaleJitter of torchvision's v2).
func buildScaleJitter(v map[string]value) (native.Op, *Error) {
	// The width comes first: torchvision divides target_size[0] by the image's width (ScaleJitter.make_params).
	return native.ScaleJitter{Width: v["target_size"].integer(0), Height: v["target_size"].integer(1),
		Filter: filterOf(v), Scale: v["scale_range"].pair()}, nil
}

func buildZoomOut(v map[string]value) (native.Op, *Error) {
	// ZoomOut is a padding whose sides are drawn; torchvision allows it only the mode constant.
	return native.ZoomOut{Mode: native.PadConstant, Fill: fillOf(v), Side: v["side_range"].pair()}, nil
}

// buildIoUCrop: the crop of SSD (Liu et al., 2016), as torchvision draws it.
func buildIoUCrop(v map[string]value) (native.Op, *Error) {
	// These are torchvision's own options if none are given. An overlap of 1 or more stands for an image that is left
	// alone: the loop of RandomIoUCrop.make_params ends there.
	op := native.IoUCrop{Trials: v["trials"].integer(0), Overlaps: []float64{0, 0.1, 0.3, 0.5, 0.7, 0.9, 1}}
	if given := v["sampler_options"]; !given.isNull {
		op.Overlaps = given.numbers
	}
	if n := len(op.Overlaps); n == 0 || n > native.MaxOverlaps {
		return nil, &Error{Argument: "sampler_options", Text: fmt.Sprintf("has %d numbers (expected 1 to %d)", n, native.MaxOverlaps)}
	}
	for _, pair := range []struct {
		least, most string
		to          *[2]float64
	}{{"min_scale", "max_scale", &op.Scale}, {"min_aspect_ratio", "max_aspect_ratio", &op.Aspect}} {
		*pair.to = [2]float64{v[pair.least].numbers[0], v[pair.most].numbers[0]}
		if pair.to[0] > pair.to[1] {
			return nil, &Error{Argument: pair.least, Text: fmt.Sprintf("is %g (expected at most %s, which is %g)", pair.to[0], pair.most, pair.to[1])}
		}
	}
	return op, nil
}

// buildResize: torchvision's Resize has three forms: to a size, by the shorter side, and by the longer side. As in
// torchvision, max_size must be greater than the size, not equal to it. A size of 0 in the op means that there is none.
// No user can write 0, because the argument's type begins at 1.
func buildResize(v map[string]value) (native.Op, *Error) {
	size, limit := v["size"].numbers, v["max_size"]
	// Resize(None, max_size=n): only the longer side is given.
	if v["size"].isNull {
		if limit.isNull {
			return nil, &Error{Argument: "max_size", Text: "is null, and so is size (expected the length of the longer side)"}
		}
		return native.ResizeShorter{MaxSize: limit.integer(0), Filter: filterOf(v)}, nil
	}
	if len(size) == 2 {
		if !limit.isNull {
			return nil, &Error{Argument: "max_size", Text: fmt.Sprintf("is %d, and size is height and width (expected null, or one number as size)", limit.integer(0))}
		}
		return native.Resize{Height: int32(size[0]), Width: int32(size[1]), Filter: filterOf(v)}, nil
	}
	op := native.ResizeShorter{Size: int32(size[0]), Filter: filterOf(v)}
	if limit.isNull {
		return op, nil
	}
	op.MaxSize = limit.integer(0)
	if op.MaxSize <= op.Size {
		return nil, &Error{Argument: "max_size", Text: fmt.Sprintf("is %d (expected more than size, which is %d)", op.MaxSize, op.Size)}
	}
	return op, nil
}

// filterOf: the name was checked before (readChoice). Warps and tensors accept fewer names, all of which are in this
// map.
func filterOf(v map[string]value) int32 { return filters[v["interpolation"].text] }

// fillOf returns the three channels of a fill; black if there is none, as in torchvision for PIL images (_parse_fill in
// transforms/_functional_pil.py).
func fillOf(v map[string]value) (fill [3]float64) {
	if given, ok := v["fill"]; ok && !given.isNull {
		fill = given.triple()
	}
	return fill
}

// sizeOf: one number stands for both sides.
func sizeOf(size value) (height, width int32) { return int32(size.each(0)), int32(size.each(1)) }

// paddingOf: torchvision's one, two or four numbers become left, top, right, bottom.
func paddingOf(v map[string]value) native.Padding {
	padding := native.Padding{Mode: paddingModes[v["padding_mode"].text]}
	given := v["padding"]
	if given.isNull {
		return padding
	}
	// The order is torchvision's (v2/functional/_geometry.py, _parse_pad_padding): left, top, right, bottom. One number
	// is for all sides. The second of two numbers is for top and bottom; i % 2 selects it.
	side := func(i int) int32 { return int32(given.numbers[i%len(given.numbers)]) }
	padding.Left, padding.Top, padding.Right, padding.Bottom = side(0), side(1), side(2), side(3)
	return padding
}
