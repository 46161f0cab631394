package native

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// cropped is the sample of one crop, made with those seek points.
func cropped(t *testing.T, c *Context, p *Plan, image []byte, seek Seek) []byte {
	out := make([]byte, 3*40*40)
	var pinner runtime.Pinner // the job points to Go memory here
	defer pinner.Unpin()
	pinner.Pin(unsafe.SliceData(image))
	pinner.Pin(unsafe.SliceData(out))
	if seek.Data != nil {
		pinner.Pin(seek.Data)
	}
	_, err := c.Sample(unsafe.Pointer(unsafe.SliceData(image)), int64(len(image)), seek, Key{}, nil,
		View{Plan: p, To: unsafe.Pointer(unsafe.SliceData(out)), Capacity: uint64(len(out))})
	require.NoError(t, err)
	return out
}

func TestSeekPointsAreUsedUnlessTheirChecksumIsWrong(t *testing.T) {
	c := newContext(t, DefaultLimits())
	p, err := NewPlan([]Op{Crop{Top: 100, Left: 150, Height: 40, Width: 40}}, Output{DType: Uint8, Layout: NHWC})
	require.NoError(t, err)
	defer p.Close()
	image := goJPEG(t, 300, 200)
	_, points, warnings, err := c.InspectSeek(unsafe.Pointer(unsafe.SliceData(image)), int64(len(image)), SeekStep, nil)
	require.NoError(t, err)
	require.Zero(t, warnings)
	crc, want, wrong := CRC32C(0, points), cropped(t, c, p, image, Seek{}), 0
	place := func(b []byte) Seek {
		return Seek{Data: unsafe.Pointer(unsafe.SliceData(b)), Length: int64(len(b)), CRC32C: crc, HasCRC: true}
	}
	require.Equal(t, want, cropped(t, c, p, image, place(points)))
	for at := range points {
		altered := bytes.Clone(points)
		altered[at] ^= 0x10
		seek := place(altered)
		require.True(t, bytes.Equal(want, cropped(t, c, p, image, seek)), "byte %d", at)
		seek.HasCRC = false
		if !bytes.Equal(want, cropped(t, c, p, image, seek)) {
			wrong++
		}
	}
	// This shows that points are used at all, and that it is the checksum that keeps pixels right.
	require.Positive(t, wrong)
	t.Logf("of %d altered points %d would have changed pixels", len(points), wrong)
}
