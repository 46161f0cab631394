package native

import (
	"bytes"
	"image"
	"image/jpeg"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryInstructionSetGivesTheScalarKernelsBytes(t *testing.T) { runC(t, "kernels") }

func TestEveryInstructionSetGivesTheScalarLoopsBytesForOpsOnPixels(t *testing.T) {
	runC(t, "pixel_kernels")
}

func TestMeansOfBoxesEqualPillowsEvenWhereItsNumbersOverflow(t *testing.T) { runC(t, "reduced") }

func TestAPlanGivesThePixelsItsOpsGiveOneByOne(t *testing.T) { runC(t, "folding") }

func TestAPlanGivesThePixelsItsOpsGiveOneByOneInPlainC(t *testing.T) {
	t.Setenv("HEADRACE_SIMD", "scalar")
	runC(t, "folding", "-n", "1000")
}

// The choice is made once in a process, so each wish needs a process of its own, which runs this test again.
func TestTheInstructionSetCanBeForcedAndAnUnknownOneGivesScalarAndAnError(t *testing.T) {
	if os.Getenv("HEADRACE_SIMD_CHILD") != "" {
		name, err := SIMD()
		message := "none"
		if err != nil {
			message = err.Error()
		}
		_, _ = os.Stdout.WriteString("chosen " + name + ", error " + message + "\n")
		return
	}
	for wish, want := range map[string]string{
		"scalar": "chosen scalar, error none",
		"sse9":   `chosen scalar, error HEADRACE_SIMD is "sse9" (expected scalar, avx2 or avx512), so scalar code is used`,
	} {
		again := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		again.Env = append(os.Environ(), "HEADRACE_SIMD_CHILD=1", "HEADRACE_SIMD="+wish)
		output, err := again.Output()
		require.NoError(t, err)
		assert.Equal(t, want, strings.SplitN(string(output), "\n", 2)[0])
	}
}

func crop224() []Op {
	return []Op{
		RandomResizedCrop{Height: 224, Width: 224, Filter: Bilinear, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{0.75, 4.0 / 3}},
		HorizontalFlip{0.5},
	}
}

func newPlan(t *testing.T, ops []Op, output Output) *Plan {
	t.Helper()
	plan, err := NewPlan(ops, output)
	require.NoError(t, err)
	t.Cleanup(plan.Close)
	return plan
}

// The values are part of the determinism promise: a change here changes every training run.
func TestDrawsEqualTheGoldenVectors(t *testing.T) {
	plan := newPlan(t, append(crop224(), RandomCrop{Height: 200, Width: 190}), Output{})
	golden := map[Key][3][8]int32{
		{}:                                      {{185, 152, 156, 192}, {}, {19, 29, 200, 190}},
		{Seed: 1, Epoch: 2, Sample: 3, Draw: 4}: {{3, 17, 371, 458}, {}, {13, 8, 200, 190}},
		{Seed: 18446744073709551615, Epoch: 7, Sample: 1281166, Draw: 1099511627776}: {{5, 165, 158, 147}, {}, {10, 30, 200, 190}},
		{Seed: 42, Sample: 5}: {{23, 201, 265, 251}, {}, {8, 23, 200, 190}},
	}
	for key, want := range golden {
		for op, size := range [][2]uint32{{500, 375}, {224, 224}, {224, 224}} {
			drawn, err := plan.Draw(op, key, size[0], size[1])
			require.NoError(t, err)
			assert.Equal(t, want[op], drawn, "%+v op %d", key, op)
		}
	}
}

func TestDrawsDependOnEveryPartOfTheKeyAndOnTheOpsNumber(t *testing.T) {
	ops := append(crop224(), crop224()...)
	plan := newPlan(t, ops, Output{})
	seen := map[[8]int32]Key{}
	for i := range uint64(200) {
		for _, key := range []Key{{Seed: i + 1}, {Epoch: i + 1}, {Sample: i + 1}, {Draw: i + 1}} {
			for _, op := range []int{0, 2} {
				drawn, err := plan.Draw(op, key, 60000, 50000)
				require.NoError(t, err)
				if other, ok := seen[drawn]; ok {
					t.Fatalf("%+v and %+v draw %v", key, other, drawn)
				}
				seen[drawn] = key
			}
		}
	}
}

func TestASuccessfulSampleAllocatesNothing(t *testing.T) {
	record := encodedJPEG(t, 300, 200)
	plan := newPlan(t, crop224(), Output{DType: Float32, Normalize: true, Std: [3]float32{1, 1, 1}})
	context, err := NewContext(DefaultLimits())
	require.NoError(t, err)
	defer context.Close()
	size, fixed := plan.FixedSize()
	require.True(t, fixed)
	destination := make([]byte, size.Bytes)
	// Outside of tests records and slots are not Go memory. Pinned Go memory is passed to C in the same way.
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&record[0])
	pinner.Pin(&destination[0])
	crc := CRC32C(0, record)
	sample := func() {
		_, err := context.Sample(unsafe.Pointer(&record[0]), int64(len(record)), Seek{}, Key{Seed: 1}, &crc,
			View{Plan: plan, To: unsafe.Pointer(&destination[0]), Capacity: size.Bytes})
		if err != nil {
			t.Fatal(err)
		}
	}
	assert.Zero(t, testing.AllocsPerRun(100, sample))

	crc++
	_, err = context.Sample(unsafe.Pointer(&record[0]), int64(len(record)), Seek{}, Key{}, &crc,
		View{Plan: plan, To: unsafe.Pointer(&destination[0]), Capacity: size.Bytes})
	assert.ErrorContains(t, err, "bad: CRC-32C of")
	_, err = context.Sample(unsafe.Pointer(&record[0]), int64(len(record)), Seek{}, Key{}, nil,
		View{Plan: plan, To: unsafe.Pointer(&destination[0]), Capacity: size.Bytes - 1})
	assert.EqualError(t, err, "a sample of 224x224 pixels takes 602112 bytes, the destination holds 602111")
}

// A program gives NewPlan the fixed quality that Replay says was drawn.
func TestAFixedJPEGQualityGivesThePixelsOfTheSameQualityDrawn(t *testing.T) {
	record := encodedJPEG(t, 60, 40)
	context, err := NewContext(DefaultLimits())
	require.NoError(t, err)
	defer context.Close()
	pixels := func(op Op) []byte {
		plan := newPlan(t, []Op{op}, Output{})
		to := make([]byte, 60*40*3)
		var pinner runtime.Pinner
		defer pinner.Unpin()
		pinner.Pin(&record[0])
		pinner.Pin(&to[0])
		_, err := context.Sample(unsafe.Pointer(&record[0]), int64(len(record)), Seek{}, Key{}, nil,
			View{Plan: plan, To: unsafe.Pointer(&to[0]), Capacity: uint64(len(to))})
		require.NoError(t, err)
		return to
	}
	assert.Equal(t, pixels(JPEG{[2]int32{20, 20}}), pixels(FixedJPEG{20}))
	assert.NotEqual(t, pixels(FixedJPEG{90}), pixels(FixedJPEG{20}))
}

func encodedJPEG(t *testing.T, width, height int) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range picture.Pix {
		picture.Pix[i] = byte(i * i >> 7)
	}
	var encoded bytes.Buffer
	require.NoError(t, jpeg.Encode(&encoded, picture, nil))
	return encoded.Bytes()
}

func TestTheRefusalOfAnImpossibleOpNamesItsNumberAndParameter(t *testing.T) {
	for want, op := range map[string]Op{
		"op 0: unknown kind 99":                                        Group{Kind: 99},
		"op 0: unknown op on pixels 99":                                Adjust{Kind: 99},
		"op 0: quality is 0, must be 1 to 100":                         FixedJPEG{0},
		"op 0: quality is 101, must be 1 to 100":                       FixedJPEG{101},
		"op 0: chains are mixed by ops that are drawn, not by 20":      MixBegin{1},
		"op 0: height is 0, must be 1 to 16777216":                     Resize{Height: 0, Width: 5},
		"op 0: filter is 8, must be 0 to 7":                            Resize{Height: 5, Width: 5, Filter: 8},
		"op 0: probability is 1.5, must be 0 to 1":                     VerticalFlip{1.5},
		"op 0: max_size 9 must exceed size 9":                          ResizeShorter{Size: 9, MaxSize: 9},
		"op 0: scale is 0, must be 2.22507386e-308 to 1.79769313e+308": RandomResizedCrop{Height: 5, Width: 5},
		"op 0: padding is -1, must be 0 to 16777216":                   RandomCrop{Height: 5, Width: 5, Padding: Padding{Left: -1}},
		"op 0: padding mode is 4, must be 0 to 3":                      RandomCrop{Height: 5, Width: 5, Padding: Padding{Mode: 4}},
		"op 0: fill is 0.5, must be a whole number":                    RandomCrop{Height: 5, Width: 5, Fill: [3]float64{0.5}},
		"op 0: top is -20000000, must be -16777216 to 16777216":        Crop{Top: -20000000, Height: 1, Width: 1},
	} {
		_, err := NewPlan([]Op{op}, Output{})
		assert.EqualError(t, err, want)
	}
	_, err := NewPlan(make([]Op, MaxOps+1), Output{})
	assert.EqualError(t, err, "65 ops, must be 0 to 64")
	_, err = NewPlan(nil, Output{DType: Float32, Normalize: true})
	assert.EqualError(t, err, "std[0] is 0, must be finite and not 0")
	_, err = NewPlan(nil, Output{DType: Uint8, Normalize: true})
	assert.EqualError(t, err, "normalize needs a float dtype, not uint8")
}
