package transform

import (
	"github.com/headrace/headrace/native"
)

// adjustment is a transform that changes colours or sharpness; if it has an argument, that is one number.
type adjustment struct {
	kind   int32
	factor string
}

// adjustments are applied with the probability p, if they have one.
var adjustments = map[string]adjustment{
	"Grayscale":             {native.PixelGrey, ""},
	"RandomGrayscale":       {native.PixelGrey, ""},
	"RandomInvert":          {native.PixelInvert, ""},
	"RandomAdjustSharpness": {native.PixelSharpness, "sharpness_factor"},
	"RandomAutocontrast":    {native.PixelAutocontrast, ""},
	"RandomEqualize":        {native.PixelEqualize, ""},
	"Invert":                {native.PixelInvert, ""},
	"AdjustBrightness":      {native.PixelBrightness, "factor"},
	"AdjustContrast":        {native.PixelContrast, "factor"},
	"AdjustSaturation":      {native.PixelSaturation, "factor"},
	"AdjustSharpness":       {native.PixelSharpness, "factor"},
	"AdjustHue":             {native.PixelHue, "factor"},
	"Autocontrast":          {native.PixelAutocontrast, ""},
	"Equalize":              {native.PixelEqualize, ""},
}

// ofTensors are the ops that torchvision does differently with tensors of bytes (_functional_tensor.py) than with PIL
// images, where Pillow does them.
var ofTensors = map[int32]int32{
	native.PixelBrightness:   native.PixelTensorBrightness,
	native.PixelContrast:     native.PixelTensorContrast,
	native.PixelSaturation:   native.PixelTensorSaturation,
	native.PixelSharpness:    native.PixelTensorSharpness,
	native.PixelAutocontrast: native.PixelTensorAutocontrast,
}

// build makes the op. Only functions of headrace.functional have the argument tensor=, which says that the image was a
// tensor in torchvision.
func (a adjustment) build(v map[string]value) native.Op {
	op := native.Adjust{Kind: a.kind}
	if a.factor != "" {
		op.Factor = v[a.factor].numbers[0]
	}
	if tensor, ok := v["tensor"]; ok && tensor.on() {
		op.Kind = ofTensors[a.kind]
	}
	return op
}

func buildPosterize(v map[string]value) (native.Op, *Error) {
	// A replay of a policy may keep no bit of a byte ("bits_or_none").
	return native.Posterize{Bits: v["bits"].integer(0)}, nil
}

func buildSolarize(v map[string]value) (native.Op, *Error) {
	return native.Solarize{Threshold: v["threshold"].numbers[0]}, nil
}

func buildSolarizeAdd(v map[string]value) (native.Op, *Error) {
	// As in timm, values below the threshold are increased and others stay (solarize_add in auto_augment.py).
	return native.SolarizeAdd{Add: v["add"].integer(0), Threshold: v["thresh"].integer(0)}, nil
}

func buildGamma(v map[string]value) (native.Op, *Error) {
	return native.Gamma{Gamma: v["gamma"].numbers[0], Gain: v["gain"].numbers[0]}, nil
}

func buildPermutation(v map[string]value) (native.Op, *Error) {
	// permutation[i] is the channel that is moved to i, as in functional.permute_channels.
	var op native.PermuteChannels
	for i := range op.Order {
		op.Order[i] = v["permutation"].integer(i)
	}
	return op, nil
}

func buildBlur(v map[string]value) (native.Op, *Error) {
	// These are the drawn kernel and sigma; buildGaussianBlur has the bounds.
	return native.FixedBlur{Kernel: kernelOf(v), Sigma: v["sigma"].pair()}, nil
}

func buildPillowBlur(v map[string]value) (native.Op, *Error) {
	return native.FixedPillowBlur{Radius: [2]float64{v["radius"].each(0), v["radius"].each(1)}}, nil
}

// keyOf returns the key of noise, which is written as four numbers of 32 bits. A key is 128 bits of the counter-based
// generator (native/draws). Noise of any size can be made from it again, so a replay needs no array of numbers.
func keyOf(v map[string]value) (key [2]uint64) {
	for k, number := range v["key"].numbers {
		// Many readers of JSON keep numbers as float64, which holds 53 bits and not 64.
		key[k/2] |= uint64(uint32(number)) << (32 * (k % 2))
	}
	return key
}

func buildNoise(v map[string]value) (native.Op, *Error) {
	return native.FixedNoise{Key: keyOf(v), Mean: v["mean"].numbers[0], Deviation: v["sigma"].numbers[0], Clip: v["clip"].on()}, nil
}

func buildElastic(v map[string]value) (native.Op, *Error) {
	op := native.FixedElastic{Key: keyOf(v), Alpha: v["alpha"].pair(), Sigma: v["sigma"].pair(), Filled: !v["fill"].isNull,
		Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}
	return op, refuseOneSigma(v)
}

// buildDisplace makes the op of a displacement that the caller computed: two float32 numbers for each pixel, across and
// down, in halves of the image's sides as in torch's grid_sample. The memory belongs to the caller.
func buildDisplace(v map[string]value) (native.Op, *Error) {
	op := native.Displaced{Field: v["displacement"].address, Filled: !v["fill"].isNull,
		Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}
	if op.Field == 0 {
		return nil, &Error{Argument: "displacement", Text: "is 0 (expected the address of float32 numbers)"}
	}
	op.Height, op.Width = sizeOf(v["size"])
	return op, nil
}

// buildFixedAffine: an angle, a translation in pixels, a factor and two shears, as in functional.affine. The map's six
// coefficients depend on the image's size, so native computes them.
func buildFixedAffine(v map[string]value) (native.Op, *Error) {
	return native.FixedAffine{Angle: v["angle"].numbers[0], Scale: v["scale"].numbers[0], Translate: v["translate"].pair(),
		Shear: v["shear"].pair(), Centre: centreOf(v), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}, nil
}

func buildRotate(v map[string]value) (native.Op, *Error) {
	return native.FixedRotation{Angle: v["angle"].numbers[0], Expand: v["expand"].on(), Centre: centreOf(v),
		Filter: filterOf(v), Fill: fillOf(v)}, nil
}

// buildAffineMap: the coefficients of Pillow's Image.transform, which map a pixel of the result to a point of the
// image. Without a size the result is as large as the image.
func buildAffineMap(v map[string]value) (native.Op, *Error) {
	op := native.AffineMap{Coefficients: [6]float64(v["coefficients"].numbers), Filter: filterOf(v), Fill: fillOf(v)}
	if size := v["size"]; !size.isNull {
		op.Height, op.Width = sizeOf(size)
	}
	return op, nil
}

// buildTensorAffine: the map of an image that was a tensor, which torch samples by affine_grid and grid_sample.
func buildTensorAffine(v map[string]value) (native.Op, *Error) {
	return native.TensorAffineMap{Coefficients: [6]float64(v["coefficients"].numbers), Filled: !v["fill"].isNull,
		Filter: filterOf(v), Fill: fillOf(v)}, nil
}

// buildPerspectiveMap: the eight coefficients of Pillow's Image.transform, also from the result to the image.
func buildPerspectiveMap(v map[string]value) (native.Op, *Error) {
	return native.PerspectiveMap{Coefficients: [8]float64(v["coefficients"].numbers), Filter: filterOf(v), Fill: fillOf(v)}, nil
}

func buildNative(v map[string]value) (native.Op, *Error) {
	// The function is the program's own compiled one; native calls it for each image in its decode threads.
	op := native.User{Function: v["function"].address, Context: v["context"].address}
	if op.Function == 0 {
		return nil, &Error{Argument: "function", Text: "is 0 (expected the address of a function)"}
	}
	return op, nil
}

// ---- and back: what was drawn, as calls of headrace.functional ----

// adjusted are the functions of Adjust's kinds, with the argument if a kind has one. The names are those of
// headrace.functional, which has other names for its arguments than the transforms.
var adjusted = map[int32]struct{ function, factor string }{
	native.PixelInvert:       {"invert", ""},
	native.PixelBrightness:   {"adjust_brightness", "brightness_factor"},
	native.PixelContrast:     {"adjust_contrast", "contrast_factor"},
	native.PixelSaturation:   {"adjust_saturation", "saturation_factor"},
	native.PixelSharpness:    {"adjust_sharpness", "sharpness_factor"},
	native.PixelHue:          {"adjust_hue", "hue_factor"},
	native.PixelAutocontrast: {"autocontrast", ""},
	native.PixelEqualize:     {"equalize", ""},
}

// adjustCalls returns the one call of an op; none for a policy's Identity, which leaves the image as it is.
func adjustCalls(op native.Adjust) []Call {
	arguments := map[string]any{}
	kind := op.Kind
	// The argument tensor= says which of the two ops it was.
	for onImages, onTensors := range ofTensors {
		if kind == onTensors {
			kind, arguments["tensor"] = onImages, true
		}
	}
	if kind == native.PixelGrey {
		// There are three equal channels even after Grayscale(1), because the plan drops two of them only at its end.
		return []Call{call("rgb_to_grayscale", map[string]any{"num_output_channels": 3})}
	}
	found, ok := adjusted[kind]
	if !ok {
		return nil // it does nothing
	}
	if found.factor != "" {
		arguments[found.factor] = op.Factor
	}
	return []Call{call(found.function, arguments)}
}

// pixelCalls returns the calls of a fixed op on the pixels of an image of height x width. A kind that is missing here
// would be silently left out of a replay, so each new fixed op needs a case.
func pixelCalls(op native.Op, height, width int32) []Call {
	switch op := op.(type) {
	case native.Adjust:
		return adjustCalls(op)
	case native.Posterize:
		return []Call{call("posterize", map[string]any{"bits": op.Bits})}
	case native.Solarize:
		return []Call{call("solarize", map[string]any{"threshold": op.Threshold})}
	case native.SolarizeAdd:
		return []Call{call("solarize_add", map[string]any{"add": op.Add, "thresh": op.Threshold})}
	case native.Gamma:
		return []Call{call("adjust_gamma", map[string]any{"gamma": op.Gamma, "gain": op.Gain})}
	case native.PermuteChannels:
		return []Call{call("permute_channels", map[string]any{"permutation": op.Order})}
	case native.FixedBlur:
		return []Call{call("gaussian_blur", map[string]any{"kernel_size": op.Kernel, "sigma": op.Sigma})}
	case native.FixedPillowBlur:
		if op.Radius[0] == op.Radius[1] {
			return []Call{call("pillow_blur", map[string]any{"radius": op.Radius[0]})}
		}
		return []Call{call("pillow_blur", map[string]any{"radius": op.Radius})}
	case native.User:
		// Addresses are left out, because they mean nothing outside this process. The program knows which function it
		// gave.
		return []Call{call("native", map[string]any{})}
	case native.FixedJPEG:
		return []Call{call("jpeg", map[string]any{"quality": op.Quality})}
	case native.FixedNoise:
		return []Call{call("gaussian_noise", map[string]any{"mean": op.Mean, "sigma": op.Deviation, "clip": op.Clip, "key": halves(op.Key)})}
	case native.FixedElastic:
		return []Call{call("elastic", map[string]any{"alpha": op.Alpha, "sigma": op.Sigma, "key": halves(op.Key), "size": []int32{height, width},
			"interpolation": interpolation(op.Filter), "fill": fillOrNull(op.Filled, op.Fill), "version": op.Version})}
	case native.AffineMap:
		arguments := map[string]any{"coefficients": op.Coefficients, "interpolation": interpolation(op.Filter), "fill": wholes(op.Fill)}
		if op.Width > 0 {
			arguments["size"] = []int32{op.Height, op.Width}
		}
		return []Call{call("affine_map", arguments)}
	case native.TensorAffineMap:
		return []Call{call("tensor_affine", map[string]any{"coefficients": op.Coefficients, "interpolation": interpolation(op.Filter),
			"fill": fillOrNull(op.Filled, op.Fill)})}
	case native.PerspectiveMap:
		return []Call{call("perspective_map", map[string]any{"coefficients": op.Coefficients, "interpolation": interpolation(op.Filter),
			"fill": wholes(op.Fill)})}
	}
	return nil
}

// halves returns a key as it is written: four numbers of 32 bits.
func halves(key [2]uint64) [4]uint32 {
	return [4]uint32{uint32(key[0]), uint32(key[0] >> 32), uint32(key[1]), uint32(key[1] >> 32)}
}

// wholes returns a fill as it was written: bytes, which native holds as float64.
func wholes(numbers [3]float64) [3]int32 {
	return [3]int32{int32(numbers[0]), int32(numbers[1]), int32(numbers[2])}
}

// fillOrNull returns null if pixels from outside count as 0.
func fillOrNull(filled bool, fill [3]float64) any {
	if !filled {
		return nil
	}
	return wholes(fill)
}
