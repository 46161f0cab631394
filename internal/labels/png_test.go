package labels

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"
)

// transparent puts a chunk behind IHDR that makes one value of a grey PNG transparent.
func transparent(encoded []byte, value uint16) []byte {
	const behind = 8 + 25
	chunk := binary.BigEndian.AppendUint16([]byte("tRNS"), value)
	made := binary.BigEndian.AppendUint32(bytes.Clone(encoded[:behind]), 2)
	made = binary.BigEndian.AppendUint32(append(made, chunk...), crc32.ChecksumIEEE(chunk))
	return append(made, encoded[behind:]...)
}

func TestAGreyMaskWithATransparentValueHasItsValuesAsInPillow(t *testing.T) {
	mask := image.NewGray(image.Rect(0, 0, 5, 3))
	for i := range mask.Pix {
		mask.Pix[i] = uint8(17 * i)
	}
	var out bytes.Buffer
	require.NoError(t, png.Encode(&out, mask))
	found, err := ReadMask(transparent(out.Bytes(), 34), 5, 3)
	require.NoError(t, err)
	require.Equal(t, mask.Pix, found)
}
