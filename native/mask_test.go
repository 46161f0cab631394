package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// moveFile crops a mask that is a file, of an image of that size.
func moveFile(c *Context, file []byte, width, height, top, left, high, wide int32) ([]byte, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	if len(file) > 0 {
		pins.Pin(&file[0])
	}
	mask := Mask{File: unsafe.Pointer(unsafe.SliceData(file)), Length: int64(len(file)), Width: width, Height: height}
	crop := Drawn{Op: Crop{Top: top, Left: left, Height: high, Width: wide}, Width: width, Height: height}
	to := make([]byte, wide*high)
	pins.Pin(&to[0])
	return to, c.MoveMask([]Drawn{crop}, mask, unsafe.Pointer(&to[0]), wide, high)
}

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

func TestADamagedMaskIsAnErrorOrReadAsGosDecoderReadsIt(t *testing.T) {
	const width, height = 37, 21
	r := rand.New(rand.NewPCG(1, 2))
	grey, indexed := image.NewGray(image.Rect(0, 0, width, height)), image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	for i := range grey.Pix {
		grey.Pix[i], indexed.Pix[i] = byte(r.Uint32()), byte(r.IntN(2))
	}
	c := newContext(t, DefaultLimits())
	refused, read := 0, 0
	for _, m := range []image.Image{grey, indexed} {
		good := encoded(t, m)
		for range 5000 {
			file := damaged(r, good)
			classes, err := moveFile(c, file, width, height, 0, 0, height, width)
			if err != nil {
				var failure *Error
				require.ErrorAs(t, err, &failure)
				require.NotEqual(t, Internal, failure.Code, failure.Text)
				refused++
				continue
			}
			read++
			found, err := png.Decode(bytes.NewReader(file))
			switch found := found.(type) {
			case *image.Gray:
				require.Equal(t, found.Pix, classes)
			case *image.Paletted:
				require.Equal(t, found.Pix, classes)
			default: // Headrace does not look at what comes after the rows
				require.True(t, err != nil || found.Bounds().Dx() == width, "%T", found)
			}
			part, err := moveFile(c, file, width, height, 3, 5, 4, 6)
			require.NoError(t, err)
			for y := range 4 {
				require.Equal(t, classes[(3+y)*width+5:][:6], part[6*y:][:6])
			}
		}
	}
	require.Greater(t, refused, 1000)
	require.Greater(t, read, 10)
}

func TestAMaskOfAnotherSizeThanItsImageIsRefusedFromItsHeader(t *testing.T) {
	file := encoded(t, image.NewGray(image.Rect(0, 0, 5, 4)))
	binary.BigEndian.PutUint32(file[16:], 60000)
	binary.BigEndian.PutUint32(file[20:], 60000)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29]))
	limits := DefaultLimits()
	limits.MaxPixels = 1 << 40
	limits.MaxDecoderBytes = 1 << 16
	_, err := moveFile(newContext(t, limits), file, 5, 4, 0, 0, 4, 5)
	var failure *Error
	require.True(t, errors.As(err, &failure))
	require.Equal(t, "a mask of 60000 x 60000 (expected the image's 4 x 5)", failure.Text)
}
