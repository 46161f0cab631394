package transform

import (
	"fmt"

	"github.com/headrace/headrace/native"
)

// filters are Pillow's. torchvision's nearest-exact is on PIL images what nearest is.
var filters = map[string]int32{
	"nearest": native.Nearest, "nearest-exact": native.Nearest, "box": native.Box,
	"bilinear": native.Bilinear, "hamming": native.Hamming, "bicubic": native.Bicubic,
	"lanczos": native.Lanczos,
}

var paddingModes = map[string]int32{
	"constant": native.PadConstant, "edge": native.PadEdge, "reflect": native.PadReflect,
	"symmetric": native.PadSymmetric,
}

// build makes the op of a transform whose arguments have been checked one by one; what is left to
// refuse are arguments that do not go together.
func build(name string, v map[string]value) (native.Op, *Error) {
	op := native.Op{Filter: filters[v["interpolation"].text]}
	// One number stands for both sides.
	setSize := func() {
		op.I[0] = int32(v["size"].each(0))
		op.I[1] = int32(v["size"].each(1))
	}
	switch name {
	case "RandomResizedCrop":
		op.Kind = native.OpRandomResizedCrop
		setSize()
		copy(op.P[0:2], v["scale"].numbers)
		copy(op.P[2:4], v["ratio"].numbers)
	case "Resize":
		return buildResize(op, v)
	case "CenterCrop":
		op.Kind = native.OpCenterCrop
		setSize()
	case "FiveCrop", "TenCrop":
		op.Kind = native.OpFiveCrop
		setSize()
		if name == "TenCrop" {
			op.I[2], op.I[3] = 1, v["vertical_flip"].integer(0)
		}
	case "RandomCrop":
		op.Kind = native.OpRandomCrop
		setSize()
		setPadding(&op, v["padding"])
		op.I[6] = v["pad_if_needed"].integer(0)
		op.I[7] = paddingModes[v["padding_mode"].text]
		for c := range 3 {
			op.P[c] = v["fill"].each(c)
		}
	case "RandomHorizontalFlip":
		op.Kind = native.OpHorizontalFlip
		op.P[0] = v["p"].numbers[0]
	case "RandomVerticalFlip":
		op.Kind = native.OpVerticalFlip
		op.P[0] = v["p"].numbers[0]
	case "Crop":
		op.Kind = native.OpCrop
		for i, argument := range []string{"top", "left", "height", "width"} {
			op.I[i] = v[argument].integer(0)
		}
	case "Pad":
		op.Kind = native.OpPad
		setPadding(&op, v["padding"])
		op.I[7] = paddingModes[v["padding_mode"].text]
		for c := range 3 {
			op.P[c] = v["fill"].each(c)
		}
	case "RandomShortestSize":
		return buildShortestSize(op, v)
	case "RandomResize":
		op.Kind = native.OpRandomResize
		op.I[0], op.I[1] = v["min_size"].integer(0), v["max_size"].integer(0)
		if op.I[1] <= op.I[0] {
			return op, &Error{Argument: "max_size", Text: fmt.Sprintf("is %d (expected more than min_size, which is %d)", op.I[1], op.I[0])}
		}
	case "ScaleJitter":
		op.Kind = native.OpScaleJitter
		op.I[0], op.I[1] = v["target_size"].integer(0), v["target_size"].integer(1)
		copy(op.P[0:2], v["scale_range"].numbers)
	case "RandomZoomOut":
		op.Kind = native.OpZoomOut
		for c := range 3 {
			op.P[c] = v["fill"].each(c)
		}
		copy(op.P[3:5], v["side_range"].numbers)
	default:
		made, ok, err := buildPixels(name, v)
		if !ok {
			return op, &Error{Text: "it is in the table and has no op"}
		}
		return made, err
	}
	return op, nil
}

// buildShortestSize: the op holds as many sizes as it has numbers.
func buildShortestSize(op native.Op, v map[string]value) (native.Op, *Error) {
	op.Kind = native.OpRandomShortestSize
	sizes := v["min_size"].numbers
	if len(sizes) == 0 || len(sizes) > len(op.P) {
		return op, &Error{Argument: "min_size", Text: fmt.Sprintf("has %d sizes (expected 1 to %d)", len(sizes), len(op.P))}
	}
	copy(op.P[:], sizes)
	op.I[1] = int32(len(sizes))
	if limit := v["max_size"]; !limit.isNull {
		op.I[0] = limit.integer(0)
	}
	return op, nil
}

// buildResize: torchvision's Resize is three: to a size, by the shorter side, and by the longer one.
// Its max_size must be greater than the size, not equal to it, as torchvision has it.
func buildResize(op native.Op, v map[string]value) (native.Op, *Error) {
	size, limit := v["size"].numbers, v["max_size"]
	if v["size"].isNull {
		if limit.isNull {
			return op, &Error{Argument: "max_size", Text: "is null, and so is size (expected the length of the longer side)"}
		}
		op.Kind = native.OpResizeShorter
		op.I[1] = limit.integer(0)
		return op, nil
	}
	if len(size) == 2 {
		if !limit.isNull {
			return op, &Error{Argument: "max_size", Text: fmt.Sprintf("is %d, and size is height and width (expected null, or one number as size)", limit.integer(0))}
		}
		op.Kind = native.OpResize
		op.I[0], op.I[1] = int32(size[0]), int32(size[1])
		return op, nil
	}
	op.Kind = native.OpResizeShorter
	op.I[0] = int32(size[0])
	if limit.isNull {
		return op, nil
	}
	op.I[1] = limit.integer(0)
	if op.I[1] <= op.I[0] {
		return op, &Error{Argument: "max_size", Text: fmt.Sprintf("is %d (expected more than size, which is %d)", op.I[1], op.I[0])}
	}
	return op, nil
}

// setPadding: torchvision's one, two or four numbers to left, top, right, bottom.
func setPadding(op *native.Op, padding value) {
	if padding.isNull {
		return
	}
	for side := range 4 {
		op.I[2+side] = int32(padding.numbers[side%len(padding.numbers)])
	}
}
