package transform

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/native"
)

func parse(t *testing.T, list string, options Options) (*native.Plan, error) {
	t.Helper()
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(list), &raw))
	plan, err := Parse(raw, options)
	if plan != nil {
		t.Cleanup(plan.Close)
	}
	return plan, err
}

func TestEveryTransformOfTheTableParsesWithOnlyItsRequiredArguments(t *testing.T) {
	required := map[string]string{
		"RandomResizedCrop": `"size": 224`, "Resize": `"size": [256]`, "CenterCrop": `"size": [224, 200]`, "FiveCrop": `"size": 64`, "TenCrop": `"size": [64, 32]`,
		"RandomCrop": `"size": 32`, "RandomHorizontalFlip": `"p": 0.5`, "RandomVerticalFlip": `"p": 1`,
		"Normalize": `"mean": [0.5, 0.4, 0.3], "std": 0.2`, "Crop": `"top": -1, "left": 2, "height": 3, "width": 4`,
		"Pad": `"padding": [1, 2]`, "Grayscale": `"num_output_channels": 1`, "RandomPosterize": `"bits": 4`,
		"RandomSolarize": `"threshold": 128`, "RandomAdjustSharpness": `"sharpness_factor": 2`,
		"GaussianBlur": `"kernel_size": [3, 5]`, "RandomRotation": `"degrees": 30`, "RandomAffine": `"degrees": [-3, 4]`,
		"RandomApply":  `"transforms": [{"name": "RandomInvert"}, {"name": "RandomApply", "transforms": [{"name": "Invert"}]}]`,
		"RandomChoice": `"transforms": [{"name": "RandomInvert"}, {"name": "Invert"}], "p": [0, 2.5]`,
		"RandomOrder":  `"transforms": [{"name": "CenterCrop", "size": 7}, {"name": "Equalize"}]`,
		"Posterize":    `"bits": 8`, "Solarize": `"threshold": 0.5`, "AdjustBrightness": `"factor": 0`,
		"AdjustContrast": `"factor": 1.5`, "AdjustSaturation": `"factor": 2`, "AdjustSharpness": `"factor": 3`,
		"AdjustHue": `"factor": -0.5`, "AdjustGamma": `"gamma": 2.2`, "Blur": `"kernel_size": 3, "sigma": 1`,
		"Affine": `"angle": 10, "translate": [1, 2], "scale": 1.1, "shear": [0, 5]`, "Rotate": `"angle": 90`,
		"AffineMap": `"coefficients": [1, 0, 0, 0, 1, 0]`, "ResizeBox": `"size": 5, "box": [0, 1.5, 7, 9]`, "Reduce": `"factor": [3, 2]`, "Draft": `"factor": 4`, "PermuteChannels": `"permutation": [2, 1, 0]`, "Native": `"function": 4096`,
		"Perspective":        `"coefficients": [1, 0, 0, 0, 1, 0, 0, 0]`,
		"RandomShortestSize": `"min_size": [7, 8]`, "RandomResize": `"min_size": 7, "max_size": 9`,
		"TimmAugment": `"config": "rand-m9-mstd0.5-inc1"`, "SolarizeAdd": `"add": 11`, "PillowBlur": `"radius": 1.5`,
		"TensorAffine": `"coefficients": [1, 0, 3, 0, 1, 4], "fill": 5`,
		"ScaleJitter":  `"target_size": [7, 9]`, "Cutout": `"length": 5`, "JPEG": `"quality": [5, 95]`, "Noise": `"key": [1, 2, 3, 4294967295]`, "Elastic": `"alpha": 1, "sigma": [2, 3], "key": [1, 2, 3, 4]`, "Displace": `"displacement": 4096, "size": [3, 4]`, "Erase": `"i": 0, "j": 2, "h": 3, "w": 4, "v": 9`,
	}
	required["MixUp"], required["CutMix"], required["Mixup"] = `"num_classes": 9`, `"labels": "pair"`, `"mode": "elem"`
	alone := []string{"RandomGrayscale", "ColorJitter", "RandomChannelPermutation", "RandomInvert", "GaussianNoise", "ElasticTransform", "RandomAutocontrast",
		"RandomEqualize", "RandomPerspective", "AutoAugment", "RandAugment", "TrivialAugmentWide", "Invert",
		"Autocontrast", "Equalize", "RandomErasing", "TimmErasing", "RandomZoomOut", "RandomIoUCrop", "AugMix", "RandomPillowBlur", "RandomPhotometricDistort"}
	for _, e := range theTable().Transforms {
		arguments, ok := required[e.Name]
		require.True(t, ok || slices.Contains(alone, e.Name), "the test knows %s", e.Name)
		if ok {
			arguments = ", " + arguments
		}
		sized := ""
		if e.Batch {
			sized = `{"name": "CenterCrop", "size": 8}, `
		}
		_, err := parse(t, `[`+sized+`{"name": "`+e.Name+`"`+arguments+`}]`, Options{})
		assert.NoError(t, err, e.Name)
	}
}

// refusals are impossible lists of transforms, each with the error that it is refused with.
var refusals = map[string]string{
	`[{"size": 3}]`:                   `transform 0: it has no name`,
	`[7]`:                             `transform 0: it is 7 (expected an object with a name)`,
	`[null]`:                          `transform 0: it is null (expected an object with a name)`,
	`[{"name": "RandomResizedCrop"}]`: `transform 0 (RandomResizedCrop): size is missing`,
	`[{"name": "RandomResizedCrop", "sizes": 3, "size": 3, "zoom": 1}]`:                                      `transform 0 (RandomResizedCrop): sizes is no argument of it (expected one of size, scale, ratio, interpolation, antialias)`,
	`[{"name": "CenterCrop", "size": 0}]`:                                                                    `transform 0 (CenterCrop): size is 0 (expected a whole number from 1 to 65535, or a list of 1 or 2 such)`,
	`[{"name": "CenterCrop", "size": [1, 2, 3]}]`:                                                            `transform 0 (CenterCrop): size is [1, 2, 3] (expected a whole number from 1 to 65535, or a list of 1 or 2 such)`,
	`[{"name": "CenterCrop", "size": [null, 2]}]`:                                                            `transform 0 (CenterCrop): size is [null, 2] (expected a whole number from 1 to 65535, or a list of 1 or 2 such)`,
	`[{"name": "CenterCrop", "size": 2.5}]`:                                                                  `transform 0 (CenterCrop): size is 2.5 (expected a whole number from 1 to 65535, or a list of 1 or 2 such)`,
	`[{"name": "CenterCrop", "size": null}]`:                                                                 `transform 0 (CenterCrop): size is null (expected a value)`,
	`[{"name": "Resize", "size": 4, "interpolation": "cubic"}]`:                                              `transform 0 (Resize): interpolation is "cubic" (expected one of "nearest", "nearest-exact", "box", "bilinear", "hamming", "bicubic", "lanczos", "tensor-bilinear", "tensor-bicubic")`,
	`[{"name": "Resize", "size": [4, 5], "max_size": 9}]`:                                                    `transform 0 (Resize): max_size is 9, and size is height and width (expected null, or one number as size)`,
	`[{"name": "Resize", "size": 9, "max_size": 9}]`:                                                         `transform 0 (Resize): max_size is 9 (expected more than size, which is 9)`,
	`[{"name": "RandomResizedCrop", "size": 4, "scale": [0.5, 0.1]}]`:                                        `transform 0 (RandomResizedCrop): scale is [0.5, 0.1] (expected the lower bound first)`,
	`[{"name": "RandomResizedCrop", "size": 4, "ratio": [0, 0.1]}]`:                                          `transform 0 (RandomResizedCrop): ratio is [0, 0.1] (expected a list of 2, each a number above 0)`,
	`[{"name": "RandomResizedCrop", "size": 4, "ratio": 1}]`:                                                 `transform 0 (RandomResizedCrop): ratio is 1 (expected a list of 2, each a number above 0)`,
	`[{"name": "RandomHorizontalFlip", "p": 1.5}]`:                                                           `transform 0 (RandomHorizontalFlip): p is 1.5 (expected a number from 0 to 1)`,
	`[{"name": "ColorJitter", "brightness": 1e10}]`:                                                          `transform 0 (ColorJitter): brightness is 1e10 (expected a number from 0 to 1e+09, or a list of 2 such)`,
	`[{"name": "Grayscale", "num_output_channels": 2}]`:                                                      `transform 0 (Grayscale): num_output_channels is 2 (expected 1 or 3)`,
	`[{"name": "RandomApply", "transforms": [{"name": "Grayscale", "num_output_channels": 1}]}]`:             `transform 0 (RandomApply, Grayscale): num_output_channels is 1 in a group (expected 3: all images of a batch have as many channels)`,
	`[{"name": "Grayscale", "num_output_channels": 1}, {"name": "Normalize", "mean": [1, 2, 3], "std": 1}]`:  `transform 1 (Normalize): mean has 3 numbers, and Grayscale(1) leaves one channel (expected one number)`,
	`[{"name": "Grayscale", "num_output_channels": 1}, {"name": "Pad", "padding": 1, "fill": [1, 2, 3]}]`:    `transform 1 (Pad): fill has 3 numbers, and Grayscale(1) leaves one channel (expected one number)`,
	`[{"name": "Grayscale", "num_output_channels": 1}, {"name": "RandomErasing", "value": [0.1, 0.2, 0.3]}]`: `transform 1 (RandomErasing): value has 3 numbers, and Grayscale(1) leaves one channel (expected one number)`,
	`[{"name": "RandomHorizontalFlip", "p": [0.5]}]`:                                                         `transform 0 (RandomHorizontalFlip): p is [0.5] (expected a number from 0 to 1)`,
	`[{"name": "RandomCrop", "size": 4, "padding": [1, 2, 3]}]`:                                              `transform 0 (RandomCrop): padding is [1, 2, 3] (expected a whole number from 0 to 65535, or a list of 1 or 2 or 4 such)`,
	`[{"name": "RandomCrop", "size": 4, "padding": -1}]`:                                                     `transform 0 (RandomCrop): padding is -1 (expected a whole number from 0 to 65535, or a list of 1 or 2 or 4 such)`,
	`[{"name": "RandomCrop", "size": 4, "pad_if_needed": 1}]`:                                                `transform 0 (RandomCrop): pad_if_needed is 1 (expected true or false)`,
	`[{"name": "RandomCrop", "size": 4, "fill": 256}]`:                                                       `transform 0 (RandomCrop): fill is 256 (expected a whole number from 0 to 255, or a list of 1 or 3 such)`,
	`[{"name": "RandomCrop", "size": 4, "padding_mode": "wrap"}]`:                                            `transform 0 (RandomCrop): padding_mode is "wrap" (expected one of "constant", "edge", "reflect", "symmetric")`,
	`[{"name": "Normalize", "mean": 0.5, "std": [1, 0, 1]}]`:                                                 `transform 0 (Normalize): std is [1, 0, 1] (expected numbers that are not 0 in float32, for they divide)`,
	`[{"name": "Normalize", "mean": 0.5, "std": 1e-60}]`:                                                     `transform 0 (Normalize): std is 1e-60 (expected numbers that are not 0 in float32, for they divide)`,
	`[{"name": "Normalize", "mean": 0.5, "std": 1}, {"name": "RandomVerticalFlip"}]`:                         `transform 0 (Normalize): it is not the last transform (expected at the end, with erasings alone behind it)`,
	`[{"name": "Swirl"}]`:                                                                        `transform 0 (Swirl): there is no such transform (expected one of ` + strings.Join(theTable().names(), ", ") + `)`,
	`[{"name": "ColorJitter", "brightness": -1}]`:                                                `transform 0 (ColorJitter): brightness is -1 (expected a number from 0 to 1e+09, or a list of 2 such)`,
	`[{"name": "ColorJitter", "hue": -0.1}]`:                                                     `transform 0 (ColorJitter): hue is -0.1 (expected at least 0 as one number)`,
	`[{"name": "GaussianBlur", "kernel_size": 4}]`:                                               `transform 0 (GaussianBlur): kernel_size is 4 (expected odd numbers)`,
	`[{"name": "Resize", "size": null}]`:                                                         `transform 0 (Resize): max_size is null, and so is size (expected the length of the longer side)`,
	`[{"name": "RandomShortestSize", "min_size": []}]`:                                           `transform 0 (RandomShortestSize): min_size has 0 sizes (expected 1 to 12)`,
	`[{"name": "RandomResize", "min_size": 9, "max_size": 9}]`:                                   `transform 0 (RandomResize): max_size is 9 (expected more than min_size, which is 9)`,
	`[{"name": "RandomZoomOut", "side_range": [0.5, 2]}]`:                                        `transform 0 (RandomZoomOut): side_range is [0.5, 2] (expected a list of 2, each a number from 1 to 65535)`,
	`[{"name": "RandomRotation", "degrees": -3}]`:                                                `transform 0 (RandomRotation): degrees is -3 (expected at least 0 as one number)`,
	`[{"name": "RandAugment", "magnitude": 31}]`:                                                 `transform 0 (RandAugment): magnitude is 31 (expected less than num_magnitude_bins, which is 31)`,
	`[{"name": "TimmAugment", "config": "randaugment-m9"}]`:                                      `transform 0 (TimmAugment): config is "randaugment-m9", with "randaugment" in it (expected "rand", "augmix", "v0", "v0r", "original", "originalr" or "3a" first)`,
	`[{"name": "TimmAugment", "config": "auto-mstd0.5"}]`:                                        `transform 0 (TimmAugment): config is "auto-mstd0.5", with "auto" in it (expected "rand", "augmix", "v0", "v0r", "original", "originalr" or "3a" first)`,
	`[{"name": "TimmAugment", "config": "rand-inc"}]`:                                            `transform 0 (TimmAugment): config is "rand-inc", with "inc" in it (expected a key with a number)`,
	`[{"name": "TimmAugment", "config": "rand-m9.5"}]`:                                           `transform 0 (TimmAugment): config is "rand-m9.5", with "m9.5" in it (expected a number that is not too large, a whole one but for p, a and mstd)`,
	`[{"name": "TimmAugment", "config": "augmix-b1"}]`:                                           `transform 0 (TimmAugment): config is "augmix-b1", with "b1" in it (expected a number behind one of a, d, m, mstd, w)`,
	`[{"name": "TimmAugment", "config": "rand-tall"}]`:                                           `transform 0 (TimmAugment): config is "rand-tall", with "tall" in it (expected "t3a", "t3aw" or "tweights")`,
	`[{"name": "AugMix", "chain_depth": 20}]`:                                                    `transform 0 (AugMix): chain_depth is 20 with a mixture_width of 3 (expected at most 62 ops in all chains, with one more for each)`,
	`[{"name": "AugMix", "interpolation": "bicubic"}]`:                                           `transform 0 (AugMix): interpolation is "bicubic" (expected one of "nearest", "bilinear")`,
	`[{"name": "RandomPhotometricDistort", "contrast": 0.5}]`:                                    `transform 0 (RandomPhotometricDistort): contrast is 0.5 (expected a list of 2, each a number from 0 to 1e+09)`,
	`[{"name": "RandomPhotometricDistort", "hue": [0, 0.6]}]`:                                    `transform 0 (RandomPhotometricDistort): hue is [0, 0.6] (expected a list of 2, each a number from -0.5 to 0.5)`,
	`[{"name": "AugMix", "severity": 11}]`:                                                       `transform 0 (AugMix): severity is 11 (expected a whole number from 1 to 10)`,
	`[{"name": "RandomApply", "transforms": []}]`:                                                `transform 0 (RandomApply): transforms is [] (expected a list of transforms)`,
	`[{"name": "RandomApply", "transforms": [{"name": "Normalize", "mean": 0, "std": 1}]}]`:      `transform 0 (RandomApply, Normalize): it stands inside of another (expected at the end of the list)`,
	`[{"name": "RandomChoice", "transforms": [{"name": "Equalize"}], "p": [1, 2]}]`:              `transform 0 (RandomChoice): p has 2 weights (expected 1, one a transform)`,
	`[{"name": "RandomChoice", "transforms": [{"name": "Equalize"}], "p": [0]}]`:                 `transform 0 (RandomChoice): p has no weight above 0 (expected one or more)`,
	`[{"name": "RandomErasing", "p": 1}, {"name": "RandomInvert"}]`:                              `transform 0 (RandomErasing): it is not the last transform (expected at the end, with Normalize alone behind it)`,
	`[{"name": "RandomErasing", "value": "random"}, {"name": "Normalize", "mean": 0, "std": 1}]`: `transform 0 (RandomErasing): value is "random" (expected numbers, or Normalize before it)`,
	`[{"name": "TimmErasing", "mode": "rand"}, {"name": "Normalize", "mean": 0, "std": 1}]`:      `transform 0 (TimmErasing): mode is noise (expected "const", or Normalize before it)`,
	`[{"name": "TimmErasing", "mode": "random"}]`:                                                `transform 0 (TimmErasing): mode is "random" (expected one of "const", "rand", "pixel")`,
	`[{"name": "TimmErasing", "min_aspect": 2}]`:                                                 `transform 0 (TimmErasing): min_aspect is 2 (expected at most max_aspect, which is 0.5)`,
	`[{"name": "TimmErasing", "min_area": 0.5}]`:                                                 `transform 0 (TimmErasing): min_area is 0.5 (expected at most max_area, which is 0.3333333333333333)`,
	`[{"name": "TimmErasing", "min_count": 3, "max_count": 2}]`:                                  `transform 0 (TimmErasing): min_count is 3 (expected at most max_count, which is 2)`,
	`[{"name": "Cutout", "length": 5, "count": 33}]`:                                             `transform 0 (Cutout): count is 33 (expected a whole number from 1 to 32)`,
	`[{"name": "Cutout", "length": 5, "count": 30}, {"name": "TimmErasing", "max_count": 3}]`:    `transform 1 (TimmErasing): 33 boxes are erased with those before it (expected at most 32 of an image)`,
	`[{"name": "Cutout", "length": 5}, {"name": "RandomInvert"}]`:                                `transform 0 (Cutout): it is not the last transform (expected at the end, with Normalize alone behind it)`,
	`[{"name": "GaussianNoise", "sigma": -1}]`:                                                   `transform 0 (GaussianNoise): sigma is -1 (expected a number from 0 to 10)`,
	`[{"name": "ElasticTransform", "sigma": [0, 2]}]`:                                            `transform 0 (ElasticTransform): sigma is [0 2] (expected no 0, or 0 for both)`,
	`[{"name": "ElasticTransform", "alpha": [1, 2, 3]}]`:                                         `transform 0 (ElasticTransform): alpha is [1, 2, 3] (expected a number from -1e+06 to 1e+06, or a list of 1 or 2 such)`,
	`[{"name": "Displace", "displacement": 0, "size": [1, 1]}]`:                                  `transform 0 (Displace): displacement is 0 (expected the address of float32 numbers)`,
	`[{"name": "GaussianNoise", "mean": 11}]`:                                                    `transform 0 (GaussianNoise): mean is 11 (expected a number from -10 to 10)`,
	`[{"name": "Noise", "key": [1, 2, 3]}]`:                                                      `transform 0 (Noise): key is [1, 2, 3] (expected a list of 4, each a whole number from 0 to 4.294967295e+09)`,
	`[{"name": "JPEG", "quality": 0}]`:                                                           `transform 0 (JPEG): quality is 0 (expected a whole number from 1 to 100, or a list of 2 such)`,
	`[{"name": "JPEG", "quality": [90, 80]}]`:                                                    `transform 0 (JPEG): quality is [90, 80] (expected the lower bound first)`,
	`[{"name": "RandomErasing", "value": "noise"}]`:                                              `transform 0 (RandomErasing): value is "noise" (expected a number, or a list of 1 or 3 such)`,
	`[{"name": "RandomErasing", "scale": [0.3, 2]}]`:                                             `transform 0 (RandomErasing): scale is [0.3, 2] (expected a list of 2, each a number from 0 to 1)`,
	`[{"name": "RandomOrder", "transforms": [{"name": "Resize", "size": 0}]}]`:                   `transform 0 (RandomOrder, Resize): size is 0 (expected a whole number from 1 to 65535, or a list of 1 or 2 such)`,
}

func TestARefusalNamesTransformAndArgument(t *testing.T) {
	for list, want := range refusals {
		_, err := parse(t, list, Options{})
		assert.EqualError(t, err, want, list)
	}
}

func TestALongArgumentIsCutBetweenCharactersInItsError(t *testing.T) {
	list := []json.RawMessage{json.RawMessage(`{"name": "CenterCrop", "size": "` + strings.Repeat("é", 40) + `"}`)}
	_, err := Parse(list, Options{})
	require.ErrorContains(t, err, `size is "`+strings.Repeat("é", 29)+`... (expected`)
}

func TestTheErrorOfACropLargerThanItsImageNamesTheTransform(t *testing.T) {
	for list, want := range map[string]string{
		`[{"name": "RandomCrop", "size": 8}, {"name": "RandomVerticalFlip"}, {"name": "RandomCrop", "size": [90, 40]}]`: `transform 2 (RandomCrop): size is 90x40`,
		`[{"name": "RandomCrop", "size": 8}, {"name": "RandomCrop", "size": 90}]`:                                       `transform 1 (RandomCrop): size is 90x90`,
		`[{"name": "RandomCrop", "size": 90, "padding": 80}, {"name": "RandomCrop", "size": 90}]`:                       `transform 1 (RandomCrop): size is 90x90`,
		`[{"name": "RandomInvert"}, {"name": "RandomOrder", "transforms": [{"name": "RandomCrop", "size": 90}]}]`:       `transform 1 (RandomOrder, RandomCrop): size is 90x90`,
	} {
		var raw []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(list), &raw))
		plan, err := parse(t, list, Options{})
		require.NoError(t, err)
		for op := range native.MaxOps {
			if _, err = plan.Draw(op, native.Key{}, 20, 10); err != nil && op > 0 {
				break
			}
		}
		require.Error(t, err)
		assert.ErrorContains(t, Explain(raw, err), want+" (expected at most 10x20, height x width")
		assert.NotRegexp(t, `^op \d`, Explain(nil, err).Error())
	}
	other := &native.Error{Code: native.Bad, Text: "op 1: x"}
	assert.Equal(t, error(other), Explain(nil, other), "an error that no argument causes stays as it is")
}

func TestNormalizeNeedsAFloatDType(t *testing.T) {
	_, err := parse(t, `[{"name": "Normalize", "mean": 0.5, "std": 1}]`, Options{DType: "uint8"})
	assert.EqualError(t, err, "transform 0 (Normalize): dtype is \"uint8\" (expected a float: the result has fractions)")
}

func TestTheRefusalOfAnUnknownOutputOptionListsTheKnownValues(t *testing.T) {
	for _, options := range []Options{{DType: "int8"}, {Layout: "CHW"}, {Scale: "none"}, {Mode: "approximate"}} {
		_, err := parse(t, `[]`, options)
		assert.ErrorContains(t, err, "(expected one of ")
	}
}

func TestSizesFollowTorchvisionsRules(t *testing.T) {
	for list, want := range map[string]native.Size{
		`[]`:                                {Width: 500, Height: 333, Bytes: 3 * 500 * 333},
		`[{"name": "Resize", "size": 256}]`: {Width: 384, Height: 256, Bytes: 3 * 384 * 256},
		`[{"name": "Resize", "size": 256, "max_size": 300}]`:                             {Width: 300, Height: 200, Bytes: 3 * 300 * 200},
		`[{"name": "Resize", "size": 256}, {"name": "CenterCrop", "size": [224, 200]}]`:  {Fixed: true, Width: 200, Height: 224, Bytes: 3 * 200 * 224},
		`[{"name": "CenterCrop", "size": [100, 50]}, {"name": "Resize", "size": 100}]`:   {Fixed: true, Width: 100, Height: 200, Bytes: 3 * 100 * 200},
		`[{"name": "RandomResizedCrop", "size": 224}, {"name": "RandomHorizontalFlip"}]`: {Fixed: true, Width: 224, Height: 224, Bytes: 3 * 224 * 224},
	} {
		plan, err := parse(t, list, Options{DType: "uint8"})
		require.NoError(t, err, list)
		size, err := plan.Size(500, 333)
		require.NoError(t, err, list)
		assert.Equal(t, want, size, list)
	}
}

func TestMoreTransformsThanAPlanMayHaveAreRefused(t *testing.T) {
	list := `[{"name": "RandomVerticalFlip"}`
	for range native.MaxOps {
		list += `, {"name": "RandomVerticalFlip"}`
	}
	_, err := parse(t, list+`]`, Options{})
	assert.EqualError(t, err, "transform 64: one too many (expected at most 64 transforms, those in groups included)")
}

func TestTheGeneratedPythonIsUpToDate(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to run the generator with")
	}
	names, err := exec.Command(python, "generate.py", "--list").Output()
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range strings.Fields(string(names)) {
		want, err := exec.Command(python, "generate.py", "--print", name).Output()
		require.NoError(t, err)
		found, err := os.ReadFile("../../python/headrace/" + name)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(found), "run internal/transform/generate.py")
	}
}

func FuzzAnyJSONIsAPlanOrAnError(f *testing.F) {
	f.Add(`[{"name": "RandomCrop", "size": [3, 4], "padding": [1, 2], "fill": [1, 2, 3], "padding_mode": "edge"}]`)
	f.Add(`[{"name": "Normalize", "mean": [1e38], "std": [1e-38, 1, 2]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var raw []json.RawMessage
		if json.Unmarshal([]byte(text), &raw) != nil {
			return
		}
		plan, err := Parse(raw, Options{})
		if (plan == nil) == (err == nil) {
			t.Fatalf("plan %v, error %v", plan, err)
		}
		if plan != nil {
			plan.Close()
		}
	})
}

// refusedSample is the error of making a sample of an image of 20x10 pixels, of all views of a recipe.
func refusedSample(t *testing.T, views []View) error {
	t.Helper()
	recipe, err := ParseRecipe(views, nil, Options{})
	require.NoError(t, err)
	defer recipe.Close()
	context, err := native.NewContext(native.DefaultLimits())
	require.NoError(t, err)
	defer context.Close()
	image := append([]byte("P6 20 10 255\n"), make([]byte, 3*20*10)...)
	const most = 1 << 16
	space := make([]byte, most)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&image[0])
	pinner.Pin(&space[0])
	var made []native.View
	for _, plan := range recipe.Phases[0].Views {
		made = append(made, native.View{Plan: plan, To: unsafe.Pointer(&space[0]), Capacity: most})
	}
	_, err = context.Sample(unsafe.Pointer(&image[0]), int64(len(image)), native.Seek{}, native.Key{}, nil, made...)
	require.Error(t, err)
	return err
}

func TestTheErrorOfACropLargerThanItsImageNamesTheView(t *testing.T) {
	list := func(text string) (raw []json.RawMessage) {
		require.NoError(t, json.Unmarshal([]byte(text), &raw))
		return raw
	}
	twice := 2
	fits := View{Transform: list(`[{"name": "RandomInvert"}, {"name": "RandomSolarize", "threshold": 9}, {"name": "CenterCrop", "size": 8}]`), Repeat: &twice}
	wide := View{Transform: list(`[{"name": "RandomInvert"}, {"name": "RandomCrop", "size": 30}]`)}
	for number, views := range [][]View{{wide, fits}, {fits, wide}, {fits, fits, wide}} {
		err := ExplainViews(views, refusedSample(t, views))
		assert.ErrorContains(t, err, fmt.Sprintf("view %d, transform 1 (RandomCrop): size is 30x30", number))
	}
}

func TestTheErrorOfATooLargeCropNamesTheTransformInAListWithASchedule(t *testing.T) {
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(`[{"name": "CenterCrop", "size": {"by": "epoch", "at": [[0, 8], [5, 9]]}}, {"name": "RandomCrop", "size": 30}]`), &raw))
	views := []View{{Transform: raw}}
	assert.ErrorContains(t, ExplainViews(views, refusedSample(t, views)), "transform 1 (RandomCrop): size is 30x30")
}
