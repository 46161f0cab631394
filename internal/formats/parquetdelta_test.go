package formats

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	oracle "github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/stretchr/testify/require"
)

// deltaNumbers reads all numbers that are left.
func deltaNumbers(d *delta) (all []int64, err error) {
	for d.left > 0 {
		n, err := d.next()
		if err != nil {
			return all, err
		}
		all = append(all, n)
	}
	return all, nil
}

func TestDeltaEncodedNumbersDecodeToWhatTheWriterEncoded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, count := range []int{0, 1, 2, 32, 33, 128, 129, 1000} {
		for bits := 0; bits <= 64; bits++ {
			want := make([]int64, count)
			for i := range want {
				want[i] = int64(r.Uint64() >> (64 - bits)) // a shift by 64 gives 0
			}
			if count > 2 && bits == 64 {
				want[1], want[2] = math.MinInt64, math.MaxInt64
			}
			data, err := new(oracle.BinaryPackedEncoding).EncodeInt64(nil, want)
			require.NoError(t, err)
			d, behind, err := newDelta(append(data, "behind"...), int64(count), false)
			require.NoError(t, err)
			require.Equal(t, "behind", string(behind))
			found, err := deltaNumbers(d)
			require.NoError(t, err)
			require.Equal(t, count, len(found))
			if count > 0 {
				require.Equal(t, want, found)
			}
			_, err = d.next()
			require.ErrorIs(t, err, ErrBad)
		}
	}
}

func TestTruncatedDeltaEncodedNumbersAreAnErrorBeforeAnyIsRead(t *testing.T) {
	data, err := new(oracle.BinaryPackedEncoding).EncodeInt64(nil, []int64{1, 1 << 40, 3, 4, 5})
	require.NoError(t, err)
	for end := range data {
		_, _, err := newDelta(data[:end], 5, false)
		require.ErrorIs(t, err, ErrBad, end)
	}
	// Without the last miniblock's padding, which some writers leave out at the end of a page.
	cut := data[:len(data)-20]
	d, _, err := newDelta(cut, 5, true)
	require.NoError(t, err)
	found, err := deltaNumbers(d)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1 << 40, 3, 4, 5}, found)
}

func TestImpossibleHeadersOfDeltaEncodedNumbersAreErrors(t *testing.T) {
	for name, head := range map[string][4]uint64{
		"more numbers than the page has values": {128, 4, 11, 0},
		"no miniblock":                          {128, 0, 5, 0},
		"a block of no whole miniblocks":        {128, 3, 5, 0},
		"no number in a block":                  {0, 4, 5, 0},
		"a block of 2^63":                       {1 << 63, 1 << 62, 5, 0},
		"as many miniblocks as numbers":         {1 << 30, 1 << 30, 5, 0},
	} {
		var data []byte
		for _, v := range head {
			data = binary.AppendUvarint(data, v)
		}
		_, _, err := newDelta(append(data, make([]byte, 1000)...), 10, false)
		require.ErrorIs(t, err, ErrBad, name)
	}
	data := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), 5), 0)
	_, _, err := newDelta(append(append(data, 0, 65, 0, 0, 0), make([]byte, 1000)...), 10, false)
	require.ErrorContains(t, err, "numbers of 65 bits")
}

func FuzzAnyBytesAsDifferences(f *testing.F) {
	data, err := new(oracle.BinaryPackedEncoding).EncodeInt64(nil, []int64{1, 1 << 40, 3, 4, 5})
	require.NoError(f, err)
	f.Add(data, true)
	f.Fuzz(func(t *testing.T, data []byte, alone bool) {
		const most = 1 << 16
		d, behind, err := newDelta(data, most, alone)
		if err != nil {
			require.ErrorIs(t, err, ErrBad)
			return
		}
		require.LessOrEqual(t, len(behind), len(data))
		require.LessOrEqual(t, d.left, int64(most))
		_, err = deltaNumbers(d)
		require.NoError(t, err, "what was walked can be read")
	})
}
