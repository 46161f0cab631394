package labels

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/native"
)

// Form is what a further image of a sample is, and what is made of it.
type Form struct {
	Scale     int32 // of its sides to those of the first image
	DType     int32 // native's; below 0: that of the images
	Normalize bool
	Mean, Std [3]float32
}

// Output is the form of the moved image, beside images of the given one.
func (f *Form) Output(images native.Output) native.Output {
	found := native.Output{DType: f.DType, Layout: images.Layout, Scale: images.Scale, Mode: images.Mode,
		Normalize: f.Normalize, Mean: f.Mean, Std: f.Std}
	if f.DType < 0 {
		found.DType = images.DType
	}
	return found
}

// Follow are the ops that do to an image of `scale` times the size what steps do to the first one, which
// comes out as width x height: the same crops, paddings, flips and turns, in pixels of the larger image.
// With a scale of 1 they resize and warp, too. What changes colours is left out.
func Follow(steps []native.Step, scale, width, height int32) ([]native.Op, error) {
	ops := make([]native.Op, 0, 2*len(steps))
	for i := range steps {
		s := &steps[i]
		after := [2]int32{height, width}
		if i+1 < len(steps) {
			after = [2]int32{steps[i+1].Height, steps[i+1].Width}
		}
		made, err := follow(s, scale, after)
		if err != nil {
			return nil, err
		}
		ops = append(ops, made...)
	}
	return ops, nil
}

func follow(s *native.Step, scale int32, after [2]int32) ([]native.Op, error) {
	i, b := s.I, s.Box
	switch s.Kind {
	case native.OpCrop:
		return []native.Op{scaledCrop(i[0], i[1], i[2], i[3], scale)}, nil
	case native.OpCenterCrop:
		return []native.Op{scaledCrop(centre(s.Height, i[0]), centre(s.Width, i[1]), i[0], i[1], scale)}, nil
	case native.OpRandomCrop:
		return append(padding(s, scale), scaledCrop(b[0], b[1], b[2], b[3], scale)), nil
	case native.OpPad:
		return padding(s, scale), nil
	case native.OpHorizontalFlip:
		return []native.Op{native.HorizontalFlip{Probability: 1}}, nil
	case native.OpVerticalFlip:
		return []native.Op{native.VerticalFlip{Probability: 1}}, nil
	case native.OpRandomResizedCrop, native.OpResize, native.OpResizeShorter, native.OpResizeBox, native.OpReduce:
		return resized(s, scale, after)
	case native.StepPixel + native.PixelAffine, native.StepPixel + native.PixelPerspective:
		return warped(s, scale)
	case native.StepPixel + native.PixelElastic:
		return displaced(s, scale)
	case native.StepPixel + native.PixelTensorAffine:
		return nil, fmt.Errorf("internal: no image moves with an op of AugMix")
	}
	return nil, nil // what changes colours, and what erases
}

func scaledCrop(top, left, height, width, scale int32) native.Crop {
	return native.Crop{Top: top * scale, Left: left * scale, Height: height * scale, Width: width * scale}
}

// centre is where a central crop begins: hrn_centre of native/plan/sizes.c.
func centre(length, crop int32) int32 {
	if crop > length {
		return -((crop - length) / 2)
	}
	return anchor(length, crop)
}

// padding is that of a Pad, or what a RandomCrop pads by before it crops.
func padding(s *native.Step, scale int32) []native.Op {
	i := s.I
	left, top, right, bottom := i[2], i[3], i[4], i[5]
	if s.Kind == native.OpRandomCrop && i[6] == 1 {
		across, down := max(0, i[1]-s.Width-left-right), max(0, i[0]-s.Height-top-bottom)
		left, right, top, bottom = left+across, right+across, top+down, bottom+down
	}
	if left == 0 && top == 0 && right == 0 && bottom == 0 {
		return nil
	}
	return []native.Op{native.Pad{Fill: [3]float64(s.P[:3]), Padding: native.Padding{
		Left: left * scale, Top: top * scale, Right: right * scale, Bottom: bottom * scale, Mode: i[7]}}}
}

func resized(s *native.Step, scale int32, after [2]int32) ([]native.Op, error) {
	if scale != 1 {
		return nil, fmt.Errorf("internal: no image of another scale moves with a resize")
	}
	resize := native.Resize{Height: after[0], Width: after[1], Filter: s.Filter}
	switch s.Kind {
	case native.OpResizeBox:
		return nil, fmt.Errorf("internal: no image moves with resize_box")
	case native.OpReduce:
		return nil, fmt.Errorf("internal: no image moves with reduce")
	case native.OpRandomResizedCrop:
		return []native.Op{scaledCrop(s.Box[0], s.Box[1], s.Box[2], s.Box[3], 1), resize}, nil
	}
	return []native.Op{resize}, nil
}

// displaced is the same displacements, which are a function of the image's size.
func displaced(s *native.Step, scale int32) ([]native.Op, error) {
	if scale != 1 {
		return nil, fmt.Errorf("internal: no image of another scale moves with elastic displacements")
	}
	return []native.Op{native.Pixel{Kind: native.PixelElastic, Filter: s.Filter, I: [4]int32(s.I[:4]), P: s.P,
		Fill: [3]float64{float64(s.I[5]), float64(s.I[6]), float64(s.I[7])}}}, nil
}

// warped is the same map. Its coefficients are in pixels from the image's corner on, so that of a larger
// image differs in its shift alone. With a scale it is a quarter turn, which shows whole pixels of both.
func warped(s *native.Step, scale int32) ([]native.Op, error) {
	op := native.Pixel{Kind: s.Kind - native.StepPixel, Filter: s.Filter, P: s.P,
		Fill: [3]float64{float64(s.I[5]), float64(s.I[6]), float64(s.I[7])}}
	if op.Kind == native.PixelAffine {
		op.I = [4]int32{native.MapCoefficients, 0, s.I[2] * scale, s.I[3] * scale}
	}
	if op.Kind == native.PixelAffine && op.I[2] == 0 && op.P == [8]float64{0: 1, 4: 1} {
		return nil, nil // a turn by nothing
	}
	if scale == 1 {
		return []native.Op{op}, nil
	}
	for _, k := range [6]int{0, 1, 2, 3, 4, 5} {
		if op.P[k] != math.Trunc(op.P[k]) || op.Kind != native.PixelAffine {
			return nil, fmt.Errorf("a turn of %d x %d pixels that is no quarter turn of whole pixels (expected one, for images of another scale)", s.Height, s.Width)
		}
	}
	op.P[2] *= float64(scale)
	op.P[5] *= float64(scale)
	op.Filter = native.Nearest
	return []native.Op{op}, nil
}
