package blocks

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// interrupted returns the parts of a value as each codec stores them, with bytes of its own between them.
func interrupted(parts ...[]byte) map[uint8][]byte {
	var records, raw []byte
	for i, part := range parts {
		flag := uint32(2)
		if i == 0 {
			flag = 1
		} else if i == len(parts)-1 {
			flag = 3
		}
		records = append(records, make([]byte, -len(records)&3)...)
		records = binary.LittleEndian.AppendUint32(records, RecordIOMagic)
		records = binary.LittleEndian.AppendUint32(records, flag<<recordIOBits|uint32(len(part)))
		records = append(records, part...)
		raw = append(raw, byte(len(part)<<3), byte(len(part)>>5), byte(len(part)>>13))
		raw = append(raw, part...)
	}
	return map[uint8][]byte{RecordIO: records, ZstdRaw: raw}
}

func TestPartsAreJoinedInAnyRangeOfBytes(t *testing.T) {
	parts := [][]byte{[]byte("one"), []byte("three"), nil, []byte("four")}
	magic := string(binary.LittleEndian.AppendUint32(nil, RecordIOMagic))
	whole := map[uint8]string{ZstdRaw: "onethreefour", RecordIO: "one" + magic + "three" + magic + magic + "four"}
	for codec, from := range interrupted(parts...) {
		want := whole[codec]
		require.True(t, Interrupted(codec) && Known(codec))
		c := NewCache(Limits{Cached: 1})
		for begin := range want {
			for end := begin; end <= len(want); end++ {
				to := make([]byte, end-begin)
				b := Block{Stored: uint32(len(from)), Size: uint32(len(want)), Codec: codec}
				require.NoError(t, c.Copy(to, int64(begin), b, func() ([]byte, error) { return from, nil }))
				require.Equal(t, want[begin:end], string(to))
			}
		}
		require.Zero(t, c.Decoded(), "parts that are joined are not cached")
		to := make([]byte, len(want))
		require.NoError(t, Decode(codec, to, from))
		require.Equal(t, want, string(to))
	}
}

func TestMalformedPartsAndPartsOfAnotherTotalLengthAreErrors(t *testing.T) {
	var malformed *MalformedError
	for codec, from := range interrupted([]byte("one"), []byte("three")) {
		for cut := range from {
			require.Error(t, Decode(codec, make([]byte, len("onethree")+map[uint8]int{RecordIO: 4}[codec]), from[:cut]))
		}
		b := Block{Stored: uint32(len(from)), Size: 100, Codec: codec}
		require.ErrorAs(t, NewCache(Limits{Cached: 1}).Copy(make([]byte, 1), 0, b, func() ([]byte, error) { return from, nil }), &malformed)
		from[0] ^= 2 // another magic, or a block that is compressed
		require.ErrorAs(t, NewCache(Limits{Cached: 1}).Copy(make([]byte, 1), 0, b, func() ([]byte, error) { return from, nil }), &malformed)
		gone := errors.New("the disk")
		require.ErrorIs(t, NewCache(Limits{Cached: 1}).Copy(make([]byte, 1), 0, b, func() ([]byte, error) { return nil, gone }), gone)
	}
}
