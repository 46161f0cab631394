package transform

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// fillArguments are the transforms that replace boxes of the finished values, each with the argument that says what
// fills them. An error names the argument as the user wrote it, and each transform has another name for it.
var fillArguments = map[string]string{"RandomErasing": "value", "TimmErasing": "mode", "Cutout": "fill", "Erase": "v"}

func erases(name string) bool { return fillArguments[name] != "" }

// erasingModes are timm's names for what fills a box.
var erasingModes = map[string]int32{"const": native.EraseValue, "rand": native.EraseBox, "pixel": native.ErasePixels}

// buildErasing makes the op of a transform for which erases is true. Native draws the box, in several tries.
func buildErasing(name string, v map[string]value) (native.Op, *Error) {
	// This is one box with the probability 1, which the cases below change. It is a pointer, because normalizeErasings
	// changes the value once it is known where Normalize stands.
	op := &native.Erasing{Kind: native.OpErasing, Boxes: [2]int32{1, 1}, Probability: 1}
	switch name {
	case "RandomErasing":
		op.Probability = v["p"].numbers[0]
		op.Scale, op.Ratio = v["scale"].pair(), v["ratio"].pair()
		// torchvision then draws a value for each pixel, like timm's "pixel" (RandomErasing.get_params).
		if v["value"].text == "random" {
			op.With = native.ErasePixels
			break
		}
		op.Value = v["value"].triple()
	case "TimmErasing":
		return buildTimmErasing(op, v)
	case "Cutout":
		op.Kind, op.Probability, op.Side = native.OpCutout, v["p"].numbers[0], v["length"].integer(0)
		op.Boxes = [2]int32{v["count"].integer(0), v["count"].integer(0)}
		op.Value = v["fill"].triple()
	// The box of a replay, which was already drawn, has the argument names of torchvision's functional.erase.
	case "Erase":
		op.Kind = native.OpErase
		op.Box = native.Crop{Top: v["i"].integer(0), Left: v["j"].integer(0), Height: v["h"].integer(0), Width: v["w"].integer(0)}
		op.Value = v["v"].triple()
	}
	return op, nil
}

// buildTimmErasing: if the greatest aspect ratio or number of boxes is left out, it follows from the least one, as in
// timm (timm/data/random_erasing.py).
func buildTimmErasing(op *native.Erasing, v map[string]value) (native.Op, *Error) {
	op.With = erasingModes[v["mode"].text]
	op.Boxes = [2]int32{v["min_count"].integer(0), v["min_count"].integer(0)}
	if most := v["max_count"]; !most.isNull {
		op.Boxes[1] = most.integer(0)
	}
	op.Probability = v["probability"].numbers[0]
	op.Scale = [2]float64{v["min_area"].numbers[0], v["max_area"].numbers[0]}
	op.Ratio = [2]float64{v["min_aspect"].numbers[0], 1 / v["min_aspect"].numbers[0]}
	if most := v["max_aspect"]; !most.isNull {
		op.Ratio[1] = most.numbers[0]
	}
	// timm does not compare them; its random functions then draw between swapped bounds, or raise an error.
	for _, pair := range []struct {
		least, most string
		low, high   float64
	}{
		{"min_area", "max_area", op.Scale[0], op.Scale[1]},
		{"min_aspect", "max_aspect", op.Ratio[0], op.Ratio[1]},
		{"min_count", "max_count", float64(op.Boxes[0]), float64(op.Boxes[1])},
	} {
		if pair.low > pair.high {
			return nil, &Error{Argument: pair.least, Text: fmt.Sprintf("is %g (expected at most %s, which is %g)", pair.low, pair.most, pair.high)}
		}
	}
	return op, nil
}

// erasing is one of the erasing ops, and the transform from which it was made.
type erasing struct {
	op    *native.Erasing
	index int
	name  string
}

// refuse returns an error about the argument that says what fills a box.
func (e erasing) refuse(text string) *Error {
	return &Error{Index: e.index, Transform: e.name, Argument: fillArguments[e.name], Text: text}
}

// normalizeErasings: the engine erases finished values. So the value of an erasing that stands before Normalize is
// normalized, as in torchvision. It is called when Normalize is read, and so only for the erasings before it.
func normalizeErasings(erasings []erasing, output native.Output) *Error {
	for _, e := range erasings {
		// Noise is drawn as finished values; if it stood before Normalize, each of these would have to change.
		if e.op.With != native.EraseValue {
			if e.name == "TimmErasing" {
				return e.refuse(`is noise (expected "const", or Normalize before it)`)
			}
			return e.refuse(`is "random" (expected numbers, or Normalize before it)`)
		}
		for c := range 3 {
			// This is computed in single precision, as in torch; in double precision some values would round
			// differently.
			e.op.Value[c] = float64((float32(e.op.Value[c]) - output.Mean[c]) / output.Std[c])
		}
	}
	return nil
}

// checkErasings bounds the boxes of an image, and refuses values that bytes cannot hold if the output is bytes. It is
// called when the whole list has been read, because native bounds the boxes of all erasings of an image together.
func checkErasings(erasings []erasing, output native.Output) *Error {
	boxes := int32(0)
	for _, e := range erasings {
		// native has room for so many boxes of an image.
		if boxes += e.op.Boxes[1]; boxes > native.MaxErasings {
			return &Error{Index: e.index, Transform: e.name, Text: fmt.Sprintf("%d boxes are erased with those before it (expected at most %d of an image)", boxes, native.MaxErasings)}
		}
		if output.DType != native.Uint8 {
			continue
		}
		beyond := func(n float64) bool { return n < 0 || n > 255 }
		if e.op.With != native.EraseValue || slices.ContainsFunc(e.op.Value[:], beyond) {
			return e.refuse("does not fit a byte (expected 0 to 255, for dtype is \"uint8\")")
		}
	}
	return nil
}
