package labels

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/headrace/headrace/native"
	"github.com/stretchr/testify/require"
)

func encoded(t testing.TB, m image.Image) []byte {
	t.Helper()
	var to bytes.Buffer
	require.NoError(t, png.Encode(&to, m))
	return to.Bytes()
}

// damaged changes some bytes of a PNG and corrects its chunks' checksums in half of the cases, because
// nearly all others end at a checksum.
func damaged(r *rand.Rand, good []byte) []byte {
	data := bytes.Clone(good)
	for range 1 + r.IntN(4) {
		data[8+r.IntN(len(data)-8)] = byte(r.Uint32())
	}
	for at := 8; r.IntN(2) == 0 && at+12 <= len(data); {
		length := int(binary.BigEndian.Uint32(data[at:]))
		if length > len(data)-at-12 {
			break
		}
		binary.BigEndian.PutUint32(data[at+8+length:], crc32.ChecksumIEEE(data[at+4:at+8+length]))
		at += 12 + length
	}
	return data[:len(data)-r.IntN(2)*r.IntN(len(data))]
}

func TestADamagedMaskIsAnErrorOrOfTheImagesSize(t *testing.T) {
	const width, height = 37, 21
	r := rand.New(rand.NewPCG(1, 2))
	grey, indexed := image.NewGray(image.Rect(0, 0, width, height)), image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	for i := range grey.Pix {
		grey.Pix[i], indexed.Pix[i] = byte(r.Uint32()), byte(r.IntN(2))
	}
	refused, read := 0, 0
	for _, m := range []image.Image{grey, indexed} {
		good := encoded(t, m)
		for range 5000 {
			pixels, err := ReadMask(damaged(r, good), width, height)
			if err != nil {
				refused++
				continue
			}
			require.Len(t, pixels, width*height)
			read++
		}
	}
	require.Greater(t, refused, 1000)
	require.Greater(t, read, 10)
}

func TestAMaskOfAnotherSizeIsRefusedFromItsHeader(t *testing.T) {
	header := encoded(t, image.NewGray(image.Rect(0, 0, 5, 4)))[:33]
	binary.BigEndian.PutUint32(header[16:], 1<<31-1)
	binary.BigEndian.PutUint32(header[20:], 1<<31-1)
	binary.BigEndian.PutUint32(header[29:], crc32.ChecksumIEEE(header[12:29]))
	for _, side := range []int{5, 1 << 31} {
		_, err := ReadMask(header, side, 4)
		require.Error(t, err)
	}
	binary.BigEndian.PutUint32(header[16:], 60000)
	binary.BigEndian.PutUint32(header[20:], 60000)
	binary.BigEndian.PutUint32(header[29:], crc32.ChecksumIEEE(header[12:29]))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadMask(header, 5, 4)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "a mask of 60000 x 60000 (expected the image's 4 x 5)")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestOnlyFinitePlacesAreMoved(t *testing.T) {
	rule := Rule{Kind: Points}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, _, err := rule.Move([]float32{1, 2, 3, float32(bad)}, nil, 9, 9)
		require.ErrorContains(t, err, "row 1 holds")
	}
	_, _, err := rule.Move([]float32{1, 2, 3}, nil, 9, 9)
	require.ErrorContains(t, err, "3 numbers (expected a multiple of 2)")
}

func TestAWarpWithoutAreaIsAnErrorAndHugePlacesAreLeftOut(t *testing.T) {
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
