package formats

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
)

// zstdFrame is a zstd frame (RFC 8878, 3.1.1) of blocks of the given types. A raw block has the bytes of its content,
// and an RLE block repeats the content's first byte to the content's length.
func zstdFrame(size int, kinds []byte, contents [][]byte) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0} // one segment, and 4 bytes of size
	out = binary.LittleEndian.AppendUint32(out, uint32(size))
	for i, content := range contents {
		head := uint32(len(content))<<3 | uint32(kinds[i])<<1
		if i == len(contents)-1 {
			head |= 1
		}
		out = append(out, byte(head), byte(head>>8), byte(head>>16))
		if kinds[i] == zstdRLEBlock {
			content = content[:1]
		}
		out = append(out, content...)
	}
	return out
}

func TestConcatenatedZstdFramesAreReadAsOneFile(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(checksum))
		require.NoError(t, err)
		var whole, stored []byte
		for _, c := range []string{"a", "bc", "def"} {
			part := bytes.Repeat([]byte(c), 1000)
			whole, stored = append(whole, part...), encoder.EncodeAll(part, stored)
		}
		z, err := ReadWhole(blocks.Zstd, bytes.NewReader(stored), int64(len(stored)), blocks.MostBytes)
		require.NoError(t, err)
		require.Equal(t, whole, z.Data)
		cut := stored[:len(stored)-1]
		_, err = ReadWhole(blocks.Zstd, bytes.NewReader(cut), int64(len(cut)), blocks.MostBytes)
		require.ErrorIs(t, err, ErrBad)
	}
}

func TestRangesWithinRawZstdBlocksArePlacesInTheFile(t *testing.T) {
	long := func(c byte) []byte { return bytes.Repeat([]byte{c, c + 1}, 50) }
	contents := [][]byte{long('a'), bytes.Repeat([]byte("z"), 300), long('c'), long('e'), long('g')}
	whole := bytes.Join(contents, nil)
	stored := zstdFrame(len(whole), []byte{0, 1, 0, 0, 0}, contents)
	z, err := ReadWhole(blocks.Zstd, bytes.NewReader(stored), int64(len(stored)), blocks.MostBytes)
	require.NoError(t, err)
	require.Equal(t, whole, z.Data)
	count := map[bool]int{}
	for at := range whole {
		for length := int64(0); length <= int64(len(whole)-at); length += 37 {
			offset, block := z.Place(int64(at), length)
			count[block == nil]++
			if block == nil {
				require.Equal(t, whole[at:at+int(length)], stored[offset:offset+length])
				continue
			}
			require.LessOrEqual(t, offset+length, block.Size)
			if block.Codec == z.Block().Codec {
				require.Equal(t, int64(at), offset)
				continue
			}
			require.GreaterOrEqual(t, at, 400, "behind the compressed block")
			require.Equal(t, block.Size, int64(len(whole))-(int64(at)-offset)-trailing(z, at+int(length)))
		}
	}
	require.Positive(t, count[true])
	require.Positive(t, count[false])
}

// trailing is how many bytes come after the raw block that a range ends in.
func trailing(z *WholeFile, end int) int64 {
	for _, p := range z.raw {
		if int64(end) <= p.at+p.length {
			return int64(len(z.Data)) - p.at - p.length
		}
	}
	return 0
}

func TestMalformedZstdFramesAreErrorsAndFramesWithoutALengthAreDecoded(t *testing.T) {
	content := bytes.Repeat([]byte("ab"), 50)
	stored := zstdFrame(len(content), []byte{0}, [][]byte{content})
	for cut := range stored {
		_, err := ReadWhole(blocks.Zstd, bytes.NewReader(stored[:cut]), int64(cut), blocks.MostBytes)
		require.ErrorIs(t, err, ErrBad, cut)
	}
	for size, want := range map[uint32]error{99: ErrBad, 101: ErrBad, 1 << 31: ErrLimit} {
		binary.LittleEndian.PutUint32(stored[5:], size)
		_, err := ReadWhole(blocks.Zstd, bytes.NewReader(stored), int64(len(stored)), blocks.MostBytes)
		require.ErrorIs(t, err, want)
	}
	unsaid := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00}, stored[9:]...) // a window of 1 kB and no size
	z, err := ReadWhole(blocks.Zstd, bytes.NewReader(unsaid), int64(len(unsaid)), blocks.MostBytes)
	require.NoError(t, err)
	require.Equal(t, content, z.Data)
}

// Each raw block equals the zeros of the data up to its last byte, so each comparison takes long.
func TestTheSearchForRawZstdBlocksStopsAtItsBudget(t *testing.T) {
	data, part := make([]byte, 8<<20), append(make([]byte, 1000), 1)
	budget := 4 * int64(len(data))
	for range 10_000 {
		require.Equal(t, int64(-1), placeOf(data, part, 0, 4<<20, &budget))
	}
	require.Negative(t, budget)
}
