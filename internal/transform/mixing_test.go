package transform

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/native"
)

// goldenMixes are mixes whose draws for a seed must not change, like those of goldenRecipes.
const goldenMixes = `[
  [{"name": "CenterCrop", "size": [20, 30]}, {"name": "MixUp", "alpha": 0.2, "num_classes": 10}],
  [{"name": "CenterCrop", "size": [20, 30]}, {"name": "RandomErasing"}, {"name": "CutMix", "labels": "pair"}],
  [{"name": "CenterCrop", "size": [20, 30]}, {"name": "RandomChoice", "p": [1, 3], "transforms": [
    {"name": "MixUp", "labels": "pair"}, {"name": "CutMix", "alpha": 0.4, "labels": "pair"}]}],
  [{"name": "CenterCrop", "size": [20, 30]}, {"name": "Mixup", "mixup_alpha": 0.8, "cutmix_alpha": 1}],
  [{"name": "CenterCrop", "size": [20, 30]}, {"name": "Mixup", "cutmix_alpha": 1, "prob": 0.7, "mode": "elem", "correct_lam": false}],
  [{"name": "CenterCrop", "size": [20, 30]}, {"name": "Mixup", "cutmix_minmax": [0.1, 0.9], "switch_prob": 0.8, "mode": "pair"}]
]`

func TestMixesOfASeedDrawTheSameInEveryVersion(t *testing.T) {
	var lists [][]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(goldenMixes), &lists))
	var found []any
	for _, list := range lists {
		plan, err := Parse(list, Options{})
		require.NoError(t, err)
		defer plan.Close()
		for k := range uint64(6) {
			m := plan.Mix().DrawMixing(native.Key{Seed: 1, Epoch: k / 2, Draw: 64 * k, Sample: k}, 30, 20)
			found = append(found, rounded([]any{float64(m.Kind), float64(m.Top), float64(m.Left), float64(m.Height), float64(m.Width), m.Drawn, m.Lambda}))
		}
	}
	text, err := json.MarshalIndent(found, "", " ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("testdata/mixes.json", append(text, '\n'), 0o644))
	}
	golden, err := os.ReadFile("testdata/mixes.json")
	require.NoError(t, err)
	require.JSONEq(t, string(golden), string(text))
}

func TestAMixWithAValueOutsideItsRangeIsRefusedByNativeToo(t *testing.T) {
	good := native.MixOp{Form: native.MixTimm, Weight: 1, Alpha: [2]float64{1, 1}, Probability: 1}
	plan, err := native.NewPlan([]native.Op{native.CenterCrop{Height: 8, Width: 9}}, native.Output{DType: native.Float32, Unmixed: true})
	require.NoError(t, err)
	defer plan.Close()
	require.NoError(t, plan.SetMix(native.Mix{Ops: []native.MixOp{good}}))
	require.Error(t, plan.SetMix(native.Mix{}))
	require.Error(t, plan.SetMix(native.Mix{Ops: make([]native.MixOp, native.MaxMixOps+1)}))
	for _, spoil := range []func(*native.MixOp){
		func(o *native.MixOp) { o.Form = 7 }, func(o *native.MixOp) { o.Unit = -1 },
		func(o *native.MixOp) { o.Alpha[0] = -1 }, func(o *native.MixOp) { o.Alpha = [2]float64{} },
		func(o *native.MixOp) { o.Weight = 0 }, func(o *native.MixOp) { o.Probability = 1.5 },
		func(o *native.MixOp) { o.Switching = -0.5 }, func(o *native.MixOp) { o.Shares = [2]float64{0.5, 0.4} },
		func(o *native.MixOp) { o.Shares = [2]float64{0.5, 0.55} },
	} {
		bad := good
		spoil(&bad)
		require.Error(t, plan.SetMix(native.Mix{Ops: []native.MixOp{bad}}), "%+v", bad)
	}
}
