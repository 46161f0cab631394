package native

/*
#include "native.h"
*/
import "C"

// ColorJitter draws factors of brightness, contrast, saturation and hue, and their order.
type ColorJitter struct {
	Drawn  [4]bool
	Factor [4][2]float64
}

// ChannelPermutation draws an order of the channels.
type ChannelPermutation struct{}

// GaussianBlur draws its standard deviation.
type GaussianBlur struct {
	Kernel [2]int32
	Sigma  [2]float64
}

// Rotation draws its angle. Without Centre, the centre is the image's.
type Rotation struct {
	Filter  int32
	Fill    [3]float64
	Expand  bool
	Degrees [2]float64
	Centre  *[2]float64
}

// Affine draws all numbers of an affine map. Without Centre, the centre is the image's.
type Affine struct {
	Filter                                    int32
	Fill                                      [3]float64
	Degrees, Translate, Scale, ShearX, ShearY [2]float64
	Centre                                    *[2]float64
	Version                                   int32
}

// Perspective moves the corners at random.
type Perspective struct {
	Filter     int32
	Fill       [3]float64
	Distortion float64
}

// RandAugment is torchvision's.
type RandAugment struct {
	Ops, Magnitude, Bins, Version, Filter int32
	Fill                                  [3]float64
}

// TrivialAugment is torchvision's TrivialAugmentWide.
type TrivialAugment struct {
	Bins, Version, Filter int32
	Fill                  [3]float64
}

// AutoAugment is torchvision's, by one of its policies.
type AutoAugment struct {
	Policy, Version, Filter int32
	Fill                    [3]float64
}

// Timm is one of timm's sets of ops and policies.
type Timm struct {
	Set, Layers, Magnitude, Depth, Filter            int32
	Probability, Deviation, Most, Translation, Alpha float64
	Fill                                             [3]float64
}

// AugMix is torchvision's.
type AugMix struct {
	Severity, Chains, Depth, Version, Filter int32
	AllOps, Fills                            bool
	Alpha                                    float64
	Fill                                     [3]float64
}

// JPEG encodes and decodes at a quality that it draws.
type JPEG struct{ Quality [2]int32 }

// PillowBlur draws its radius.
type PillowBlur struct{ Radius [2]float64 }

// GaussianNoise adds noise to each value.
type GaussianNoise struct {
	Mean, Deviation float64
	Clip            bool
}

// Elastic moves each pixel by blurred noise that it draws.
type Elastic struct {
	Alpha, Sigma    [2]float64
	Filled          bool
	Version, Filter int32
	Fill            [3]float64
}

// The values of Timm.Set: timm's sets of ops and policies.
const (
	TimmRand           int32 = C.HRN_TIMM_RAND
	TimmRandIncreasing int32 = C.HRN_TIMM_RAND_INCREASING
	TimmRand3A         int32 = C.HRN_TIMM_RAND_3A
	TimmRand3AWeighted int32 = C.HRN_TIMM_RAND_3A_WEIGHTED
	TimmRandWeighted   int32 = C.HRN_TIMM_RAND_WEIGHTED
	TimmAugmix         int32 = C.HRN_TIMM_AUGMIX
	TimmAutoV0         int32 = C.HRN_TIMM_AUTO_V0
	TimmAutoV0R        int32 = C.HRN_TIMM_AUTO_V0R
	TimmAutoOriginal   int32 = C.HRN_TIMM_AUTO_ORIGINAL
	TimmAutoOriginalR  int32 = C.HRN_TIMM_AUTO_ORIGINALR
	TimmAuto3A         int32 = C.HRN_TIMM_AUTO_3A
)

// FilterDrawn as Timm.Filter means bilinear or bicubic, drawn for each op.
const FilterDrawn int32 = C.HRN_FILTER_DRAWN

func (o ColorJitter) fill(op *C.hrn_op) {
	to := arguments[C.hrn_op_colour](op, C.HRN_OP_COLOR_JITTER)
	for k := range o.Factor {
		to.drawn[k], to.factor[k] = number(o.Drawn[k]), pair(o.Factor[k])
	}
}

func (o ChannelPermutation) fill(op *C.hrn_op) { op.kind = C.HRN_OP_CHANNEL_PERMUTATION }

func (o GaussianBlur) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_blur](op, C.HRN_OP_GAUSSIAN_BLUR) = C.hrn_op_blur{
		kernel: [2]C.int32_t{C.int32_t(o.Kernel[0]), C.int32_t(o.Kernel[1])}, sigma: pair(o.Sigma)}
}

func (o Rotation) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := arguments[C.hrn_op_rotation](op, C.HRN_OP_ROTATION)
	to.expand, to.degrees = number(o.Expand), pair(o.Degrees)
	if o.Centre != nil {
		to.has_centre, to.centre = 1, pair(*o.Centre)
	}
}

func (o Affine) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	to := arguments[C.hrn_op_affine](op, C.HRN_OP_AFFINE)
	to.version = C.int32_t(o.Version)
	to.degrees, to.translate, to.scale = pair(o.Degrees), pair(o.Translate), pair(o.Scale)
	to.shear_x, to.shear_y = pair(o.ShearX), pair(o.ShearY)
	if o.Centre != nil {
		to.has_centre, to.centre = 1, pair(*o.Centre)
	}
}

func (o Perspective) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.double](op, C.HRN_OP_PERSPECTIVE) = C.double(o.Distortion)
}

func (o RandAugment) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.hrn_op_augment](op, C.HRN_OP_RAND_AUGMENT) = C.hrn_op_augment{ops: C.int32_t(o.Ops),
		magnitude: C.int32_t(o.Magnitude), bins: C.int32_t(o.Bins), version: C.int32_t(o.Version)}
}

func (o TrivialAugment) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.hrn_op_augment](op, C.HRN_OP_TRIVIAL_AUGMENT) = C.hrn_op_augment{
		bins: C.int32_t(o.Bins), version: C.int32_t(o.Version)}
}

func (o AutoAugment) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.hrn_op_augment](op, C.HRN_OP_AUTO_AUGMENT) = C.hrn_op_augment{
		policy: C.int32_t(o.Policy), version: C.int32_t(o.Version)}
}

func (o Timm) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.hrn_op_timm](op, C.HRN_OP_TIMM) = C.hrn_op_timm{set: C.int32_t(o.Set),
		layers: C.int32_t(o.Layers), magnitude: C.int32_t(o.Magnitude), depth: C.int32_t(o.Depth),
		probability: C.double(o.Probability), deviation: C.double(o.Deviation), most: C.double(o.Most),
		translation: C.double(o.Translation), alpha: C.double(o.Alpha)}
}

func (o AugMix) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.hrn_op_aug_mix](op, C.HRN_OP_AUG_MIX) = C.hrn_op_aug_mix{severity: C.int32_t(o.Severity),
		chains: C.int32_t(o.Chains), depth: C.int32_t(o.Depth), all_ops: number(o.AllOps),
		fills: number(o.Fills), version: C.int32_t(o.Version), alpha: C.double(o.Alpha)}
}

func (o JPEG) fill(op *C.hrn_op) {
	*arguments[[2]C.int32_t](op, C.HRN_OP_JPEG) = [2]C.int32_t{C.int32_t(o.Quality[0]), C.int32_t(o.Quality[1])}
}

func (o PillowBlur) fill(op *C.hrn_op) {
	*arguments[[2]C.double](op, C.HRN_OP_PILLOW_BLUR) = pair(o.Radius)
}

func (o Elastic) fill(op *C.hrn_op) {
	op.filter, op.fill = C.int32_t(o.Filter), triple(o.Fill)
	*arguments[C.hrn_op_elastic](op, C.HRN_OP_ELASTIC) = C.hrn_op_elastic{alpha: pair(o.Alpha), sigma: pair(o.Sigma),
		outside: outside(o.Filled, o.Version)}
}

func (o GaussianNoise) fill(op *C.hrn_op) {
	*arguments[C.hrn_op_noise](op, C.HRN_OP_GAUSSIAN_NOISE) = C.hrn_op_noise{
		mean: C.double(o.Mean), deviation: C.double(o.Deviation), clip: number(o.Clip)}
}
