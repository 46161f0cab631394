package labels

import (
	"math"
	"testing"

	"github.com/headrace/headrace/native"
	"github.com/stretchr/testify/require"
)

func TestOnlyFiniteCoordinatesAreMoved(t *testing.T) {
	rule := Rule{Kind: Points}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, _, err := rule.Move([]float32{1, 2, 3, float32(bad)}, nil, 9, 9)
		require.ErrorContains(t, err, "row 1 holds")
	}
	_, _, err := rule.Move([]float32{1, 2, 3}, nil, 9, 9)
	require.ErrorContains(t, err, "3 numbers (expected a multiple of 2)")
}

func TestAWarpToNoAreaIsAnErrorAndBoxesThatOverflowAreRemoved(t *testing.T) {
	flat := native.Drawn{Op: native.AffineMap{}, Width: 9, Height: 9}
	rule := Rule{Kind: Boxes, Clamp: true, Sanitize: true, MinSize: 1, MinArea: 1}
	_, _, err := rule.Move([]float32{1, 2, 3, 4}, []native.Drawn{flat}, 9, 9)
	require.ErrorContains(t, err, "a warp that leaves no area")
	larger := native.Drawn{Op: native.Resize{}, Width: 1, Height: 1}
	most := float32(math.MaxFloat32)
	moved, kept, err := rule.Move([]float32{-most, -most, most, most, 0, 0, 1, 1}, []native.Drawn{larger}, 90, 90)
	require.NoError(t, err)
	require.Equal(t, []int64{1}, kept)
	require.Equal(t, []float32{0, 0, 90, 90}, moved)
}
