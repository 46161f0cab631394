package blocks

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chunks returns the chunks that testdata/make.py wrote, by their names, each with its codec and decoded data.
func chunks(t testing.TB) map[string]struct {
	codec        uint8
	stored, data []byte
} {
	t.Helper()
	found := make(map[string]struct {
		codec        uint8
		stored, data []byte
	})
	paths, err := filepath.Glob("testdata/*.6*")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	codecs := map[string]uint8{"zlib": Zlib, "plain": Plain, "pieces": LZ4Pieces, "zstd": Zstd, "sized": LZ4Sized, "blosc": Blosc}
	for _, path := range paths {
		name, count, _ := strings.Cut(filepath.Base(path), ".")
		codec := codecs[strings.Split(name, "-")[0]]
		if strings.HasSuffix(name, "fletcher32") {
			codec |= Fletcher32
		}
		stored, err := os.ReadFile(path)
		require.NoError(t, err)
		n, err := strconv.Atoi(count)
		require.NoError(t, err)
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i/7 ^ i%3)
		}
		c := found[name+"."+count]
		c.codec, c.stored, c.data = codec, stored, data
		found[name+"."+count] = c
	}
	return found
}

func TestChunksThatHDF5AndNumcodecsWroteDecodeToTheirValues(t *testing.T) {
	for name, c := range chunks(t) {
		require.True(t, Known(c.codec), name)
		to := make([]byte, len(c.data))
		require.NoError(t, Decode(c.codec, to, c.stored), name)
		require.Equal(t, c.data, to, name)
		for _, length := range []int{0, len(c.data) - 1, len(c.data) + 1} {
			require.Error(t, Decode(c.codec, make([]byte, length), c.stored), name)
		}
		for cut := range len(c.stored) {
			require.Error(t, Decode(c.codec, to, c.stored[:cut]), "%s: %d", name, cut)
		}
	}
}

func TestAChangedByteOfAChunkWithAChecksumIsAnError(t *testing.T) {
	c := chunks(t)["plain-fletcher32.6000"]
	to := make([]byte, len(c.data))
	for i := range c.stored {
		c.stored[i] ^= 0x10
		require.ErrorContains(t, Decode(c.codec, to, c.stored), "the sum of the block differs")
		c.stored[i] ^= 0x10
	}
	data := []byte("as in RFC 3720: 123456789")
	stored := binary.LittleEndian.AppendUint32([]byte("123456789"), 0xE3069283)
	require.NoError(t, Decode(Plain|CRC32C, data[16:], stored))
	require.Equal(t, "123456789", string(data[16:]))
	require.False(t, Known(Plain), "plain bytes without a checksum are no block")
	require.False(t, Known(Zlib|CRC32C|Fletcher32))
}

func TestABloscFrameOfAnUnsupportedKindIsRefused(t *testing.T) {
	good := chunks(t)["blosc-lz4-0.6000"]
	for at, value := range map[int]byte{0: 3, 2: 0, 3: 4} { // the version, BloscLZ, the size of a value
		stored := append([]byte(nil), good.stored...)
		stored[at] = value
		require.ErrorIs(t, Decode(Blosc, make([]byte, 6000), stored), ErrUnknown)
	}
}

// A chunk of any bytes decodes or is an error, and takes only as much memory as it may.
func TestMutatedChunksDecodeOrAreErrorsInBoundedMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, c := range chunks(t) {
		to := make([]byte, len(c.data))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 600 {
			stored := append([]byte(nil), c.stored...)
			for range 1 + random.IntN(4) {
				at := random.IntN(len(stored))
				if random.IntN(2) == 0 {
					at = random.IntN(min(len(stored), 32)) // headers
				}
				stored[at] = byte([]int{0, 1, 127, 128, 255, random.IntN(256)}[random.IntN(6)])
			}
			_ = Decode(c.codec, to, stored[:len(stored)-random.IntN(2)*random.IntN(len(stored))])
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20), name)
	}
	require.False(t, errors.Is(Decode(Blosc, nil, nil), ErrUnknown))
}
