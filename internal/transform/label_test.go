package transform

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/labels"
)

func TestALabelIsRefusedBesideAnOpThatMovesTheImageAlone(t *testing.T) {
	for _, step := range []string{
		`{"name": "Displace", "displacement": 4096, "size": [3, 4]}`,
		`{"name": "TensorAffine", "coefficients": [1, 0, 2, 0, 1, 0]}`,
		`{"name": "ResizeBox", "size": 4, "box": [0.5, 0, 3, 2]}`,
		`{"name": "Reduce", "factor": 2}`,
		`{"name": "Draft", "factor": 2}`,
		`{"name": "RandomApply", "transforms": [{"name": "Displace", "displacement": 4096, "size": [3, 4]}]}`,
	} {
		for _, label := range []string{`{"name": "Mask"}`, `{"name": "KeyPoints"}`} {
			rule, err := ParseLabel("label", json.RawMessage(label))
			require.NoError(t, err)
			err = CheckLabels([]json.RawMessage{json.RawMessage(step)}, []labels.Rule{rule})
			require.ErrorContains(t, err, "it moves no labels", "%s beside %s", label, step)
		}
	}
}
