package transform

import (
	"errors"

	"github.com/headrace/headrace/native"
)

// Call is one op of a recipe as it was drawn for one image: a function of headrace.functional with its arguments after
// the image, so that the op can be replayed by itself. An argument is something that JSON can hold: numbers, lists,
// texts and null. So a replay may be stored beside a dataset.
type Call struct {
	Function  string         `json:"function"`
	Arguments map[string]any `json:"arguments"`
}

// errBoxes: what a RandomIoUCrop draws depends on the boxes of a sample, and a replay knows only the image's size.
var errBoxes = errors.New("RandomIoUCrop needs the boxes of a sample, and there are none here (expected a list without it)")

// Replay says what a plan does to an image of that size, for that key. It draws what the loader draws, from the same
// key, and touches no pixel.
func Replay(plan *native.Plan, key native.Key, width, height uint32) ([]Call, error) {
	drawn, err := plan.Replay(key, width, height)
	if err != nil {
		return nil, err
	}
	calls := []Call{} // an empty list if there is no op, because nil would be null in JSON
	var mixed *mixture
	for i := range drawn {
		switch op := drawn[i].Op.(type) {
		case native.IoUCrop:
			return nil, errBoxes
		// native lists an AugMix flat: its begin, the ops of each chain and the chain's end, and the blend.
		case native.MixBegin:
			mixed = &mixture{original: op.Weight, chain: []Call{}}
		case native.MixChain:
			mixed.chains = append(mixed.chains, mixed.chain)
			mixed.weights = append(mixed.weights, op.Weight)
			mixed.chain = []Call{}
		case native.MixEnd:
			calls, mixed = append(calls, mixed.call(op.Blend)), nil
		default:
			if mixed != nil {
				mixed.chain = append(mixed.chain, callsOf(&drawn[i])...)
				continue
			}
			calls = append(calls, callsOf(&drawn[i])...)
		}
	}
	return calls, nil
}

// mixture is an AugMix that is being read: its chains stand among the other ops. The weights are drawn; original is the
// weight of the image itself, beside those of the chains.
type mixture struct {
	original float64
	weights  []float64
	chains   [][]Call
	chain    []Call
}

// call returns the mixture as one call. Native writes a blend below 0 if there is none; functional.mix_chains uses None
// for that.
func (m *mixture) call(blend float64) Call {
	arguments := map[string]any{"chains": m.chains, "weights": m.weights, "original": m.original, "blend": nil}
	if blend >= 0 {
		arguments["blend"] = blend
	}
	return call("mix_chains", arguments)
}

// interpolation returns a filter's name. If two names mean the same filter it is the first one in the table, which is
// nearest.
func interpolation(filter int32) string {
	for _, name := range theTable().Choices["interpolation"] {
		if filters[name] == filter {
			return name
		}
	}
	return ""
}

func call(function string, arguments map[string]any) Call { return Call{function, arguments} }

func resizeCall(height, width, filter int32) Call {
	return call("resize", map[string]any{"size": []int32{height, width}, "interpolation": interpolation(filter)})
}

func cropCall(c native.Crop) Call {
	return call("crop", map[string]any{"top": c.Top, "left": c.Left, "height": c.Height, "width": c.Width})
}

func padCall(p native.Padding, fill [3]float64) Call {
	mode := ""
	for name, number := range paddingModes {
		if number == p.Mode {
			mode = name
		}
	}
	return call("pad", map[string]any{"padding": []int32{p.Left, p.Top, p.Right, p.Bottom}, "fill": wholes(fill), "padding_mode": mode})
}

// shorterCall writes torchvision's arguments: a size of 0 is None, with only max_size.
func shorterCall(op native.ResizeShorter) Call {
	arguments := map[string]any{"size": op.Size, "interpolation": interpolation(op.Filter)}
	if op.Size == 0 {
		arguments["size"] = nil
	}
	if op.MaxSize != 0 {
		arguments["max_size"] = op.MaxSize
	}
	return call("resize", arguments)
}

func cropsCall(op native.FiveCrop) Call {
	size := []int32{op.Height, op.Width}
	if !op.Ten {
		return call("five_crop", map[string]any{"size": size})
	}
	return call("ten_crop", map[string]any{"size": size, "vertical_flip": op.Vertical})
}

// eraseCall: for a box of noise the call says "random", because the noise itself would be a number for each value in
// the box.
func eraseCall(op *native.Erasing) Call {
	arguments := map[string]any{"i": op.Box.Top, "j": op.Box.Left, "h": op.Box.Height, "w": op.Box.Width, "v": op.Value}
	if op.With == native.ErasePixels {
		arguments["v"] = "random"
	}
	return call("erase", arguments)
}

// callsOf returns the calls of one drawn op. Geometry is here, and pixels are in fixed.go.
func callsOf(d *native.Drawn) []Call {
	switch op := d.Op.(type) {
	case native.Crop:
		return []Call{cropCall(op)}
	case native.Resize:
		return []Call{resizeCall(op.Height, op.Width, op.Filter)}
	case native.ResizeBox:
		return []Call{call("resize_box", map[string]any{"size": []int32{op.Height, op.Width}, "interpolation": interpolation(op.Filter), "box": op.Box})}
	case native.Reduce:
		return []Call{call("reduce", map[string]any{"factor": []int32{op.Across, op.Down}})}
	case native.ResizeShorter:
		return []Call{shorterCall(op)}
	case native.CenterCrop:
		return []Call{call("center_crop", map[string]any{"output_size": []int32{op.Height, op.Width}})}
	case native.FiveCrop:
		return []Call{cropsCall(op)}
	// What these two drew is beside the op, because the op is the plan's own and so the same for every image.
	case native.RandomResizedCrop:
		return []Call{cropCall(d.Box), resizeCall(op.Height, op.Width, op.Filter)}
	case native.RandomCrop:
		return []Call{padCall(op.Pads(d.Width, d.Height), op.Fill), cropCall(d.Box)}
	case native.Pad:
		return []Call{padCall(op.Padding, op.Fill)}
	case native.HorizontalFlip:
		return []Call{call("hflip", map[string]any{})}
	case native.VerticalFlip:
		return []Call{call("vflip", map[string]any{})}
	case *native.Erasing:
		return []Call{eraseCall(op)}
	}
	return pixelCalls(d.Op, d.Height, d.Width)
}
