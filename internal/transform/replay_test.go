package transform

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/native"
)

var update = flag.Bool("update", false, "write testdata/recipes.json anew")

// goldenRecipes are recipes whose draws for a seed must not change. RandomErasing is last because it has to be.
const goldenRecipes = `[
  [{"name": "RandomResizedCrop", "size": 224}, {"name": "RandAugment", "num_ops": 3}, {"name": "RandomErasing", "p": 1}],
  [{"name": "ColorJitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}, {"name": "RandomGrayscale", "p": 0.5}],
  [{"name": "AutoAugment"}, {"name": "TrivialAugmentWide"}, {"name": "GaussianBlur", "kernel_size": 23}],
  [{"name": "RandomAffine", "degrees": 30, "translate": [0.1, 0.2], "scale": [0.5, 2], "shear": [-5, 5, -6, 6]}],
  [{"name": "RandomRotation", "degrees": [10, 90]}, {"name": "RandomPerspective", "p": 1}, {"name": "RandomChannelPermutation"}],
  [{"name": "RandomOrder", "transforms": [{"name": "RandomInvert"}, {"name": "RandomChoice", "p": [1, 2, 3], "transforms": [
    {"name": "RandomPosterize", "bits": 4}, {"name": "RandomSolarize", "threshold": 99}, {"name": "RandomEqualize"}]}]},
    {"name": "RandomApply", "transforms": [{"name": "RandomAdjustSharpness", "sharpness_factor": 2}, {"name": "RandomAutocontrast"}]}],
  [{"name": "RandomShortestSize", "min_size": [300, 400, 500], "max_size": 600}, {"name": "RandomZoomOut"},
    {"name": "RandomRotation", "degrees": 30, "expand": true}, {"name": "ScaleJitter", "target_size": [200, 300]},
    {"name": "RandomResize", "min_size": 100, "max_size": 200}, {"name": "CenterCrop", "size": 99}],
  [{"name": "TimmAugment", "config": "rand-m9-mstd0.5-inc1"}, {"name": "TimmAugment", "config": "original-mstd0.5"}],
  [{"name": "TimmAugment", "config": "rand-n3-p0.9-mstd101-tweights", "interpolation": "bilinear"}, {"name": "TimmAugment", "config": "3a"}],
  [{"name": "TimmAugment", "config": "augmix-m5-w4-d2"}, {"name": "AugMix", "alpha": 0.4}],
  [{"name": "Normalize", "mean": 0, "std": 1}, {"name": "TimmErasing", "probability": 0.8, "mode": "rand", "max_count": 3},
    {"name": "TimmErasing", "mode": "pixel"}, {"name": "Cutout", "length": 99, "count": 2, "fill": [1, 2, 3]}],
  [{"name": "JPEG", "quality": [5, 95]}, {"name": "JPEG", "quality": 7}],
  [{"name": "GaussianNoise"}, {"name": "GaussianNoise", "mean": -0.2, "sigma": 0.3, "clip": false}],
  [{"name": "RandomPhotometricDistort", "p": 0.8}, {"name": "RandomPhotometricDistort"}],
  [{"name": "RandomPillowBlur", "p": 0.8}, {"name": "RandomPillowBlur", "radius": 3}, {"name": "PillowBlur", "radius": [2, 1.5]}],
  [{"name": "ElasticTransform"}, {"name": "ElasticTransform", "alpha": [3, -4], "sigma": 0, "fill": null, "version": 1}]
]`

// rounded rounds floats, because the last bits of cos and exp differ between C libraries.
func rounded(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = rounded(v[key])
		}
	case []any:
		for i := range v {
			v[i] = rounded(v[i])
		}
	case float64:
		return math.Round(v*1e6) / 1e6
	}
	return value
}

func TestRecipesOfASeedDrawTheSameInEveryVersion(t *testing.T) {
	var recipes [][]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(goldenRecipes), &recipes))
	var found []any
	for _, recipe := range recipes {
		plan, err := Parse(recipe, Options{})
		require.NoError(t, err)
		defer plan.Close()
		for sample := range uint64(4) {
			calls, err := Replay(plan, native.Key{Seed: 1, Epoch: sample, Sample: 1000 * sample, Draw: sample / 2}, 500, 375)
			require.NoError(t, err)
			text, err := json.Marshal(calls)
			require.NoError(t, err)
			var plain any
			require.NoError(t, json.Unmarshal(text, &plain))
			found = append(found, rounded(plain))
		}
	}
	text, err := json.MarshalIndent(found, "", " ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("testdata/recipes.json", append(text, '\n'), 0o644))
	}
	golden, err := os.ReadFile("testdata/recipes.json")
	require.NoError(t, err)
	require.JSONEq(t, string(golden), string(text))
}
