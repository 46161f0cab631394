package native

/*
#include "native.h"
*/
import "C"

import "unsafe"

// The ops of this file do one fixed thing to each pixel; pixels/pixels.h documents their arguments.
// Random ops become these ops when they are drawn, so each can also be read back (Plan.Replay).

// Adjust changes colours or sharpness as its Kind says, by a Factor if the kind takes one.
type Adjust struct {
	Kind   int32
	Factor float64
}

// Posterize keeps Bits bits of each value.
type Posterize struct{ Bits int32 }

// Solarize inverts values from a threshold on.
type Solarize struct{ Threshold float64 }

// SolarizeAdd adds to values below a threshold.
type SolarizeAdd struct{ Add, Threshold int32 }

// Gamma raises values to a power.
type Gamma struct{ Gamma, Gain float64 }

// PermuteChannels says which channel becomes the first, second and third.
type PermuteChannels struct{ Order [3]int32 }

// FixedBlur is torchvision's Gaussian blur.
type FixedBlur struct {
	Kernel [2]int32
	Sigma  [2]float64
}

// FixedPillowBlur is Pillow's Gaussian blur.
type FixedPillowBlur struct{ Radius [2]float64 }

// FixedJPEG encodes and decodes.
type FixedJPEG struct{ Quality int32 }

// FixedNoise adds the noise of a key.
type FixedNoise struct {
	Key             [2]uint64
	Mean, Deviation float64
	Clip            bool
}

// FixedElastic moves each pixel by the blurred noise of a key.
type FixedElastic struct {
	Key             [2]uint64
	Alpha, Sigma    [2]float64
	Filled          bool
	Version, Filter int32
	Fill            [3]float64
}

// Displaced moves each pixel by displacements of the caller's, for an image of that size. Field is
// their address.
type Displaced struct {
	Field                          uint64
	Width, Height, Version, Filter int32
	Filled                         bool
	Fill                           [3]float64
}

// AffineMap is a warp by its coefficients, from output to input. Width and Height are the output's,
// 0 for those of the input.
type AffineMap struct {
	Coefficients          [6]float64
	Width, Height, Filter int32
	Fill                  [3]float64
}

// PerspectiveMap is a warp by its coefficients, from output to input.
type PerspectiveMap struct {
	Coefficients [8]float64
	Filter       int32
	Fill         [3]float64
}

// TensorAffineMap is a warp as torchvision does it to tensors.
type TensorAffineMap struct {
	Coefficients [6]float64
	Filled       bool
	Filter       int32
	Fill         [3]float64
}

// FixedAffine is torchvision's affine, whose map depends on the size of the image. Without Centre,
// the centre is the image's.
type FixedAffine struct {
	Angle, Scale     float64
	Translate, Shear [2]float64
	Centre           *[2]float64
	Version, Filter  int32
	Fill             [3]float64
}

// FixedRotation is Pillow's rotate. Without Centre, the centre is the image's.
type FixedRotation struct {
	Angle  float64
	Expand bool
	Centre *[2]float64
	Filter int32
	Fill   [3]float64
}

// User calls a function of the program's own. Function is its address, Context that of its first
// argument.
type User struct{ Function, Context uint64 }

// MixBegin comes before chains of ops that are blended, with the weight of the image itself. Only a
// replay has it, and MixChain and MixEnd.
type MixBegin struct{ Weight float64 }

// MixChain ends a chain of that weight.
type MixChain struct{ Weight float64 }

// MixEnd ends the last chain. Blend is the share of the result in a blend with the image; below 0
// there is no blend.
type MixEnd struct{ Blend float64 }

// The values of Adjust.Kind.
const (
	PixelInvert       int32 = C.HRN_PIXEL_INVERT
	PixelBrightness   int32 = C.HRN_PIXEL_BRIGHTNESS
	PixelContrast     int32 = C.HRN_PIXEL_CONTRAST
	PixelSaturation   int32 = C.HRN_PIXEL_SATURATION
	PixelSharpness    int32 = C.HRN_PIXEL_SHARPNESS
	PixelHue          int32 = C.HRN_PIXEL_HUE
	PixelAutocontrast int32 = C.HRN_PIXEL_AUTOCONTRAST
	PixelEqualize     int32 = C.HRN_PIXEL_EQUALIZE
	PixelGrey         int32 = C.HRN_PIXEL_GREY

	PixelTensorBrightness   int32 = C.HRN_PIXEL_TENSOR_BRIGHTNESS
	PixelTensorContrast     int32 = C.HRN_PIXEL_TENSOR_CONTRAST
	PixelTensorSaturation   int32 = C.HRN_PIXEL_TENSOR_SATURATION
	PixelTensorSharpness    int32 = C.HRN_PIXEL_TENSOR_SHARPNESS
	PixelTensorAutocontrast int32 = C.HRN_PIXEL_TENSOR_AUTOCONTRAST
)

// pixelArguments returns the member of a pixel op's arguments that belongs to its kind.
func pixelArguments[T any](op *C.hrn_op, kind C.int32_t) *T {
	to := arguments[C.hrn_op_pixel](op, C.HRN_OP_PIXEL)
	to.kind = kind
	return (*T)(unsafe.Pointer(&to.args))
}

func (o Adjust) fill(op *C.hrn_op) {
	*pixelArguments[C.double](op, C.int32_t(o.Kind)) = C.double(o.Factor)
}

func (o Posterize) fill(op *C.hrn_op) {
	*pixelArguments[C.int32_t](op, C.HRN_PIXEL_POSTERIZE) = C.int32_t(o.Bits)
}

func (o Solarize) fill(op *C.hrn_op) {
	*pixelArguments[C.double](op, C.HRN_PIXEL_SOLARIZE) = C.double(o.Threshold)
}

func (o SolarizeAdd) fill(op *C.hrn_op) {
	*pixelArguments[C.hrn_pixel_solarize_add](op, C.HRN_PIXEL_SOLARIZE_ADD) = C.hrn_pixel_solarize_add{
		add: C.int32_t(o.Add), threshold: C.int32_t(o.Threshold)}
}

func (o Gamma) fill(op *C.hrn_op) {
	*pixelArguments[C.hrn_pixel_gamma](op, C.HRN_PIXEL_GAMMA) = C.hrn_pixel_gamma{
		gamma: C.double(o.Gamma), gain: C.double(o.Gain)}
}

func (o PermuteChannels) fill(op *C.hrn_op) {
	*pixelArguments[[3]C.int32_t](op, C.HRN_PIXEL_CHANNELS) = [3]C.int32_t{
		C.int32_t(o.Order[0]), C.int32_t(o.Order[1]), C.int32_t(o.Order[2])}
}

func (o FixedBlur) fill(op *C.hrn_op) {
	*pixelArguments[C.hrn_pixel_blur](op, C.HRN_PIXEL_BLUR) = C.hrn_pixel_blur{
		kernel: [2]C.int32_t{C.int32_t(o.Kernel[0]), C.int32_t(o.Kernel[1])}, sigma: pair(o.Sigma)}
}

func (o FixedPillowBlur) fill(op *C.hrn_op) {
	*pixelArguments[[2]C.double](op, C.HRN_PIXEL_PILLOW_BLUR) = pair(o.Radius)
}

func (o FixedJPEG) fill(op *C.hrn_op) {
	*pixelArguments[C.int32_t](op, C.HRN_PIXEL_JPEG) = C.int32_t(o.Quality)
}

func (o FixedNoise) fill(op *C.hrn_op) {
	*pixelArguments[C.hrn_pixel_noise](op, C.HRN_PIXEL_NOISE) = C.hrn_pixel_noise{key: words(o.Key),
		mean: C.double(o.Mean), deviation: C.double(o.Deviation), clip: number(o.Clip)}
}

func (o FixedElastic) c() C.hrn_pixel_elastic {
	return C.hrn_pixel_elastic{key: words(o.Key), alpha: pair(o.Alpha), sigma: pair(o.Sigma),
		outside: outside(o.Filled, o.Version)}
}

func (o FixedElastic) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*pixelArguments[C.hrn_pixel_elastic](op, C.HRN_PIXEL_ELASTIC) = o.c()
}

func (o Displaced) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*pixelArguments[C.hrn_pixel_displaced](op, C.HRN_PIXEL_DISPLACED) = C.hrn_pixel_displaced{field: C.uint64_t(o.Field),
		width: C.int32_t(o.Width), height: C.int32_t(o.Height), outside: outside(o.Filled, o.Version)}
}

func (o AffineMap) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := pixelArguments[C.hrn_pixel_affine](op, C.HRN_PIXEL_AFFINE)
	to.size = [2]C.int32_t{C.int32_t(o.Width), C.int32_t(o.Height)}
	for k, value := range o.Coefficients {
		to.coefficients[k] = C.double(value)
	}
}

func (o PerspectiveMap) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := pixelArguments[[8]C.double](op, C.HRN_PIXEL_PERSPECTIVE)
	for k, value := range o.Coefficients {
		to[k] = C.double(value)
	}
}

func (o TensorAffineMap) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := pixelArguments[C.hrn_pixel_tensor_affine](op, C.HRN_PIXEL_TENSOR_AFFINE)
	to.filled = number(o.Filled)
	for k, value := range o.Coefficients {
		to.coefficients[k] = C.double(value)
	}
}

func (o FixedAffine) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := arguments[C.hrn_op_fixed_affine](op, C.HRN_OP_FIXED_AFFINE)
	to.version, to.angle, to.scale = C.int32_t(o.Version), C.double(o.Angle), C.double(o.Scale)
	to.translate, to.shear = pair(o.Translate), pair(o.Shear)
	if o.Centre != nil {
		to.has_centre, to.centre = 1, pair(*o.Centre)
	}
}

func (o FixedRotation) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := arguments[C.hrn_op_fixed_rotation](op, C.HRN_OP_FIXED_ROTATION)
	to.expand, to.angle = number(o.Expand), C.double(o.Angle)
	if o.Centre != nil {
		to.has_centre, to.centre = 1, pair(*o.Centre)
	}
}

func (o User) fill(op *C.hrn_op) {
	to := pixelArguments[C.hrn_pixel_user](op, C.HRN_PIXEL_USER)
	to.function, to.context = C.uint64_t(o.Function), C.uint64_t(o.Context)
}

func (o MixBegin) fill(op *C.hrn_op) {
	*pixelArguments[C.double](op, C.HRN_PIXEL_MIX_BEGIN) = C.double(o.Weight)
}

func (o MixChain) fill(op *C.hrn_op) {
	*pixelArguments[C.double](op, C.HRN_PIXEL_MIX_CHAIN) = C.double(o.Weight)
}

func (o MixEnd) fill(op *C.hrn_op) {
	*pixelArguments[C.double](op, C.HRN_PIXEL_MIX_END) = C.double(o.Blend)
}

func argumentsOf[T any](pixel *C.hrn_op_pixel) T { return *(*T)(unsafe.Pointer(&pixel.args)) }

// pixelOf returns the fixed op on pixels that has these arguments.
func pixelOf(pixel *C.hrn_op_pixel, filter int32, fill [3]float64) Op {
	switch pixel.kind {
	case C.HRN_PIXEL_POSTERIZE:
		return Posterize{int32(argumentsOf[C.int32_t](pixel))}
	case C.HRN_PIXEL_SOLARIZE:
		return Solarize{float64(argumentsOf[C.double](pixel))}
	case C.HRN_PIXEL_SOLARIZE_ADD:
		from := argumentsOf[C.hrn_pixel_solarize_add](pixel)
		return SolarizeAdd{int32(from.add), int32(from.threshold)}
	case C.HRN_PIXEL_GAMMA:
		from := argumentsOf[C.hrn_pixel_gamma](pixel)
		return Gamma{float64(from.gamma), float64(from.gain)}
	case C.HRN_PIXEL_CHANNELS:
		return PermuteChannels{argumentsOf[[3]int32](pixel)}
	case C.HRN_PIXEL_BLUR:
		from := argumentsOf[C.hrn_pixel_blur](pixel)
		return FixedBlur{[2]int32{int32(from.kernel[0]), int32(from.kernel[1])}, two(from.sigma)}
	case C.HRN_PIXEL_PILLOW_BLUR:
		return FixedPillowBlur{argumentsOf[[2]float64](pixel)}
	case C.HRN_PIXEL_JPEG:
		return FixedJPEG{int32(argumentsOf[C.int32_t](pixel))}
	case C.HRN_PIXEL_NOISE:
		from := argumentsOf[C.hrn_pixel_noise](pixel)
		return FixedNoise{wordsOf(from.key), float64(from.mean), float64(from.deviation), from.clip != 0}
	case C.HRN_PIXEL_ELASTIC:
		from := argumentsOf[C.hrn_pixel_elastic](pixel)
		return FixedElastic{wordsOf(from.key), two(from.alpha), two(from.sigma),
			from.outside.filled != 0, int32(from.outside.version), filter, fill}
	case C.HRN_PIXEL_DISPLACED:
		from := argumentsOf[C.hrn_pixel_displaced](pixel)
		return Displaced{uint64(from.field), int32(from.width), int32(from.height), int32(from.outside.version), filter,
			from.outside.filled != 0, fill}
	case C.HRN_PIXEL_AFFINE:
		from := argumentsOf[C.hrn_pixel_affine](pixel)
		return AffineMap{argumentsOf[[6]float64](pixel), int32(from.size[0]), int32(from.size[1]), filter, fill}
	case C.HRN_PIXEL_PERSPECTIVE:
		return PerspectiveMap{argumentsOf[[8]float64](pixel), filter, fill}
	case C.HRN_PIXEL_TENSOR_AFFINE:
		from := argumentsOf[C.hrn_pixel_tensor_affine](pixel)
		return TensorAffineMap{argumentsOf[[6]float64](pixel), from.filled != 0, filter, fill}
	case C.HRN_PIXEL_USER:
		from := argumentsOf[C.hrn_pixel_user](pixel)
		return User{uint64(from.function), uint64(from.context)}
	case C.HRN_PIXEL_MIX_BEGIN:
		return MixBegin{float64(argumentsOf[C.double](pixel))}
	case C.HRN_PIXEL_MIX_CHAIN:
		return MixChain{float64(argumentsOf[C.double](pixel))}
	case C.HRN_PIXEL_MIX_END:
		return MixEnd{float64(argumentsOf[C.double](pixel))}
	}
	return Adjust{int32(pixel.kind), float64(argumentsOf[C.double](pixel))}
}

func wordsOf(key [2]C.uint64_t) [2]uint64 { return [2]uint64{uint64(key[0]), uint64(key[1])} }
