package labels

import (
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/native"
	"github.com/stretchr/testify/require"
)

// sizeAfter is what the ops make of an image of that size.
func sizeAfter(t *testing.T, ops []native.Op, width, height uint32) native.Size {
	t.Helper()
	plan, err := native.NewPlan(ops, native.Output{})
	require.NoError(t, err)
	defer plan.Close()
	size, err := plan.DrawnSize(native.Key{}, width, height)
	require.NoError(t, err)
	return size
}

func TestAFollowingImageIsAsManyTimesLargerAfterwardsAsBefore(t *testing.T) {
	turn := func(angle float64) native.Op {
		return native.Rotation{Degrees: [2]float64{angle, angle}, Expand: true}
	}
	ops := []native.Op{
		native.Pad{Padding: native.Padding{Left: 1, Top: 2, Right: 3, Bottom: 4}}, turn(90), native.CenterCrop{Height: 60, Width: 41},
		native.RandomCrop{Height: 30, Width: 50, IfNeeded: true, Padding: native.Padding{Left: 1}}, turn(270), turn(180), turn(0),
		native.HorizontalFlip{Probability: 0.5}, native.VerticalFlip{Probability: 0.5}, native.Crop{Top: -3, Left: 4, Height: 20, Width: 44},
	}
	plan, err := native.NewPlan(ops, native.Output{})
	require.NoError(t, err)
	defer plan.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for sample := range uint64(300) {
		width, height, scale := 1+r.Uint32N(80), 1+r.Uint32N(80), 1+r.Int32N(5)
		key := native.Key{Sample: sample}
		end, err := plan.DrawnSize(key, width, height)
		require.NoError(t, err)
		drawn, err := plan.Replay(key, width, height)
		require.NoError(t, err)
		followed, err := Follow(drawn, scale, int32(end.Width), int32(end.Height))
		require.NoError(t, err)
		size := sizeAfter(t, followed, uint32(scale)*width, uint32(scale)*height)
		require.Equal(t, uint32(scale)*end.Width, size.Width)
		require.Equal(t, uint32(scale)*end.Height, size.Height)
	}
}

func TestAQuarterTurnThatFallsBetweenPixelsIsRefusedForALargerImage(t *testing.T) {
	// A quarter turn that keeps the size of an image of 5 x 4 pixels samples positions between pixels.
	plan, err := native.NewPlan([]native.Op{native.Rotation{Degrees: [2]float64{90, 90}}}, native.Output{})
	require.NoError(t, err)
	defer plan.Close()
	for width, fits := range map[uint32]bool{4: true, 5: false, 6: true} {
		drawn, err := plan.Replay(native.Key{}, width, 4)
		require.NoError(t, err)
		_, err = Follow(drawn, 2, int32(width), 4)
		if fits {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "a rotation of 4 x 5 pixels that is not a quarter turn of whole pixels")
	}
}
