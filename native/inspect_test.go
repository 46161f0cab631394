package native

import (
	"bytes"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noise is an image that compresses badly, so that its file has much entropy data.
func noise(width, height int) image.Image {
	r := rand.New(rand.NewPCG(uint64(width), uint64(height)))
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.Set(x, y, color.RGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()), 255})
		}
	}
	return m
}

func goJPEG(t testing.TB, width, height int) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, noise(width, height), nil))
	return b.Bytes()
}

func goPNG(t testing.TB, width, height int) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, noise(width, height)))
	return b.Bytes()
}

func newContext(t *testing.T, limits Limits) *Context {
	c, err := NewContext(limits)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func inspect(c *Context, b []byte) (Facts, uint32, error) {
	return c.Inspect(unsafe.Pointer(unsafe.SliceData(b)), int64(len(b)), true)
}

func TestInspectionReportsTheFactsThatAJPEGWasMadeWith(t *testing.T) {
	b := goJPEG(t, 61, 47)
	facts, warnings, err := inspect(newContext(t, DefaultLimits()), b)
	require.NoError(t, err)
	assert.Zero(t, warnings)
	scan := bytes.Index(b, []byte{0xFF, 0xDA})
	assert.Equal(t, Facts{Width: 61, Height: 47, ScanOffset: uint32(scan + 14),
		CRC32C: crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)), Scans: 1, Codec: CodecJPEG,
		Sampling: Sampling420, Process: ProcessBaseline, Channels: 3, Bits: 8}, facts)
}

func TestInspectionReportsTheFactsThatAPNGWasMadeWith(t *testing.T) {
	b := goPNG(t, 33, 20)
	facts, warnings, err := inspect(newContext(t, DefaultLimits()), b)
	require.NoError(t, err)
	assert.Zero(t, warnings)
	assert.Equal(t, Facts{Width: 33, Height: 20, Scans: 1, Codec: CodecPNG, Process: ProcessPNG,
		CRC32C: crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)), Channels: 3, Bits: 8}, facts)
}

func TestAFileCutInItsImageDataIsTruncatedAndTheErrorSaysWhere(t *testing.T) {
	c := newContext(t, DefaultLimits())
	for _, b := range [][]byte{goJPEG(t, 90, 90), goPNG(t, 90, 90)} {
		_, _, err := inspect(c, b[:len(b)/2])
		var failure *Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, Truncated, failure.Code)
		assert.EqualValues(t, len(b)/2, failure.Offset)
	}
}

func TestAnUnsupportedImageTypeIsNamedInTheError(t *testing.T) {
	_, _, err := inspect(newContext(t, DefaultLimits()), []byte("\x00\x00\x00\x18ftypavif...."))
	var failure *Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, Unsupported, failure.Code)
	assert.Contains(t, failure.Text, "AVIF")
}

func TestTheFirstFrameOfAGIFIsGood(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, gif.Encode(&b, noise(9, 8), nil))
	facts, _, err := inspect(newContext(t, DefaultLimits()), b.Bytes())
	require.NoError(t, err)
	assert.Equal(t, [3]uint32{9, 8, uint32(CodecGIF)}, [3]uint32{facts.Width, facts.Height, uint32(facts.Codec)})
}

func TestAnEmptyRecordIsTruncated(t *testing.T) {
	facts, _, err := newContext(t, DefaultLimits()).Inspect(nil, 0, true)
	var failure *Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, Truncated, failure.Code)
	assert.Zero(t, facts)
}

func TestARefusalByALimitNamesTheLimitAndItsValue(t *testing.T) {
	b := goJPEG(t, 90, 90) // 36 MCUs of six blocks
	for name, set := range map[string]func(*Limits){
		"max_pixels":       func(l *Limits) { l.MaxPixels = 8099 },
		"max_record_bytes": func(l *Limits) { l.MaxRecordBytes = uint64(len(b)) - 1 },
		"max_scan_blocks":  func(l *Limits) { l.MaxScanBlocks = 215 },
	} {
		limits := DefaultLimits()
		set(&limits)
		_, _, err := inspect(newContext(t, limits), b)
		var failure *Error
		require.ErrorAs(t, err, &failure, name)
		assert.Equal(t, Limit, failure.Code)
		assert.Contains(t, failure.Text, name)
	}
	limits := DefaultLimits()
	limits.MaxPixels, limits.MaxRecordBytes, limits.MaxScanBlocks = 8100, uint64(len(b)), 216
	_, _, err := inspect(newContext(t, limits), b)
	assert.NoError(t, err)
}

func TestCRC32CEqualsGosForEveryLengthAndInParts(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 40000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	assert.EqualValues(t, 0xE3069283, CRC32C(0, []byte("123456789")))
	for n := 0; n < len(b); n += 1 + r.IntN(50) {
		start := r.IntN(len(b) - n + 1)
		part := b[start : start+n]
		require.Equal(t, crc32.Checksum(part, table), CRC32C(0, part), "%d bytes", n)
		cut := r.IntN(n + 1)
		require.Equal(t, CRC32C(0, part), CRC32C(CRC32C(0, part[:cut]), part[cut:]))
	}
}

func TestInspectAllocatesNothingForAGoodFile(t *testing.T) {
	c := newContext(t, DefaultLimits())
	b := goJPEG(t, 64, 64)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = inspect(c, b) }))
}

func TestVersionsListsTheLibrariesAndReportsNoMisfitOfTheHook(t *testing.T) {
	assert.Regexp(t, `^libjpeg-turbo \d+\.\d+\.\d+, zlib \d+\.\d+[0-9.a-z-]*, libwebp \d+\.\d+\.\d+$`, Versions())
}
