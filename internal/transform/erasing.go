package transform

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// fillArguments are the transforms that replace boxes of the finished values, each with the argument
// that says by what.
var fillArguments = map[string]string{"RandomErasing": "value", "TimmErasing": "mode", "Cutout": "fill", "Erase": "v"}

func erases(name string) bool { return fillArguments[name] != "" }

// erasingModes are timm's names of what a box is filled with.
var erasingModes = map[string]int32{"const": native.EraseValue, "rand": native.EraseBox, "pixel": native.ErasePixels}

func buildErasing(name string, v map[string]value) (native.Op, *Error) {
	op := native.Op{Kind: native.OpErasing}
	op.I[1], op.I[2], op.P[0] = 1, 1, 1 // one box, always
	setValue := func(value value) {
		for c := range 3 {
			op.P[5+c] = value.each(c)
		}
	}
	switch name {
	case "RandomErasing":
		op.P[0] = v["p"].numbers[0]
		copy(op.P[1:3], v["scale"].numbers)
		copy(op.P[3:5], v["ratio"].numbers)
		if v["value"].text == "random" {
			op.I[0] = native.ErasePixels
			break
		}
		setValue(v["value"])
	case "TimmErasing":
		return buildTimmErasing(op, v)
	case "Cutout":
		op.Kind = native.OpCutout
		op.P[0] = v["p"].numbers[0]
		op.I[1], op.I[2], op.I[3] = v["count"].integer(0), v["count"].integer(0), v["length"].integer(0)
		setValue(v["fill"])
	case "Erase":
		op.Kind = native.OpErase
		for k, argument := range []string{"i", "j", "h", "w"} {
			op.I[4+k] = v[argument].integer(0)
		}
		setValue(v["v"])
	}
	return op, nil
}

// buildTimmErasing: the greatest aspect ratio and number of boxes follow from the least where they
// are left out, as in timm.
func buildTimmErasing(op native.Op, v map[string]value) (native.Op, *Error) {
	op.I[0] = erasingModes[v["mode"].text]
	op.I[1], op.I[2] = v["min_count"].integer(0), v["min_count"].integer(0)
	if most := v["max_count"]; !most.isNull {
		op.I[2] = most.integer(0)
	}
	op.P[0] = v["probability"].numbers[0]
	op.P[1], op.P[2] = v["min_area"].numbers[0], v["max_area"].numbers[0]
	op.P[3], op.P[4] = v["min_aspect"].numbers[0], 1/v["min_aspect"].numbers[0]
	if most := v["max_aspect"]; !most.isNull {
		op.P[4] = most.numbers[0]
	}
	for _, pair := range []struct {
		least, most string
		low, high   float64
	}{
		{"min_area", "max_area", op.P[1], op.P[2]},
		{"min_aspect", "max_aspect", op.P[3], op.P[4]},
		{"min_count", "max_count", float64(op.I[1]), float64(op.I[2])},
	} {
		if pair.low > pair.high {
			return op, &Error{Argument: pair.least, Text: fmt.Sprintf("is %g (expected at most %s, which is %g)", pair.low, pair.most, pair.high)}
		}
	}
	return op, nil
}

// erasing is one of the ops that erase, and the transform that it was made of.
type erasing struct {
	op    *native.Op
	index int
	name  string
}

func (e erasing) refuse(text string) *Error {
	return &Error{Index: e.index, Transform: e.name, Argument: fillArguments[e.name], Text: text}
}

// normalizeErasings: the engine erases finished values, so the value of an erasing that stands
// before Normalize goes through it, as torchvision's does.
func normalizeErasings(erasings []erasing, output native.Output) *Error {
	for _, e := range erasings {
		if e.op.I[0] != native.EraseValue {
			if e.name == "TimmErasing" {
				return e.refuse(`is noise (expected "const", or Normalize before it)`)
			}
			return e.refuse(`is "random" (expected numbers, or Normalize before it)`)
		}
		for c := range 3 {
			e.op.P[5+c] = float64((float32(e.op.P[5+c]) - output.Mean[c]) / output.Std[c])
		}
	}
	return nil
}

func checkErasings(erasings []erasing, output native.Output) *Error {
	boxes := int32(0)
	for _, e := range erasings {
		if boxes += e.op.I[2]; boxes > native.MaxErasings {
			return &Error{Index: e.index, Transform: e.name, Text: fmt.Sprintf("%d boxes are erased with those before it (expected at most %d of an image)", boxes, native.MaxErasings)}
		}
		if output.DType != native.Uint8 {
			continue
		}
		beyond := func(n float64) bool { return n < 0 || n > 255 }
		if e.op.I[0] != native.EraseValue || slices.ContainsFunc(e.op.P[5:8], beyond) {
			return e.refuse("is none of a byte's (expected 0 to 255, for dtype is \"uint8\")")
		}
	}
	return nil
}
