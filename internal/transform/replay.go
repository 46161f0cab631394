package transform

import (
	"errors"
	"slices"

	"github.com/headrace/headrace/native"
)

// Call is one step of a recipe as it was drawn for one image: a function of headrace.functional
// with its arguments after the image, so that it can be replayed one by one.
type Call struct {
	Function  string         `json:"function"`
	Arguments map[string]any `json:"arguments"`
}

var errBoxes = errors.New("RandomIoUCrop looks at the boxes of a sample, and here are none (expected a list without it)")

// Replay says what a plan does to an image of that size, for that key.
func Replay(plan *native.Plan, key native.Key, width, height uint32) ([]Call, error) {
	steps, err := plan.Replay(key, width, height)
	if err != nil {
		return nil, err
	}
	if last := len(steps) - 1; last >= 0 && steps[last].Kind == native.OpIoUCrop {
		return nil, errBoxes
	}
	calls := []Call{} // of no step an empty list, where nil would be null in JSON
	var mixed *mixture
	for _, s := range steps {
		switch s.Kind - native.StepPixel {
		case native.PixelMixBegin:
			mixed = &mixture{original: s.P[0], chain: []Call{}}
		case native.PixelMixChain:
			mixed.chains = append(mixed.chains, mixed.chain)
			mixed.weights = append(mixed.weights, s.P[0])
			mixed.chain = []Call{}
		case native.PixelMixEnd:
			calls, mixed = append(calls, mixed.call(s.P[0])), nil
		default:
			if mixed != nil {
				mixed.chain = append(mixed.chain, callsOf(s)...)
				continue
			}
			calls = append(calls, callsOf(s)...)
		}
	}
	return calls, nil
}

// mixture is an AugMix that is being read: its chains stand among the other steps.
type mixture struct {
	original float64
	weights  []float64
	chains   [][]Call
	chain    []Call
}

func (m *mixture) call(blend float64) Call {
	arguments := map[string]any{"chains": m.chains, "weights": m.weights, "original": m.original, "blend": nil}
	if blend >= 0 {
		arguments["blend"] = blend
	}
	return call("mix_chains", arguments)
}

func interpolation(filter int32) string {
	for _, name := range theTable().Choices["interpolation"] {
		if filters[name] == filter {
			return name
		}
	}
	return ""
}

func call(function string, arguments map[string]any) Call { return Call{function, arguments} }

func resizeCall(s native.Step, height, width int32) Call {
	return call("resize", map[string]any{"size": []int32{height, width}, "interpolation": interpolation(s.Filter)})
}

// padCall: a random crop also pads by what is missing for its box, on both sides.
func padCall(s native.Step) Call {
	left, top, right, bottom := s.I[2], s.I[3], s.I[4], s.I[5]
	if s.Kind == native.OpRandomCrop && s.I[6] == 1 {
		across := max(0, s.I[1]-s.Width-left-right)
		down := max(0, s.I[0]-s.Height-top-bottom)
		left, right, top, bottom = left+across, right+across, top+down, bottom+down
	}
	mode := ""
	for name, number := range paddingModes {
		if number == s.I[7] {
			mode = name
		}
	}
	return call("pad", map[string]any{"padding": []int32{left, top, right, bottom},
		"fill": wholes(s.P[:3]), "padding_mode": mode})
}

func wholes(numbers []float64) []int32 {
	var found []int32
	for _, n := range numbers {
		found = append(found, int32(n))
	}
	return found
}

func callsOf(s native.Step) []Call {
	box := map[string]any{"top": s.Box[0], "left": s.Box[1], "height": s.Box[2], "width": s.Box[3]}
	switch s.Kind {
	case native.OpCrop:
		return []Call{call("crop", map[string]any{"top": s.I[0], "left": s.I[1], "height": s.I[2], "width": s.I[3]})}
	case native.OpResize:
		return []Call{resizeCall(s, s.I[0], s.I[1])}
	case native.OpResizeBox:
		return []Call{call("resize_box", map[string]any{"size": s.I[:2], "interpolation": interpolation(s.Filter), "box": slices.Clone(s.P[:4])})}
	case native.OpReduce:
		return []Call{call("reduce", map[string]any{"factor": slices.Clone(s.I[:2])})}
	case native.OpResizeShorter:
		arguments := map[string]any{"size": s.I[0], "interpolation": interpolation(s.Filter)}
		if s.I[0] == 0 {
			arguments["size"] = nil
		}
		if s.I[1] != 0 {
			arguments["max_size"] = s.I[1]
		}
		return []Call{call("resize", arguments)}
	case native.OpCenterCrop:
		return []Call{call("center_crop", map[string]any{"output_size": slices.Clone(s.I[:2])})}
	case native.OpFiveCrop:
		if s.I[2] == 0 {
			return []Call{call("five_crop", map[string]any{"size": slices.Clone(s.I[:2])})}
		}
		return []Call{call("ten_crop", map[string]any{"size": slices.Clone(s.I[:2]), "vertical_flip": s.I[3] == 1})}
	case native.OpRandomResizedCrop:
		return []Call{call("crop", box), resizeCall(s, s.I[0], s.I[1])}
	case native.OpRandomCrop:
		return []Call{padCall(s), call("crop", box)}
	case native.OpPad:
		return []Call{padCall(s)}
	case native.OpHorizontalFlip:
		return []Call{call("hflip", map[string]any{})}
	case native.OpVerticalFlip:
		return []Call{call("vflip", map[string]any{})}
	case native.OpErasing, native.OpCutout, native.OpErase:
		arguments := map[string]any{"i": s.Box[0], "j": s.Box[1], "h": s.Box[2], "w": s.Box[3], "v": slices.Clone(s.P[:3])}
		if s.I[0] == 1 {
			arguments["v"] = "random"
		}
		return []Call{call("erase", arguments)}
	}
	return pixelCalls(s)
}
