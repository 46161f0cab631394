package native

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// learning makes a sample with the seek points given, and returns what was learned meanwhile.
func learning(t testing.TB, c *Context, p *Plan, image []byte, seek Seek) (pixels, points []byte, crc uint32, err error) {
	t.Helper()
	held := mapped(t, image)
	if seek.Data != nil {
		points := mapped(t, unsafe.Slice((*byte)(seek.Data), seek.Length))
		seek.Data = unsafe.Pointer(unsafe.SliceData(points))
	}
	seek.Learn = true
	size, _ := p.FixedSize()
	out := mapped(t, make([]byte, size.Bytes))
	_, err = c.Sample(unsafe.Pointer(unsafe.SliceData(held)), int64(len(held)), seek, Key{}, nil,
		View{Plan: p, To: unsafe.Pointer(unsafe.SliceData(out)), Capacity: size.Bytes})
	points, crc, _ = c.Learned()
	return bytes.Clone(out), bytes.Clone(points), crc, err
}

func cropPlan(t testing.TB, top, left, height, width int32) *Plan {
	p, err := NewPlan([]Op{Crop{Top: top, Left: left, Height: height, Width: width}}, Output{DType: Uint8, Layout: NHWC})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func inspected(t testing.TB, c *Context, image []byte) []byte {
	held := mapped(t, image)
	_, points, _, err := c.InspectSeek(unsafe.Pointer(unsafe.SliceData(held)), int64(len(held)), SeekStep, nil)
	require.NoError(t, err)
	return points
}

// rowsOf is how many rows of MCUs a record has points of (docs/format.md).
func rowsOf(points []byte) int { return int(binary.LittleEndian.Uint16(points[10:])) }

// enough is the number of rows that suffices where points are learned: all but the last twelfth.
func enough(whole []byte) int { return rowsOf(whole) - rowsOf(whole)/12 }

func TestAnyCropLearnsTheSeekPointsOfAllRowsButAtMostTheLastTwelfth(t *testing.T) {
	c := newContext(t, DefaultLimits())
	grey := new(bytes.Buffer)
	picture := image.NewGray(image.Rect(0, 0, 301, 203))
	for i := range picture.Pix {
		picture.Pix[i] = byte(i * i >> 7)
	}
	require.NoError(t, jpeg.Encode(grey, picture, nil))
	for name, file := range map[string][]byte{"colour": goJPEG(t, 301, 203), "grey": grey.Bytes(), "small": goJPEG(t, 9, 7)} {
		want := inspected(t, c, file)
		require.NotEmpty(t, want, name)
		for _, box := range [][4]int32{{0, 0, 1, 1}, {0, 0, 7, 9}, {100, 150, 40, 40}, {202, 300, 1, 1}, {0, 0, 203, 301}, {60, 0, 20, 301}} {
			if name == "small" && box[0]+box[2] > 7 {
				continue
			}
			p := cropPlan(t, box[0], box[1], box[2], box[3])
			pixels, points, crc, err := learning(t, c, p, file, Seek{})
			require.NoError(t, err)
			require.GreaterOrEqual(t, rowsOf(points), enough(want), "%s %v", name, box)
			if rowsOf(points) == rowsOf(want) {
				require.Equal(t, want, points, "%s %v", name, box)
			}
			require.Equal(t, CRC32C(0, file), crc)
			seek := Seek{Data: unsafe.Pointer(unsafe.SliceData(points)), Length: int64(len(points)), Image: crc, HasImage: true}
			again, more, _, err := learning(t, c, p, file, seek)
			require.NoError(t, err)
			require.Equal(t, pixels, again)
			require.Empty(t, more, "points were there and were used")
		}
	}
}

func TestSeekPointsOfOtherBytesAreIgnoredAndLearnedAgain(t *testing.T) {
	c := newContext(t, DefaultLimits())
	p := cropPlan(t, 100, 150, 40, 40)
	other, file := goJPEG(t, 300, 200), goJPEG(t, 300, 200)
	file[len(file)/2] ^= 1 // other pixels, and perhaps another length of codes
	if inspected(t, c, file) == nil {
		t.Skip("this bit breaks the scan")
	}
	points := inspected(t, c, other)
	want, _, _, err := learning(t, c, p, file, Seek{})
	require.NoError(t, err)
	seek := Seek{Data: unsafe.Pointer(unsafe.SliceData(points)), Length: int64(len(points)), Image: CRC32C(0, other), HasImage: true}
	pixels, learned, crc, err := learning(t, c, p, file, seek)
	require.NoError(t, err)
	require.Equal(t, want, pixels)
	require.Equal(t, enough(inspected(t, c, file)), rowsOf(learned))
	require.Equal(t, CRC32C(0, file), crc)
}

func TestNoSeekPointsAreLearnedFromAFileWithDamageInWhatIsRead(t *testing.T) {
	c := newContext(t, DefaultLimits())
	file := goJPEG(t, 300, 200)
	top, whole := cropPlan(t, 0, 0, 8, 8), cropPlan(t, 0, 0, 200, 300)
	ending := func(end ...byte) []byte { return append(bytes.Clone(file[:len(file)-2]), end...) }
	for name, damaged := range map[string]struct {
		plan *Plan
		file []byte
	}{
		"cut":          {top, file[:len(file)*3/4]},
		"a PNG":        {top, goPNG(t, 40, 40)},
		"half of zero": {top, append(bytes.Clone(file[:len(file)/2]), make([]byte, 1000)...)},
		"without EOI":  {whole, ending()},
		"fill byte":    {whole, ending(0xFF, 0xFF, 0xD9)},
		"more data":    {whole, ending(1, 2, 3, 0xFF, 0xD9)},
	} {
		_, points, _, _ := learning(t, c, damaged.plan, damaged.file, Seek{})
		require.Empty(t, points, name)
	}
	for _, p := range []*Plan{top, whole} {
		_, points, _, err := learning(t, c, p, file, Seek{})
		require.NoError(t, err)
		require.NotEmpty(t, points)
	}
}

func TestACropBelowTheLearnedSeekPointsLearnsTheRowsThatAreMissing(t *testing.T) {
	c := newContext(t, DefaultLimits())
	file := goJPEG(t, 1600, 1600) // 10,000 MCUs, of which a new context may pass over 16,384
	whole := inspected(t, c, file)
	top, within, bottom := cropPlan(t, 200, 0, 200, 200), cropPlan(t, 100, 50, 200, 200), cropPlan(t, 1400, 0, 200, 200)
	var points []byte
	var crc uint32
	for n := range 3 { // the first two images use up the allowance
		var err error
		_, points, crc, err = learning(t, c, top, file, Seek{})
		require.NoError(t, err)
		require.Equal(t, n < 2, rowsOf(points) == enough(whole), "image %d", n)
	}
	require.NotEmpty(t, points)

	c = newContext(t, DefaultLimits()) // has an allowance for all rows
	known := Seek{Data: unsafe.Pointer(unsafe.SliceData(points)), Length: int64(len(points)), Image: crc, HasImage: true}
	_, more, _, err := learning(t, c, within, file, known)
	require.NoError(t, err)
	require.Empty(t, more, "the crop lies within the rows that have points")
	want, _, _, err := learning(t, c, bottom, file, Seek{})
	require.NoError(t, err)
	pixels, more, _, err := learning(t, c, bottom, file, known)
	require.NoError(t, err)
	require.Equal(t, want, pixels)
	require.Equal(t, 99, rowsOf(more), "the crop ends inside the last row")
}

// mapped is memory that C may be given in a struct.
func mapped(t testing.TB, b []byte) []byte {
	memory, err := unix.Mmap(-1, 0, len(b)+1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	copy(memory, b)
	return memory[:len(b)]
}

// flatJPEG is a grey file of one colour: each of its MCUs is the six bits 001010, no difference and an end of
// block by the standard's tables.
func flatJPEG(t testing.TB, width, height int) []byte {
	small := new(bytes.Buffer)
	require.NoError(t, jpeg.Encode(small, image.NewGray(image.Rect(0, 0, 8, 8)), nil))
	file := bytes.Clone(small.Bytes())
	frame := bytes.Index(file, []byte{0xFF, 0xC0})
	binary.BigEndian.PutUint16(file[frame+5:], uint16(height))
	binary.BigEndian.PutUint16(file[frame+7:], uint16(width))
	scan := bytes.Index(file, []byte{0xFF, 0xDA})
	scan += 2 + int(binary.BigEndian.Uint16(file[scan+2:]))
	mcus := (width + 7) / 8 * ((height + 7) / 8)
	require.Zero(t, mcus%4)
	file = append(file[:scan], bytes.Repeat([]byte{0x28, 0xA2, 0x8A}, mcus/4)...)
	return append(file, 0xFF, 0xD9)
}

func TestSeekPointsOfMoreThanTwoMegabytesAreLearned(t *testing.T) {
	limits := DefaultLimits()
	limits.MaxPixels = 1 << 31
	c := newContext(t, limits)
	file := flatJPEG(t, 65472, 16000)
	_, points, crc, err := learning(t, c, cropPlan(t, 15990, 65464, 8, 8), file, Seek{}) // to the last MCU
	require.NoError(t, err)
	require.Greater(t, len(points), 2<<20)
	require.Equal(t, CRC32C(0, file), crc)
	require.True(t, bytes.Equal(inspected(t, c, file), points)) // too long to be shown
}
