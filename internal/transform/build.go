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

// builder fills the op of a transform whose arguments have been checked one by one; what is left to
// refuse are arguments that do not go together.
type builder func(op *native.Op, v map[string]value) *Error

// geometry are the transforms that only say which pixels are seen where.
var geometry = map[string]builder{
	"RandomResizedCrop": buildResizedCrop,
	"Resize":            buildResize,
	"CenterCrop": func(op *native.Op, v map[string]value) *Error {
		op.Kind = native.OpCenterCrop
		setSize(op, v["size"])
		return nil
	},
	"FiveCrop":   buildFiveCrop,
	"TenCrop":    buildTenCrop,
	"RandomCrop": buildRandomCrop,
	"RandomHorizontalFlip": func(op *native.Op, v map[string]value) *Error {
		op.Kind, op.P[0] = native.OpHorizontalFlip, v["p"].numbers[0]
		return nil
	},
	"RandomVerticalFlip": func(op *native.Op, v map[string]value) *Error {
		op.Kind, op.P[0] = native.OpVerticalFlip, v["p"].numbers[0]
		return nil
	},
	"Crop":               buildCrop,
	"Pad":                buildPad,
	"RandomShortestSize": buildShortestSize,
	"RandomResize":       buildRandomResize,
	"ScaleJitter":        buildScaleJitter,
	"RandomZoomOut":      buildZoomOut,
}

// build makes the op of a transform.
func build(name string, v map[string]value) (native.Op, *Error) {
	op := native.Op{Filter: filters[v["interpolation"].text]}
	if fill, ok := geometry[name]; ok {
		err := fill(&op, v)
		return op, err
	}
	if fixed, ok := fixedOps[name]; ok {
		fixed.build(&op, v)
		return op, nil
	}
	if fill, ok := pixels[name]; ok {
		setVersionAndFill(&op, v)
		err := fill(&op, v)
		return op, err
	}
	if erases(name) {
		return buildErasing(name, v)
	}
	return op, &Error{Text: "it is in the table and has no op"}
}

func buildResizedCrop(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpRandomResizedCrop
	setSize(op, v["size"])
	copy(op.P[0:2], v["scale"].numbers)
	copy(op.P[2:4], v["ratio"].numbers)
	return nil
}

func buildFiveCrop(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpFiveCrop
	setSize(op, v["size"])
	return nil
}

func buildTenCrop(op *native.Op, v map[string]value) *Error {
	op.I[2], op.I[3] = 1, v["vertical_flip"].integer(0)
	return buildFiveCrop(op, v)
}

func buildRandomCrop(op *native.Op, v map[string]value) *Error {
	setSize(op, v["size"])
	op.I[6] = v["pad_if_needed"].integer(0)
	if err := buildPad(op, v); err != nil {
		return err
	}
	op.Kind = native.OpRandomCrop
	return nil
}

func buildPad(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpPad
	setPadding(op, v["padding"])
	op.I[7] = paddingModes[v["padding_mode"].text]
	setCanvas(op, v["fill"])
	return nil
}

func buildCrop(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpCrop
	for i, argument := range []string{"top", "left", "height", "width"} {
		op.I[i] = v[argument].integer(0)
	}
	return nil
}

func buildRandomResize(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpRandomResize
	op.I[0], op.I[1] = v["min_size"].integer(0), v["max_size"].integer(0)
	if op.I[1] <= op.I[0] {
		return &Error{Argument: "max_size", Text: fmt.Sprintf("is %d (expected more than min_size, which is %d)", op.I[1], op.I[0])}
	}
	return nil
}

func buildScaleJitter(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpScaleJitter
	op.I[0], op.I[1] = v["target_size"].integer(0), v["target_size"].integer(1)
	copy(op.P[0:2], v["scale_range"].numbers)
	return nil
}

func buildZoomOut(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpZoomOut
	setCanvas(op, v["fill"])
	copy(op.P[3:5], v["side_range"].numbers)
	return nil
}

// buildShortestSize: the op holds as many sizes as it has numbers.
func buildShortestSize(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpRandomShortestSize
	sizes := v["min_size"].numbers
	if len(sizes) == 0 || len(sizes) > len(op.P) {
		return &Error{Argument: "min_size", Text: fmt.Sprintf("has %d sizes (expected 1 to %d)", len(sizes), len(op.P))}
	}
	copy(op.P[:], sizes)
	op.I[1] = int32(len(sizes))
	if limit := v["max_size"]; !limit.isNull {
		op.I[0] = limit.integer(0)
	}
	return nil
}

// buildResize: torchvision's Resize is three: to a size, by the shorter side, and by the longer one.
// Its max_size must be greater than the size, not equal to it, as torchvision has it.
func buildResize(op *native.Op, v map[string]value) *Error {
	size, limit := v["size"].numbers, v["max_size"]
	if v["size"].isNull {
		if limit.isNull {
			return &Error{Argument: "max_size", Text: "is null, and so is size (expected the length of the longer side)"}
		}
		op.Kind = native.OpResizeShorter
		op.I[1] = limit.integer(0)
		return nil
	}
	if len(size) == 2 {
		if !limit.isNull {
			return &Error{Argument: "max_size", Text: fmt.Sprintf("is %d, and size is height and width (expected null, or one number as size)", limit.integer(0))}
		}
		op.Kind = native.OpResize
		op.I[0], op.I[1] = int32(size[0]), int32(size[1])
		return nil
	}
	op.Kind = native.OpResizeShorter
	op.I[0] = int32(size[0])
	if limit.isNull {
		return nil
	}
	op.I[1] = limit.integer(0)
	if op.I[1] <= op.I[0] {
		return &Error{Argument: "max_size", Text: fmt.Sprintf("is %d (expected more than size, which is %d)", op.I[1], op.I[0])}
	}
	return nil
}

// setSize: one number stands for both sides.
func setSize(op *native.Op, size value) {
	op.I[0], op.I[1] = int32(size.each(0)), int32(size.each(1))
}

// setCanvas: what paddings fill images with.
func setCanvas(op *native.Op, fill value) {
	for c := range 3 {
		op.P[c] = fill.each(c)
	}
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
