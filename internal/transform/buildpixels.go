package transform

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

type pixelKind struct {
	kind      int32
	arguments []string
}

// pixelKinds are the transforms that do one fixed thing to pixels, with the probability p where they
// have one; their other arguments are read in this order.
var pixelKinds = map[string]pixelKind{
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

func (f pixelKind) build(v map[string]value) native.Op {
	op := native.Pixel{Kind: f.kind}
	for i, argument := range f.arguments {
		op.P[i] = v[argument].numbers[0]
	}
	if tensor, ok := v["tensor"]; ok && tensor.on() {
		op.Kind = ofTensors[f.kind]
	}
	return op
}

// pixels are the other transforms of pixels.
var pixels = map[string]builder{
	"RandomPosterize":          buildPosterize,
	"Posterize":                buildPosterize,
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

func buildPosterize(v map[string]value) (native.Op, *Error) {
	return native.Pixel{Kind: native.PixelPosterize, I: [4]int32{v["bits"].integer(0)}}, nil
}

func buildSolarizeAdd(v map[string]value) (native.Op, *Error) {
	return native.Pixel{Kind: native.PixelSolarizeAdd, I: [4]int32{v["add"].integer(0), v["thresh"].integer(0)}}, nil
}

func buildChannelPermutation(map[string]value) (native.Op, *Error) {
	return native.ChannelPermutation{}, nil
}

func buildPermutation(v map[string]value) (native.Op, *Error) {
	op := native.Pixel{Kind: native.PixelChannels}
	for i := range 3 {
		op.I[i] = v["permutation"].integer(i)
	}
	return op, nil
}

// kernelOf: one number stands for both sides.
func kernelOf(v map[string]value) [2]int32 {
	return [2]int32{int32(v["kernel_size"].each(0)), int32(v["kernel_size"].each(1))}
}

func buildGaussianBlur(v map[string]value) (native.Op, *Error) {
	return native.GaussianBlur{Kernel: kernelOf(v), Sigma: v["sigma"].pair()}, nil
}

func buildBlur(v map[string]value) (native.Op, *Error) {
	op := native.Pixel{Kind: native.PixelBlur}
	kernel, sigma := kernelOf(v), v["sigma"].pair()
	copy(op.I[:], kernel[:])
	copy(op.P[:], sigma[:])
	return op, nil
}

func buildPillowBlur(v map[string]value) (native.Op, *Error) {
	return native.Pixel{Kind: native.PixelPillowBlur, P: [8]float64{v["radius"].each(0), v["radius"].each(1)}}, nil
}

func buildRandomPillowBlur(v map[string]value) (native.Op, *Error) {
	return native.PillowBlur{Radius: v["radius"].pair()}, nil
}

func buildJPEG(v map[string]value) (native.Op, *Error) {
	return native.JPEG{Quality: [2]int32{int32(v["quality"].each(0)), int32(v["quality"].each(1))}}, nil
}

func buildGaussianNoise(v map[string]value) (native.Op, *Error) {
	return native.GaussianNoise{Mean: v["mean"].numbers[0], Deviation: v["sigma"].numbers[0], Clip: v["clip"].on()}, nil
}

func buildNoise(v map[string]value) (native.Op, *Error) {
	op := native.Pixel{Kind: native.PixelNoise}
	for k, number := range v["key"].numbers {
		op.I[k] = int32(uint32(number))
	}
	for k, argument := range []string{"mean", "sigma", "clip"} {
		op.P[k] = v[argument].numbers[0]
	}
	return op, nil
}

func buildElasticTransform(v map[string]value) (native.Op, *Error) {
	op := native.Elastic{Alpha: v["alpha"].pair(), Sigma: v["sigma"].pair(), Filled: !v["fill"].isNull,
		Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}
	return op, refuseOneSigma(v)
}

// refuseOneSigma: torchvision blurs along both axes or not at all.
func refuseOneSigma(v map[string]value) *Error {
	if sigma := v["sigma"].pair(); (sigma[0] == 0) != (sigma[1] == 0) {
		return &Error{Argument: "sigma", Text: fmt.Sprintf("is %v (expected no 0, or 0 for both)", v["sigma"].numbers)}
	}
	return nil
}

// displaced is a fixed op that moves pixels by displacements.
func displaced(v map[string]value, kind int32) native.Pixel {
	op := warp(v, kind)
	if op.P[5] = float64(versionOf(v)); !v["fill"].isNull {
		op.P[4] = 1
	}
	return op
}

func buildElastic(v map[string]value) (native.Op, *Error) {
	op := displaced(v, native.PixelElastic)
	for k, number := range v["key"].numbers {
		op.I[k] = int32(uint32(number))
	}
	alpha, sigma := v["alpha"].pair(), v["sigma"].pair()
	copy(op.P[:], append(alpha[:], sigma[:]...))
	return op, refuseOneSigma(v)
}

func buildDisplace(v map[string]value) (native.Op, *Error) {
	op := displaced(v, native.PixelDisplaced)
	address := v["displacement"].address
	if address == 0 {
		return nil, &Error{Argument: "displacement", Text: "is 0 (expected the address of float32 numbers)"}
	}
	height, width := sizeOf(v["size"])
	op.I = [4]int32{int32(uint32(address)), int32(uint32(address >> 32)), width, height}
	return op, nil
}

func buildRotation(v map[string]value) (native.Op, *Error) {
	return native.Rotation{Filter: filterOf(v), Fill: fillOf(v), Expand: v["expand"].on(),
		Degrees: eitherSide(v["degrees"]), Centre: centreOf(v)}, refuseNegative("degrees", v["degrees"])
}

func buildAffine(v map[string]value) (native.Op, *Error) {
	op := native.Affine{Filter: filterOf(v), Fill: fillOf(v), Degrees: eitherSide(v["degrees"]),
		Scale: [2]float64{1, 1}, Centre: centreOf(v), Version: versionOf(v)}
	if !v["translate"].isNull {
		op.Translate = v["translate"].pair()
	}
	if !v["scale"].isNull {
		op.Scale = v["scale"].pair()
	}
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

func buildPerspective(v map[string]value) (native.Op, *Error) {
	return native.Perspective{Filter: filterOf(v), Fill: fillOf(v), Distortion: v["distortion_scale"].numbers[0]}, nil
}

// warp is a fixed map of that kind with its numbers in their order.
func warp(v map[string]value, kind int32, numbers ...[]float64) native.Pixel {
	op := native.Pixel{Kind: kind, Filter: filterOf(v), Fill: fillOf(v)}
	copy(op.P[:], slices.Concat(numbers...))
	return op
}

func buildFixedAffine(v map[string]value) (native.Op, *Error) {
	op := warp(v, native.PixelAffine, v["angle"].numbers, v["translate"].numbers, v["scale"].numbers, v["shear"].numbers)
	op.I[0] = native.MapAffine
	if versionOf(v) == 2 {
		op.I[0] = native.MapAffineOfV2
	}
	setCentre(&op, 6, v)
	return op, nil
}

func buildRotate(v map[string]value) (native.Op, *Error) {
	op := warp(v, native.PixelAffine, v["angle"].numbers[:1])
	op.I[0], op.I[2] = native.MapRotation, v["expand"].integer(0)
	setCentre(&op, 1, v)
	return op, nil
}

func buildAffineMap(v map[string]value) (native.Op, *Error) {
	op := warp(v, native.PixelAffine, v["coefficients"].numbers)
	op.I[0] = native.MapCoefficients
	if size := v["size"]; !size.isNull {
		op.I[3], op.I[2] = sizeOf(size)
	}
	return op, nil
}

func buildTensorAffine(v map[string]value) (native.Op, *Error) {
	op := warp(v, native.PixelTensorAffine, v["coefficients"].numbers)
	if !v["fill"].isNull {
		op.I[0] = 1
	}
	return op, nil
}

func buildPerspectiveMap(v map[string]value) (native.Op, *Error) {
	return warp(v, native.PixelPerspective, v["coefficients"].numbers), nil
}

func buildRandAugment(v map[string]value) (native.Op, *Error) {
	op := native.RandAugment{Ops: v["num_ops"].integer(0), Magnitude: v["magnitude"].integer(0),
		Bins: v["num_magnitude_bins"].integer(0), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}
	if op.Magnitude >= op.Bins {
		return nil, &Error{Argument: "magnitude", Text: fmt.Sprintf("is %d (expected less than num_magnitude_bins, which is %d)", op.Magnitude, op.Bins)}
	}
	return op, nil
}

func buildTrivialAugment(v map[string]value) (native.Op, *Error) {
	return native.TrivialAugment{Bins: v["num_magnitude_bins"].integer(0), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}, nil
}

func buildAutoAugment(v map[string]value) (native.Op, *Error) {
	policy := slices.Index(theTable().Choices["policy"], v["policy"].text)
	return native.AutoAugment{Policy: int32(policy), Version: versionOf(v), Filter: filterOf(v), Fill: fillOf(v)}, nil
}

func buildNative(v map[string]value) (native.Op, *Error) {
	op := native.Pixel{Kind: native.PixelUser}
	for i, address := range []uint64{v["function"].address, v["context"].address} {
		op.I[2*i], op.I[2*i+1] = int32(uint32(address)), int32(uint32(address>>32))
	}
	if v["function"].address == 0 {
		return nil, &Error{Argument: "function", Text: "is 0 (expected the address of a function)"}
	}
	return op, nil
}

// buildColorJitter: one number is a distance from the factor that changes nothing, as in
// torchvision; an interval of that factor alone is left out.
func buildColorJitter(v map[string]value) (native.Op, *Error) {
	var op native.ColorJitter
	for i, argument := range []string{"brightness", "contrast", "saturation", "hue"} {
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
			if argument != "hue" {
				low = max(low, 0)
			}
		}
		op.Factor[i] = [2]float64{low, high}
		op.Drawn[i] = low != neutral || high != neutral
	}
	return op, nil
}

// eitherSide: one number is as far to either side, two are the bounds.
func eitherSide(v value) [2]float64 {
	bounds := v.pair()
	if len(v.numbers) == 1 {
		bounds[0] = -bounds[1]
	}
	return bounds
}

func refuseNegative(argument string, v value) *Error {
	if len(v.numbers) == 1 && v.numbers[0] < 0 {
		return &Error{Argument: argument, Text: fmt.Sprintf("is %g (expected at least 0 as one number)", v.numbers[0])}
	}
	return nil
}

// versionOf is which of torchvision's two versions the transform stands for.
func versionOf(v map[string]value) int32 {
	if version, ok := v["version"]; ok {
		return version.integer(0)
	}
	return 0
}

func centreOf(v map[string]value) *[2]float64 {
	if v["center"].isNull {
		return nil
	}
	centre := v["center"].pair()
	return &centre
}

// setCentre puts a fixed map's centre behind its numbers.
func setCentre(op *native.Pixel, at int, v map[string]value) {
	if centre := centreOf(v); centre != nil {
		op.I[1] = 1
		copy(op.P[at:], centre[:])
	}
}

// ---- and back: what was drawn, as calls of headrace.functional ----

// pointCalls are the ops on pixels that take at most one number.
var pointCalls = map[int32]struct{ function, argument string }{
	native.PixelInvert:       {"invert", ""},
	native.PixelSolarize:     {"solarize", "threshold"},
	native.PixelBrightness:   {"adjust_brightness", "brightness_factor"},
	native.PixelContrast:     {"adjust_contrast", "contrast_factor"},
	native.PixelSaturation:   {"adjust_saturation", "saturation_factor"},
	native.PixelSharpness:    {"adjust_sharpness", "sharpness_factor"},
	native.PixelHue:          {"adjust_hue", "hue_factor"},
	native.PixelAutocontrast: {"autocontrast", ""},
	native.PixelEqualize:     {"equalize", ""},
}

// keyOf is the key of a step's noise.
func keyOf(s native.Step) (key [4]uint32) {
	for k := range key {
		key[k] = uint32(s.I[k])
	}
	return key
}

func pixelCalls(s native.Step) []Call {
	kind := s.Kind - native.StepPixel
	arguments := map[string]any{}
	for onImages, onTensors := range ofTensors {
		if kind == onTensors {
			kind, arguments["tensor"] = onImages, true
		}
	}
	if point, ok := pointCalls[kind]; ok {
		if point.argument != "" {
			arguments[point.argument] = s.P[0]
		}
		return []Call{call(point.function, arguments)}
	}
	warp := func(function string, coefficients int) []Call {
		arguments := map[string]any{"coefficients": slices.Clone(s.P[:coefficients]),
			"interpolation": interpolation(s.Filter), "fill": slices.Clone(s.I[5:8])}
		if kind == native.PixelAffine && s.I[2] > 0 {
			arguments["size"] = []int32{s.I[3], s.I[2]}
		}
		return []Call{call(function, arguments)}
	}
	switch kind {
	case native.PixelPosterize:
		return []Call{call("posterize", map[string]any{"bits": s.I[0]})}
	case native.PixelGamma:
		return []Call{call("adjust_gamma", map[string]any{"gamma": s.P[0], "gain": s.P[1]})}
	case native.PixelGrey:
		return []Call{call("rgb_to_grayscale", map[string]any{"num_output_channels": 3})}
	case native.PixelChannels:
		return []Call{call("permute_channels", map[string]any{"permutation": slices.Clone(s.I[:3])})}
	case native.PixelBlur:
		return []Call{call("gaussian_blur", map[string]any{"kernel_size": slices.Clone(s.I[:2]), "sigma": slices.Clone(s.P[:2])})}
	case native.PixelSolarizeAdd:
		return []Call{call("solarize_add", map[string]any{"add": s.I[0], "thresh": s.I[1]})}
	case native.PixelPillowBlur:
		if s.P[0] == s.P[1] {
			return []Call{call("pillow_blur", map[string]any{"radius": s.P[0]})}
		}
		return []Call{call("pillow_blur", map[string]any{"radius": slices.Clone(s.P[:2])})}
	case native.PixelUser:
		// Without addresses, which mean nothing outside of this process.
		return []Call{call("native", map[string]any{})}
	case native.PixelJPEG:
		return []Call{call("jpeg", map[string]any{"quality": s.I[0]})}
	case native.PixelNoise:
		return []Call{call("gaussian_noise", map[string]any{"mean": s.P[0], "sigma": s.P[1], "clip": s.P[2] == 1, "key": keyOf(s)})}
	case native.PixelElastic:
		arguments := map[string]any{"alpha": slices.Clone(s.P[:2]), "sigma": slices.Clone(s.P[2:4]), "key": keyOf(s),
			"size": []int32{s.Height, s.Width}, "interpolation": interpolation(s.Filter), "fill": nil, "version": int(s.P[5])}
		if s.P[4] == 1 {
			arguments["fill"] = slices.Clone(s.I[5:8])
		}
		return []Call{call("elastic", arguments)}
	case native.PixelAffine:
		return warp("affine_map", 6)
	case native.PixelTensorAffine:
		arguments := map[string]any{"coefficients": slices.Clone(s.P[:6]), "interpolation": interpolation(s.Filter), "fill": nil}
		if s.I[0] == 1 {
			arguments["fill"] = slices.Clone(s.I[5:8])
		}
		return []Call{call("tensor_affine", arguments)}
	case native.PixelPerspective:
		return warp("perspective_map", 8)
	}
	return nil // what does nothing
}
