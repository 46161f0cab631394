package transform

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// pixelOps are the transforms that do one fixed thing to pixels, with the probability p where they
// have one; their other arguments are read in this order.
var pixelOps = map[string]struct {
	kind      int32
	arguments []string
}{
	"Grayscale":             {native.PixelGrey, nil},
	"RandomGrayscale":       {native.PixelGrey, nil},
	"RandomInvert":          {native.PixelInvert, nil},
	"RandomSolarize":        {native.PixelSolarize, []string{"threshold"}},
	"RandomAdjustSharpness": {native.PixelSharpness, []string{"sharpness_factor"}},
	"RandomAutocontrast":    {native.PixelAutocontrast, nil},
	"RandomEqualize":        {native.PixelEqualize, nil},
	"Invert":                {native.PixelInvert, nil},
	"Solarize":              {native.PixelSolarize, []string{"threshold"}},
	"AdjustBrightness":      {native.PixelBrightness, []string{"factor"}},
	"AdjustContrast":        {native.PixelContrast, []string{"factor"}},
	"AdjustSaturation":      {native.PixelSaturation, []string{"factor"}},
	"AdjustSharpness":       {native.PixelSharpness, []string{"factor"}},
	"AdjustHue":             {native.PixelHue, []string{"factor"}},
	"AdjustGamma":           {native.PixelGamma, []string{"gamma", "gain"}},
	"Autocontrast":          {native.PixelAutocontrast, nil},
	"PillowBlur":            {native.PixelPillowBlur, []string{"radius"}},
	"Equalize":              {native.PixelEqualize, nil},
}

// ofTensors are the ops that torchvision does otherwise to tensors of bytes than to PIL images.
var ofTensors = map[int32]int32{
	native.PixelBrightness:   native.PixelTensorBrightness,
	native.PixelContrast:     native.PixelTensorContrast,
	native.PixelSaturation:   native.PixelTensorSaturation,
	native.PixelSharpness:    native.PixelTensorSharpness,
	native.PixelAutocontrast: native.PixelTensorAutocontrast,
}

// buildPixels makes the op of a transform on pixels; false where it is none of those.
func buildPixels(name string, v map[string]value) (native.Op, bool, *Error) {
	op := native.Op{Filter: filters[v["interpolation"].text]}
	if fixed, ok := pixelOps[name]; ok {
		op.Kind = native.OpPixel
		op.I[0] = fixed.kind
		for i, argument := range fixed.arguments {
			op.P[i] = v[argument].numbers[0]
		}
		if tensor, ok := v["tensor"]; ok && tensor.on() {
			op.I[0] = ofTensors[fixed.kind]
		}
		return op, true, nil
	}
	if version, ok := v["version"]; ok {
		op.P[1] = version.numbers[0]
	}
	if fill, ok := v["fill"]; ok && !fill.isNull {
		for c := range 3 {
			op.I[5+c] = int32(fill.each(c))
		}
	}
	switch name {
	case "RandomPosterize", "Posterize":
		op.Kind = native.OpPixel
		op.I[0], op.I[1] = native.PixelPosterize, v["bits"].integer(0)
	case "ColorJitter":
		return buildColorJitter(op, v)
	case "RandomChannelPermutation":
		op.Kind = native.OpChannelPermutation
	case "GaussianBlur":
		op.Kind = native.OpGaussianBlur
		op.I[0], op.I[1] = int32(v["kernel_size"].each(0)), int32(v["kernel_size"].each(1))
		op.P[0], op.P[1] = v["sigma"].each(0), v["sigma"].each(1)
	case "JPEG":
		op.Kind = native.OpJPEG
		op.I[0], op.I[1] = int32(v["quality"].each(0)), int32(v["quality"].each(1))
	case "GaussianNoise", "Noise":
		op.Kind = native.OpGaussianNoise
		op.P[0], op.P[1], op.P[2] = v["mean"].numbers[0], v["sigma"].numbers[0], v["clip"].numbers[0]
		if name == "Noise" {
			op.Kind = native.OpPixel
			op.I[0] = native.PixelNoise
			for k, number := range v["key"].numbers {
				op.I[1+k] = int32(uint32(number))
			}
		}
	case "Blur":
		op.Kind = native.OpPixel
		op.I[0], op.I[1], op.I[2] = native.PixelBlur, int32(v["kernel_size"].each(0)), int32(v["kernel_size"].each(1))
		op.P[0], op.P[1] = v["sigma"].each(0), v["sigma"].each(1)
	case "RandomRotation":
		op.Kind = native.OpRotation
		setEitherSide(op.P[0:2], v["degrees"])
		setCentre(&op.I[0], op.P[2:4], v["center"])
		op.I[1] = v["expand"].integer(0)
		return op, true, refuseNegative("degrees", v["degrees"])
	case "RandomAffine":
		return buildAffine(op, v)
	case "RandomPerspective":
		op.Kind = native.OpPerspective
		op.P[0] = v["distortion_scale"].numbers[0]
	case "Affine":
		op.Kind = native.OpPixel
		op.I[0], op.I[1] = native.PixelAffine, native.MapAffine
		numbers := slices.Concat(v["angle"].numbers, v["translate"].numbers, v["scale"].numbers, v["shear"].numbers)
		copy(op.P[:], numbers)
		setCentre(&op.I[2], op.P[6:8], v["center"])
	case "Rotate":
		op.Kind = native.OpPixel
		op.I[0], op.I[1] = native.PixelAffine, native.MapRotation
		op.P[0] = v["angle"].numbers[0]
		setCentre(&op.I[2], op.P[1:3], v["center"])
		op.I[3] = v["expand"].integer(0)
	case "AffineMap":
		op.Kind = native.OpPixel
		op.I[0], op.I[1] = native.PixelAffine, native.MapCoefficients
		copy(op.P[:], v["coefficients"].numbers)
		if size := v["size"]; !size.isNull {
			op.I[3], op.I[4] = int32(size.each(1)), int32(size.each(0))
		}
	case "TensorAffine":
		op.Kind = native.OpPixel
		op.I[0] = native.PixelTensorAffine
		copy(op.P[:], v["coefficients"].numbers)
		if !v["fill"].isNull {
			op.I[1] = 1
		}
	case "PermuteChannels":
		op.Kind = native.OpPixel
		op.I[0] = native.PixelChannels
		for i := range 3 {
			op.I[1+i] = v["permutation"].integer(i)
		}
	case "Perspective":
		op.Kind = native.OpPixel
		op.I[0] = native.PixelPerspective
		copy(op.P[:], v["coefficients"].numbers)
	case "RandAugment":
		op.Kind = native.OpRandAugment
		for i, argument := range []string{"num_ops", "magnitude", "num_magnitude_bins"} {
			op.I[i] = v[argument].integer(0)
		}
		if op.I[1] >= op.I[2] {
			return op, true, &Error{Argument: "magnitude", Text: fmt.Sprintf("is %d (expected less than num_magnitude_bins, which is %d)", op.I[1], op.I[2])}
		}
	case "TrivialAugmentWide":
		op.Kind = native.OpTrivialAugment
		op.I[0] = v["num_magnitude_bins"].integer(0)
	case "AutoAugment":
		op.Kind = native.OpAutoAugment
		op.I[0] = int32(slices.Index(theTable().Choices["policy"], v["policy"].text))
	case "TimmAugment":
		op, err := buildTimm(op, v)
		return op, true, err
	case "AugMix":
		op, err := buildAugMix(op, v)
		return op, true, err
	case "Native":
		op.Kind = native.OpPixel
		op.I[0] = native.PixelUser
		for i, address := range []uint64{v["function"].address, v["context"].address} {
			op.I[1+2*i], op.I[2+2*i] = int32(uint32(address)), int32(uint32(address>>32))
		}
		if v["function"].address == 0 {
			return op, true, &Error{Argument: "function", Text: "is 0 (expected the address of a function)"}
		}
	case "SolarizeAdd":
		op.Kind = native.OpPixel
		op.I[0], op.I[1], op.I[2] = native.PixelSolarizeAdd, v["add"].integer(0), v["thresh"].integer(0)
	default:
		if erases(name) {
			op, err := buildErasing(name, v)
			return op, true, err
		}
		return op, false, nil
	}
	return op, true, nil
}

// buildColorJitter: one number is a distance from the factor that changes nothing, as in
// torchvision; an interval of that factor alone is left out.
func buildColorJitter(op native.Op, v map[string]value) (native.Op, bool, *Error) {
	op.Kind = native.OpColorJitter
	for i, argument := range []string{"brightness", "contrast", "saturation", "hue"} {
		neutral := 1.0
		if argument == "hue" {
			neutral = 0
		}
		low, high := v[argument].each(0), v[argument].each(1)
		if len(v[argument].numbers) == 1 {
			if high < 0 {
				return op, true, &Error{Argument: argument, Text: fmt.Sprintf("is %g (expected at least 0 as one number)", v[argument].numbers[0])}
			}
			low, high = neutral-high, neutral+high
			if argument != "hue" {
				low = max(low, 0)
			}
		}
		op.P[2*i], op.P[2*i+1] = low, high
		if low != neutral || high != neutral {
			op.I[i] = 1
		}
	}
	return op, true, nil
}

func buildAffine(op native.Op, v map[string]value) (native.Op, bool, *Error) {
	op.Kind = native.OpAffine
	setEitherSide(op.P[0:2], v["degrees"])
	if !v["translate"].isNull {
		copy(op.P[2:4], v["translate"].numbers)
	}
	op.P[4], op.P[5] = 1, 1
	if !v["scale"].isNull {
		copy(op.P[4:6], v["scale"].numbers)
	}
	if shear := v["shear"]; !shear.isNull {
		setEitherSide(op.P[6:8], value{numbers: shear.numbers[:min(2, len(shear.numbers))]})
		if len(shear.numbers) == 4 {
			copy(op.P[8:10], shear.numbers[2:])
		}
		if op.P[6] > op.P[7] || op.P[8] > op.P[9] {
			return op, true, &Error{Argument: "shear", Text: fmt.Sprintf("is %v (expected at least 0 as one number, or the lower bound first)", shear.numbers)}
		}
	}
	setCentre(&op.I[0], op.P[10:12], v["center"])
	return op, true, refuseNegative("degrees", v["degrees"])
}

// setEitherSide: one number is as far to either side, two are the bounds.
func setEitherSide(to []float64, v value) {
	to[0], to[1] = v.each(0), v.each(1)
	if len(v.numbers) == 1 {
		to[0] = -to[1]
	}
}

func refuseNegative(argument string, v value) *Error {
	if len(v.numbers) == 1 && v.numbers[0] < 0 {
		return &Error{Argument: argument, Text: fmt.Sprintf("is %g (expected at least 0 as one number)", v.numbers[0])}
	}
	return nil
}

func setCentre(has *int32, to []float64, v value) {
	if v.isNull {
		return
	}
	*has = 1
	copy(to, v.numbers)
}
