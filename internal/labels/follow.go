package labels

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/native"
)

// Form describes a further image of a sample, and what is made of it.
type Form struct {
	Scale     int32 // its sides divided by those of the first image
	DType     int32 // a number of native; below 0: the dtype of the images
	Normalize bool
	Mean, Std [3]float32
}

// Output returns the form of the moved image, beside images of the given form.
func (f *Form) Output(images native.Output) native.Output {
	found := native.Output{DType: f.DType, Layout: images.Layout, Scale: images.Scale, Mode: images.Mode, Passes: images.Passes,
		Normalize: f.Normalize, Mean: f.Mean, Std: f.Std}
	if f.DType < 0 {
		found.DType = images.DType
	}
	return found
}

// Follow returns the ops that do to an image of `scale` times the size what was drawn for the first image, whose result
// is width x height. They are the same crops, paddings, flips and turns, in pixels of the larger image. With a scale of
// 1, there are also resizes and warps. Ops that change colours are left out.
func Follow(drawn []native.Drawn, scale, width, height int32) ([]native.Op, error) {
	ops := make([]native.Op, 0, 2*len(drawn))
	for i := range drawn {
		d := &drawn[i]
		// The next op's record says what an op makes of the image. For the last op, it is the sample's size.
		after := [2]int32{height, width}
		if i+1 < len(drawn) {
			after = [2]int32{drawn[i+1].Height, drawn[i+1].Width}
		}
		made, err := follow(d, scale, after)
		if err != nil {
			return nil, err
		}
		ops = append(ops, made...)
	}
	return ops, nil
}

func follow(d *native.Drawn, scale int32, after [2]int32) ([]native.Op, error) {
	switch op := d.Op.(type) {
	case native.Crop:
		return []native.Op{scaledCrop(op, scale)}, nil
	case native.CenterCrop:
		return []native.Op{scaledCrop(native.Crop{Top: centre(d.Height, op.Height), Left: centre(d.Width, op.Width),
			Height: op.Height, Width: op.Width}, scale)}, nil
	case native.RandomCrop:
		return append(padding(op.Pads(d.Width, d.Height), op.Fill, scale), scaledCrop(d.Box, scale)), nil
	case native.Pad:
		return padding(op.Padding, op.Fill, scale), nil
	case native.HorizontalFlip, native.VerticalFlip:
		return []native.Op{op}, nil
	case native.RandomResizedCrop:
		return resized(op.Filter, scale, after, scaledCrop(d.Box, 1))
	case native.Resize:
		return resized(op.Filter, scale, after)
	case native.ResizeShorter:
		return resized(op.Filter, scale, after)
	case native.ResizeBox:
		return nil, fmt.Errorf("internal: no image moves with resize_box")
	case native.Reduce:
		return nil, fmt.Errorf("internal: no image moves with reduce")
	case native.AffineMap:
		return turned(op, d, scale)
	case native.PerspectiveMap:
		if scale != 1 {
			return nil, noTurn(d)
		}
		return []native.Op{op}, nil
	case native.FixedElastic: // the same displacements, because they depend only on the image's size
		if scale != 1 {
			return nil, fmt.Errorf("internal: no image of another scale moves with elastic displacements")
		}
		return []native.Op{op}, nil
	case native.TensorAffineMap:
		return nil, fmt.Errorf("internal: no image moves with an op of AugMix")
	}
	return nil, nil // ops that change colours or erase
}

func scaledCrop(c native.Crop, scale int32) native.Crop {
	return native.Crop{Top: c.Top * scale, Left: c.Left * scale, Height: c.Height * scale, Width: c.Width * scale}
}

// centre returns where a central crop begins, like hrn_centre of native/plan/sizes.c.
func centre(length, crop int32) int32 {
	if crop > length {
		return -((crop - length) / 2)
	}
	return anchor(length, crop)
}

func pads(p native.Padding) bool { return p.Left != 0 || p.Top != 0 || p.Right != 0 || p.Bottom != 0 }

func padding(p native.Padding, fill [3]float64, scale int32) []native.Op {
	if !pads(p) {
		return nil
	}
	return []native.Op{native.Pad{Fill: fill, Padding: native.Padding{
		Left: p.Left * scale, Top: p.Top * scale, Right: p.Right * scale, Bottom: p.Bottom * scale, Mode: p.Mode}}}
}

// resized returns a resize to the size that the first image has `after` it, after a crop if there is one.
func resized(filter, scale int32, after [2]int32, crop ...native.Op) ([]native.Op, error) {
	if scale != 1 {
		return nil, fmt.Errorf("internal: no image of another scale moves with a resize")
	}
	return append(crop, native.Resize{Height: after[0], Width: after[1], Filter: filter}), nil
}

// turned returns the same map for the further image. Its coefficients are in pixels from the image's corner, so for a
// larger image only the shift differs. With a scale it has to be a quarter turn, which moves whole pixels of both.
func turned(op native.AffineMap, d *native.Drawn, scale int32) ([]native.Op, error) {
	if op.Width == 0 && op.Coefficients == [6]float64{0: 1, 4: 1} {
		return nil, nil // the image is not turned
	}
	if scale == 1 {
		return []native.Op{op}, nil
	}
	// A quarter turn has only whole coefficients, and moves pixels to pixels at any scale.
	for _, c := range op.Coefficients {
		if c != math.Trunc(c) {
			return nil, noTurn(d)
		}
	}
	op.Coefficients[2] *= float64(scale)
	op.Coefficients[5] *= float64(scale)
	op.Width, op.Height, op.Filter = op.Width*scale, op.Height*scale, native.Nearest
	return []native.Op{op}, nil
}

func noTurn(d *native.Drawn) error {
	return fmt.Errorf("a rotation of %d x %d pixels that is not a quarter turn of whole pixels (expected one, because the second image has another scale)", d.Height, d.Width)
}
