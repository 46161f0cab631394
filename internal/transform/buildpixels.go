package transform

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// pixels are the transforms of pixels whose op is not an Adjust: random ones, fixed ones that a replay names
// (fixed.go), and policies. The op of a transform that draws numbers has their bounds. The fixed op beside it has the
// drawn numbers, and is another type in native (GaussianBlur and FixedBlur). If only the chance is drawn, as for
// RandomPosterize, one op serves for both.
var pixels = map[string]builder{
	"RandomPosterize":          buildPosterize,
	"Posterize":                buildPosterize,
	"RandomSolarize":           buildSolarize,
	"Solarize":                 buildSolarize,
	"AdjustGamma":              buildGamma,
	"SolarizeAdd":              buildSolarizeAdd,
	"ColorJitter":              buildColorJitter,
	"RandomChannelPermutation": buildChannelPermutation,
	"PermuteChannels":          buildPermutation,
	"GaussianBlur":             buildGaussianBlur,
	"Blur":                     buildBlur,
	"PillowBlur":               buildPillowBlur,
	"RandomPillowBlur":         buildRandomPillowBlur,
	"JPEG":                     buildJPEG,
	"GaussianNoise":            buildGaussianNoise,
	"Noise":                    buildNoise,
	"ElasticTransform":         buildElasticTransform,
	"Elastic":                  buildElastic,
	"Displace":                 buildDisplace,
	"RandomRotation":           buildRotation,
	"RandomAffine":             buildAffine,
	"RandomPerspective":        buildPerspective,
	"Affine":                   buildFixedAffine,
	"Rotate":                   buildRotate,
	"AffineMap":                buildAffineMap,
	"TensorAffine":             buildTensorAffine,
	"Perspective":              buildPerspectiveMap,
	"RandAugment":              buildRandAugment,
	"TrivialAugmentWide":       buildTrivialAugment,
	"AutoAugment":              buildAutoAugment,
	"TimmAugment":              buildTimm,
	"AugMix":                   buildAugMix,
	"Native":                   buildNative,
}

// buildChannelPermutation: one of the six orders is drawn, each equally likely (torch.randperm of
// RandomChannelPermutation).
func buildChannelPermutation(map[string]value) (native.Op, *Error) {
	return native.ChannelPermutation{}, nil
}

// kernelOf: one number stands for both sides.
func kernelOf(v map[string]value) [2]int32 {
	return [2]int32{int32(v["kernel_size"].each(0)), int32(v["kernel_size"].each(1))}
}

// buildGaussianBlur: sigma is drawn between two bounds; one number stands for both.
func buildGaussianBlur(v map[string]value) (native.Op, *Error) {
	return native.GaussianBlur{Kernel: kernelOf(v), Sigma: v["sigma"].pair()}, nil
}

// buildRandomPillowBlur: Pillow's ImageFilter.GaussianBlur, whose radius is the standard deviation. It approximates a
// Gaussian by three box blurs, so its bytes differ from those of torchvision's convolution with a kernel.
func buildRandomPillowBlur(v map[string]value) (native.Op, *Error) {
	return native.PillowBlur{Radius: v["radius"].pair()}, nil
}

// buildJPEG: one number for the quality stands for both bounds; whole qualities are drawn.
func buildJPEG(v map[string]value) (native.Op, *Error) {
	return native.JPEG{Quality: [2]int32{int32(v["quality"].each(0)), int32(v["quality"].each(1))}}, nil
}

func buildGaussianNoise(v map[string]value) (native.Op, *Error) {
	// Mean and deviation are for values in 0..1, as in v2.GaussianNoise, even if the result is bytes.
	return native.GaussianNoise{Mean: v["mean"].numbers[0], Deviation: v["sigma"].numbers[0], Clip: v["clip"].on()}, nil
}

// buildElasticTransform: without a fill, pixels from outside count as 0, as in torch's grid_sample. A fill of 0 is not
// the same: torchvision blends it in with a mask, which may round differently or, with nearest, choose another pixel.
// So native has to know whether there is a fill.
func buildElasticTransform(v map[string]value) (native.Op, *Error) {
	op := native.Elastic{Alpha: v["alpha"].pair(), Sigma: v["sigma"].pair(), Filled: !v["fill"].isNull,
		Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}
	return op, refuseOneSigma(v)
}

// refuseOneSigma: torchvision blurs each axis of a displacement whose own sigma is above 0, using both sigmas
// (ElasticTransform.get_params), and its gaussian_blur refuses a sigma of 0. So both have to be 0, or neither.
func refuseOneSigma(v map[string]value) *Error {
	if sigma := v["sigma"].pair(); (sigma[0] == 0) != (sigma[1] == 0) {
		return &Error{Argument: "sigma", Text: fmt.Sprintf("is %v (expected no 0, or 0 for both)", v["sigma"].numbers)}
	}
	return nil
}

// buildRotation: with expand the canvas grows with the drawn angle, so each image has its own size.
func buildRotation(v map[string]value) (native.Op, *Error) {
	return native.Rotation{Filter: filterOf(v), Fill: fillOf(v), Expand: v["expand"].on(),
		Degrees: eitherSide(v["degrees"]), Centre: centreOf(v)}, refuseNegative("degrees", v["degrees"])
}

// buildAffine: a scale from 1 to 1 stands for torchvision's None, because a draw between equal bounds gives the bound.
func buildAffine(v map[string]value) (native.Op, *Error) {
	op := native.Affine{Filter: filterOf(v), Fill: fillOf(v), Degrees: eitherSide(v["degrees"]),
		Scale: [2]float64{1, 1}, Centre: centreOf(v), Version: versionOf(v)}
	// These are torchvision's None: no translation, no scaling, no shear.
	if !v["translate"].isNull {
		op.Translate = v["translate"].pair()
	}
	if !v["scale"].isNull {
		op.Scale = v["scale"].pair()
	}
	// One or two numbers are for x; four are for x and y.
	if shear := v["shear"]; !shear.isNull {
		op.ShearX = eitherSide(value{numbers: shear.numbers[:min(2, len(shear.numbers))]})
		if len(shear.numbers) == 4 {
			copy(op.ShearY[:], shear.numbers[2:])
		}
		if op.ShearX[0] > op.ShearX[1] || op.ShearY[0] > op.ShearY[1] {
			return nil, &Error{Argument: "shear", Text: fmt.Sprintf("is %v (expected at least 0 as one number, or the lower bound first)", shear.numbers)}
		}
	}
	return op, refuseNegative("degrees", v["degrees"])
}

// buildPerspective: a distortion of d moves each corner inwards by up to d/2 of a side (RandomPerspective.get_params).
func buildPerspective(v map[string]value) (native.Op, *Error) {
	return native.Perspective{Filter: filterOf(v), Fill: fillOf(v), Distortion: v["distortion_scale"].numbers[0]}, nil
}

// buildRandAugment: num_ops ops one after the other, all with one magnitude (RandAugment.forward).
func buildRandAugment(v map[string]value) (native.Op, *Error) {
	op := native.RandAugment{Ops: v["num_ops"].integer(0), Magnitude: v["magnitude"].integer(0),
		Bins: v["num_magnitude_bins"].integer(0), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}
	// torchvision uses it as an index into so many magnitudes.
	if op.Magnitude >= op.Bins {
		return nil, &Error{Argument: "magnitude", Text: fmt.Sprintf("is %d (expected less than num_magnitude_bins, which is %d)", op.Magnitude, op.Bins)}
	}
	return op, nil
}

// buildTrivialAugment: one op with a drawn magnitude, so there is no magnitude to check.
func buildTrivialAugment(v map[string]value) (native.Op, *Error) {
	return native.TrivialAugment{Bins: v["num_magnitude_bins"].integer(0), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}, nil
}

func buildAutoAugment(v map[string]value) (native.Op, *Error) {
	// The table lists them in the order of native's numbers.
	policy := slices.Index(theTable().Choices["policy"], v["policy"].text)
	return native.AutoAugment{Policy: int32(policy), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}, nil
}

// buildColorJitter: one number is a distance from the factor that changes nothing, as in torchvision. An interval of
// only that factor is left out.
func buildColorJitter(v map[string]value) (native.Op, *Error) {
	var op native.ColorJitter
	// This is the order of native.ColorJitter's factors. The order in which they are applied is drawn for each image
	// (ColorJitter.get_params).
	for i, argument := range []string{"brightness", "contrast", "saturation", "hue"} {
		// A hue is turned by adding; every other factor multiplies.
		neutral := 1.0
		if argument == "hue" {
			neutral = 0
		}
		low, high := v[argument].each(0), v[argument].each(1)
		if len(v[argument].numbers) == 1 {
			if high < 0 {
				return nil, &Error{Argument: argument, Text: fmt.Sprintf("is %g (expected at least 0 as one number)", v[argument].numbers[0])}
			}
			low, high = neutral-high, neutral+high
			// A factor of brightness cannot be negative (ColorJitter._check_input, clip_first_on_zero).
			if argument != "hue" {
				low = max(low, 0)
			}
		}
		op.Factor[i] = [2]float64{low, high}
		// torchvision makes it None and draws nothing for it; the draws of the others depend on that.
		op.Drawn[i] = low != neutral || high != neutral
	}
	return op, nil
}

// eitherSide: one number reaches that far to either side, two are the bounds (torchvision's _setup_angle).
func eitherSide(v value) [2]float64 {
	bounds := v.pair()
	if len(v.numbers) == 1 {
		bounds[0] = -bounds[1]
	}
	return bounds
}

// refuseNegative: one number n stands for the bounds -n and n, which a negative number would swap; torchvision refuses
// it, too (_setup_angle).
func refuseNegative(argument string, v value) *Error {
	if len(v.numbers) == 1 && v.numbers[0] < 0 {
		return &Error{Argument: argument, Text: fmt.Sprintf("is %g (expected at least 0 as one number)", v.numbers[0])}
	}
	return nil
}

// versionOf returns which of torchvision's two versions the transform stands for. v1 and v2 differ in the order of the
// sums of an affine map, and so in the last bits of a place, and in the thresholds of a policy. It is 0 if the
// transform is the same in both.
func versionOf(v map[string]value) int32 {
	if version, ok := v["version"]; ok {
		return version.integer(0)
	}
	return 0
}

// centreOf returns the centre of a rotation or an affine map. nil is the middle of the image, which native computes
// once it knows the size.
func centreOf(v map[string]value) *[2]float64 {
	if v["center"].isNull {
		return nil
	}
	centre := v["center"].pair()
	return &centre
}
