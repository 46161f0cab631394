package native

import (
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What torchvision 0.29's RandomResizedCrop.get_params draws: 240,000 of its draws (seeds 0 to 3) in
// ten bins of about equal share. A value belongs to the first bin whose edge it does not exceed.
var torchvisionDraws = []struct {
	width, height uint32
	scale, ratio  [2]float64
	bins          map[string]binned
}{
	{500, 375, [2]float64{0.08, 1}, [2]float64{0.75, 4.0 / 3}, map[string]binned{
		"top": {[]int32{3, 9, 16, 25, 36, 50, 67, 91, 129},
			[]float64{0.10223, 0.10605, 0.09701, 0.10028, 0.10026, 0.10041, 0.09465, 0.09957, 0.10161, 0.09793}},
		"left": {[]int32{16, 33, 52, 72, 94, 118, 145, 179, 226},
			[]float64{0.10324, 0.09731, 0.10282, 0.10006, 0.10074, 0.099, 0.09729, 0.1003, 0.1002, 0.09903}},
		"height": {[]int32{166, 200, 230, 256, 280, 301, 321, 340, 358},
			[]float64{0.1023, 0.0984, 0.10195, 0.09915, 0.10233, 0.09732, 0.09974, 0.10092, 0.10027, 0.09761}},
		"width": {[]int32{166, 200, 230, 256, 279, 303, 329, 361, 401},
			[]float64{0.10204, 0.09804, 0.10203, 0.10107, 0.09773, 0.10285, 0.09699, 0.10184, 0.09742, 0.09999}},
		"area": {[]int32{27846, 40725, 53592, 66405, 79152, 91808, 104601, 118664, 137764},
			[]float64{0.10003, 0.09997, 0.10001, 0.1, 0.10002, 0.1, 0.10006, 0.09995, 0.09998, 0.1}},
	}},
	{240, 320, [2]float64{0.35, 1}, [2]float64{0.5, 2}, map[string]binned{
		"top": {[]int32{4, 10, 17, 25, 34, 46, 60, 77, 103},
			[]float64{0.11475, 0.09942, 0.09883, 0.0957, 0.0923, 0.10501, 0.09947, 0.09523, 0.09935, 0.09994}},
		"left": {[]int32{1, 4, 8, 12, 17, 24, 32, 43, 59},
			[]float64{0.10044, 0.10648, 0.11162, 0.08974, 0.09464, 0.1061, 0.09709, 0.09939, 0.09783, 0.09666}},
		"height": {[]int32{159, 181, 200, 216, 231, 247, 263, 280, 299},
			[]float64{0.10305, 0.09872, 0.10289, 0.09697, 0.09861, 0.10565, 0.0987, 0.09679, 0.09975, 0.09885}},
		"width": {[]int32{148, 161, 173, 183, 194, 204, 213, 222, 231},
			[]float64{0.10589, 0.0962, 0.10571, 0.09309, 0.10643, 0.10052, 0.0953, 0.09784, 0.09936, 0.09966}},
		"area": {[]int32{29535, 32342, 35334, 38540, 42000, 45792, 49896, 54635, 60956},
			[]float64{0.10004, 0.10002, 0.1, 0.10006, 0.0999, 0.10002, 0.10002, 0.09995, 0.10002, 0.09997}},
	}},
}

type binned struct {
	edges  []int32
	shares []float64
}

const (
	ownDraws   = 40000
	theirDraws = 240000
	// chi-square with 9 degrees of freedom exceeds this with probability 1e-4.
	chiSquareLimit = 33.72
)

func TestRandomResizedCropIsDistributedAsTorchvisions(t *testing.T) {
	for _, reference := range torchvisionDraws {
		op := RandomResizedCrop{Height: 224, Width: 224, Filter: Bilinear, Scale: reference.scale, Ratio: reference.ratio}
		plan := newPlan(t, []Op{op}, Output{})
		counts := map[string][]float64{}
		for name := range reference.bins {
			counts[name] = make([]float64, 10)
		}
		for i := range uint64(ownDraws) {
			d, err := plan.Draw(0, Key{Seed: 5, Sample: i}, reference.width, reference.height)
			require.NoError(t, err)
			for name, value := range map[string]int32{
				"top": d[0], "left": d[1], "height": d[2], "width": d[3], "area": d[2] * d[3],
			} {
				edges := reference.bins[name].edges
				counts[name][sort.Search(len(edges), func(k int) bool { return value <= edges[k] })]++
			}
		}
		for name, bins := range reference.bins {
			var chiSquare float64
			for k, share := range bins.shares {
				expected := share * ownDraws
				difference := counts[name][k] - expected
				// Both sides are samples, so the variance of torchvision's is added.
				chiSquare += difference * difference / (expected * (1 + float64(ownDraws)/theirDraws))
			}
			assert.Less(t, chiSquare, chiSquareLimit, "%s of %dx%d", name, reference.width, reference.height)
		}
	}
}

func TestRandomResizedCropFallsBackToTorchvisionsCentralCrop(t *testing.T) {
	for size, want := range map[[2]uint32][8]int32{
		{60, 200}:   {60, 0, 80, 60},    // too tall: height 60 / 0.75
		{200, 60}:   {0, 60, 60, 80},    // too wide: width 60 * 4/3
		{1, 500}:    {249, 0, 1, 1},     // round(1 / 0.75)
		{70, 60}:    {0, 0, 60, 70},     // an allowed ratio: the whole image
		{1000, 101}: {0, 432, 101, 135}, // round(134.67)
	} {
		op := RandomResizedCrop{Height: 8, Width: 8, Scale: [2]float64{1.9, 2}, Ratio: [2]float64{0.75, 4.0 / 3}}
		plan := newPlan(t, []Op{op}, Output{})
		drawn, err := plan.Draw(0, Key{}, size[0], size[1])
		require.NoError(t, err)
		assert.Equal(t, want, drawn, "%v", size)
	}
}

func TestRandomCropIsUniformOverAllPlaces(t *testing.T) {
	plan := newPlan(t, []Op{RandomCrop{Height: 32, Width: 32, Padding: Padding{Left: 4, Top: 4, Right: 4, Bottom: 4}}}, Output{})
	var rows, columns [9]float64
	const draws = 36000
	for i := range uint64(draws) {
		d, err := plan.Draw(0, Key{Sample: i}, 32, 32)
		require.NoError(t, err)
		rows[d[0]]++
		columns[d[1]]++
	}
	for _, counts := range [][9]float64{rows, columns} {
		var chiSquare float64
		for _, count := range counts {
			chiSquare += (count - draws/9) * (count - draws/9) / (draws / 9)
		}
		assert.Less(t, chiSquare, chiSquareLimit)
	}
}

func TestAFlipFlipsWithItsProbability(t *testing.T) {
	for _, p := range []float64{0, 0.3, 0.5, 1} {
		plan := newPlan(t, []Op{HorizontalFlip{p}}, Output{})
		flips, draws := 0.0, 20000.0
		for i := range uint64(draws) {
			d, err := plan.Draw(0, Key{Sample: i}, 9, 9)
			require.NoError(t, err)
			flips += float64(d[0])
		}
		// Four standard deviations; none for certain outcomes.
		assert.LessOrEqual(t, math.Abs(flips-p*draws), 4*math.Sqrt(draws*p*(1-p)))
	}
}

func TestACropLargerThanThePaddedImageIsAnErrorThatNamesBothSizes(t *testing.T) {
	plan := newPlan(t, []Op{RandomCrop{Height: 32, Width: 40, Padding: Padding{Left: 1, Top: 2, Right: 3, Bottom: 4}}}, Output{})
	_, err := plan.Draw(0, Key{}, 10, 20)
	assert.EqualError(t, err,
		"op 0: required crop size 32x40 (height x width) is larger than the image with its padding, 26x14")
}

func TestTheDrawnSizeCountsAllPaddingsOfARandomOrderAndOneOfAChoice(t *testing.T) {
	once := Padding{Left: 1, Top: 1, Right: 1, Bottom: 1}
	group := func(kind, count int32) Group { return Group{Kind: kind, Count: count, Probability: 1, Weight: 1} }
	paddings := []Op{group(OpApply, 1), Pad{Padding: once}, group(OpApply, 1), Pad{Padding: once}}
	for _, kind := range []int32{OpOrder, OpChoice} {
		plan, err := NewPlan(append([]Op{Resize{Height: 10, Width: 10, Filter: 2}, group(kind, 4)}, paddings...), Output{DType: Uint8})
		require.NoError(t, err)
		made, err := plan.DrawnSize(Key{}, 50, 40)
		require.NoError(t, err)
		require.EqualValues(t, map[int32]uint32{OpOrder: 14, OpChoice: 12}[kind], made.Width)
		if size, fixed := plan.FixedSize(); fixed {
			require.Equal(t, made.Bytes, size.Bytes)
		}
		plan.Close()
	}
}
