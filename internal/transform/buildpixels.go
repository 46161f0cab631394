package transform

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

type fixedOp struct {
	kind      int32
	arguments []string
}

// fixedOps are the transforms that do one fixed thing to pixels, with the probability p where they
// have one; their other arguments are read in this order.
var fixedOps = map[string]fixedOp{
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

func (f fixedOp) build(op *native.Op, v map[string]value) {
	op.Kind = native.OpPixel
	op.I[0] = f.kind
	for i, argument := range f.arguments {
		op.P[i] = v[argument].numbers[0]
	}
	if tensor, ok := v["tensor"]; ok && tensor.on() {
		op.I[0] = ofTensors[f.kind]
	}
}

// pixels are the other transforms of pixels.
var pixels = map[string]builder{
	"RandomPosterize": buildPosterize,
	"Posterize":       buildPosterize,
	"SolarizeAdd":     buildSolarizeAdd,
	"ColorJitter":     buildColorJitter,
	"RandomChannelPermutation": func(op *native.Op, _ map[string]value) *Error {
		op.Kind = native.OpChannelPermutation
		return nil
	},
	"PermuteChannels":    buildPermutation,
	"GaussianBlur":       buildGaussianBlur,
	"Blur":               buildBlur,
	"JPEG":               buildJPEG,
	"GaussianNoise":      buildGaussianNoise,
	"Noise":              buildNoise,
	"RandomRotation":     buildRotation,
	"RandomAffine":       buildAffine,
	"RandomPerspective":  buildPerspective,
	"Affine":             buildFixedAffine,
	"Rotate":             buildRotate,
	"AffineMap":          buildAffineMap,
	"TensorAffine":       buildTensorAffine,
	"Perspective":        buildPerspectiveMap,
	"RandAugment":        buildRandAugment,
	"TrivialAugmentWide": buildTrivialAugment,
	"AutoAugment":        buildAutoAugment,
	"TimmAugment":        buildTimm,
	"AugMix":             buildAugMix,
	"Native":             buildNative,
}

// setVersionAndFill: most have the one or the other at the same place.
func setVersionAndFill(op *native.Op, v map[string]value) {
	if version, ok := v["version"]; ok {
		op.P[1] = version.numbers[0]
	}
	if fill, ok := v["fill"]; ok && !fill.isNull {
		for c := range 3 {
			op.I[5+c] = int32(fill.each(c))
		}
	}
}

// setPixel makes it an op that does one fixed thing.
func setPixel(op *native.Op, kind int32) {
	op.Kind, op.I[0] = native.OpPixel, kind
}

func buildPosterize(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelPosterize)
	op.I[1] = v["bits"].integer(0)
	return nil
}

func buildSolarizeAdd(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelSolarizeAdd)
	op.I[1], op.I[2] = v["add"].integer(0), v["thresh"].integer(0)
	return nil
}

func buildPermutation(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelChannels)
	for i := range 3 {
		op.I[1+i] = v["permutation"].integer(i)
	}
	return nil
}

func buildGaussianBlur(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpGaussianBlur
	op.I[0], op.I[1] = int32(v["kernel_size"].each(0)), int32(v["kernel_size"].each(1))
	op.P[0], op.P[1] = v["sigma"].each(0), v["sigma"].each(1)
	return nil
}

func buildBlur(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelBlur)
	op.I[1], op.I[2] = int32(v["kernel_size"].each(0)), int32(v["kernel_size"].each(1))
	op.P[0], op.P[1] = v["sigma"].each(0), v["sigma"].each(1)
	return nil
}

func buildJPEG(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpJPEG
	op.I[0], op.I[1] = int32(v["quality"].each(0)), int32(v["quality"].each(1))
	return nil
}

func buildGaussianNoise(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpGaussianNoise
	op.P[0], op.P[1], op.P[2] = v["mean"].numbers[0], v["sigma"].numbers[0], v["clip"].numbers[0]
	return nil
}

func buildNoise(op *native.Op, v map[string]value) *Error {
	if err := buildGaussianNoise(op, v); err != nil {
		return err
	}
	setPixel(op, native.PixelNoise)
	for k, number := range v["key"].numbers {
		op.I[1+k] = int32(uint32(number))
	}
	return nil
}

func buildRotation(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpRotation
	setEitherSide(op.P[0:2], v["degrees"])
	setCentre(&op.I[0], op.P[2:4], v["center"])
	op.I[1] = v["expand"].integer(0)
	return refuseNegative("degrees", v["degrees"])
}

func buildPerspective(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpPerspective
	op.P[0] = v["distortion_scale"].numbers[0]
	return nil
}

func buildFixedAffine(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelAffine)
	op.I[1] = native.MapAffine
	numbers := slices.Concat(v["angle"].numbers, v["translate"].numbers, v["scale"].numbers, v["shear"].numbers)
	copy(op.P[:], numbers)
	setCentre(&op.I[2], op.P[6:8], v["center"])
	return nil
}

func buildRotate(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelAffine)
	op.I[1] = native.MapRotation
	op.P[0] = v["angle"].numbers[0]
	setCentre(&op.I[2], op.P[1:3], v["center"])
	op.I[3] = v["expand"].integer(0)
	return nil
}

func buildAffineMap(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelAffine)
	op.I[1] = native.MapCoefficients
	copy(op.P[:], v["coefficients"].numbers)
	if size := v["size"]; !size.isNull {
		op.I[3], op.I[4] = int32(size.each(1)), int32(size.each(0))
	}
	return nil
}

func buildTensorAffine(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelTensorAffine)
	copy(op.P[:], v["coefficients"].numbers)
	if !v["fill"].isNull {
		op.I[1] = 1
	}
	return nil
}

func buildPerspectiveMap(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelPerspective)
	copy(op.P[:], v["coefficients"].numbers)
	return nil
}

func buildRandAugment(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpRandAugment
	for i, argument := range []string{"num_ops", "magnitude", "num_magnitude_bins"} {
		op.I[i] = v[argument].integer(0)
	}
	if op.I[1] >= op.I[2] {
		return &Error{Argument: "magnitude", Text: fmt.Sprintf("is %d (expected less than num_magnitude_bins, which is %d)", op.I[1], op.I[2])}
	}
	return nil
}

func buildTrivialAugment(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpTrivialAugment
	op.I[0] = v["num_magnitude_bins"].integer(0)
	return nil
}

func buildAutoAugment(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpAutoAugment
	op.I[0] = int32(slices.Index(theTable().Choices["policy"], v["policy"].text))
	return nil
}

func buildNative(op *native.Op, v map[string]value) *Error {
	setPixel(op, native.PixelUser)
	for i, address := range []uint64{v["function"].address, v["context"].address} {
		op.I[1+2*i], op.I[2+2*i] = int32(uint32(address)), int32(uint32(address>>32))
	}
	if v["function"].address == 0 {
		return &Error{Argument: "function", Text: "is 0 (expected the address of a function)"}
	}
	return nil
}

// buildColorJitter: one number is a distance from the factor that changes nothing, as in
// torchvision; an interval of that factor alone is left out.
func buildColorJitter(op *native.Op, v map[string]value) *Error {
	op.Kind = native.OpColorJitter
	for i, argument := range []string{"brightness", "contrast", "saturation", "hue"} {
		neutral := 1.0
		if argument == "hue" {
			neutral = 0
		}
		low, high := v[argument].each(0), v[argument].each(1)
		if len(v[argument].numbers) == 1 {
			if high < 0 {
				return &Error{Argument: argument, Text: fmt.Sprintf("is %g (expected at least 0 as one number)", v[argument].numbers[0])}
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
	return nil
}

func buildAffine(op *native.Op, v map[string]value) *Error {
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
			return &Error{Argument: "shear", Text: fmt.Sprintf("is %v (expected at least 0 as one number, or the lower bound first)", shear.numbers)}
		}
	}
	setCentre(&op.I[0], op.P[10:12], v["center"])
	return refuseNegative("degrees", v["degrees"])
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
