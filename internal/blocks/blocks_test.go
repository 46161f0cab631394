package blocks

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// stored is data as each codec's own writer compresses it.
func stored(t testing.TB, data []byte) map[uint8][]byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	var framed bytes.Buffer
	l := lz4.NewWriter(&framed)
	_, err = l.Write(data)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	var deflated bytes.Buffer
	d, err := flate.NewWriter(&deflated, flate.BestSpeed)
	require.NoError(t, err)
	_, err = d.Write(data)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	packed := make([]byte, lz4.CompressBlockBound(len(data)))
	n, err := lz4.CompressBlock(data, packed, nil)
	require.NoError(t, err)
	var brotlied bytes.Buffer
	x := brotli.NewWriterLevel(&brotlied, 1)
	_, err = x.Write(data)
	require.NoError(t, err)
	require.NoError(t, x.Close())
	all := map[uint8][]byte{Snappy: snappy.Encode(nil, data), Gzip: b.Bytes(), Zstd: z.EncodeAll(data, nil), LZ4Frame: framed.Bytes(), Deflate: deflated.Bytes(),
		Brotli: brotlied.Bytes()}
	if n > 0 { // 0 if the data cannot be compressed
		all[LZ4] = packed[:n]
	}
	return all
}

func TestABlockDecodesToTheBytesThatWereCompressed(t *testing.T) {
	for _, data := range [][]byte{[]byte("a"), bytes.Repeat([]byte("four"), 100_000)} {
		for codec, from := range stored(t, data) {
			to := make([]byte, len(data))
			require.NoError(t, Decode(codec, to, from))
			require.Equal(t, data, to)
			require.True(t, Known(codec))
		}
	}
	require.Error(t, Decode(codecs, make([]byte, 1), []byte("a")))
}

func TestTheDecodedLengthOfABlockIsFoundIfItsFormatAllows(t *testing.T) {
	data := bytes.Repeat([]byte("four"), 100_000)
	for codec, from := range stored(t, data) {
		if codec == LZ4 || codec == LZ4Frame || codec == Deflate {
			_, err := Length(codec, from, MostBytes)
			require.Error(t, err)
			continue
		}
		length, err := Length(codec, from, MostBytes)
		require.NoError(t, err, codec)
		require.Equal(t, int64(len(data)), length)
		if codec != Snappy {
			_, err = Length(codec, from[:len(from)/2], MostBytes)
			require.Error(t, err, codec)
		}
	}
}

func TestABlockOfAnotherDecodedLengthThanItsContainerSaysIsAnError(t *testing.T) {
	data := bytes.Repeat([]byte("four"), 100)
	for codec, from := range stored(t, data) {
		for _, length := range []int{0, 1, len(data) - 1, len(data) + 1, 2 * len(data)} {
			require.Error(t, Decode(codec, make([]byte, length), from), "%d: %d", codec, length)
		}
		for cut := range len(from) {
			to := make([]byte, len(data))
			if err := Decode(codec, to, from[:cut]); err == nil { // a frame of LZ4 ends with a mark and a checksum
				require.Equal(t, LZ4Frame, codec, cut)
				require.Equal(t, data, to)
			}
		}
	}
}

func TestADecompressionBombIsAnErrorAndTakesLittleMemory(t *testing.T) {
	size := 512 << 20
	if testing.Short() {
		size = 64 << 20 // still twice the memory that may be taken
	}
	bombs := stored(t, make([]byte, size))
	for codec, from := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Error(t, Decode(codec, make([]byte, 1000), from), codec)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), codec)
	}
}

func FuzzAnyBytesAsABlock(f *testing.F) {
	for codec, from := range stored(f, bytes.Repeat([]byte("four"), 1000)) {
		f.Add(codec, from, uint16(4000))
	}
	for codec, from := range interrupted([]byte("one"), []byte("three"), nil, []byte("four")) {
		f.Add(codec, from, uint16(24))
	}
	f.Fuzz(func(t *testing.T, codec uint8, from []byte, size uint16) {
		_ = Decode(codec, make([]byte, size), from)
		if Interrupted(codec) {
			_ = join(codec, make([]byte, size/2), int64(size/3), int64(size), from)
		}
	})
}

func TestABlockThatManyThreadsAskForIsDecodedOnce(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 1000)
	from := stored(t, data)[Zstd]
	c := NewCache(Limits{Cached: 1 << 20})
	var fetched atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			to := make([]byte, 10)
			err := c.Copy(to, int64(10*i), Block{Stored: uint32(len(from)), Size: uint32(len(data)), Codec: Zstd}, func() ([]byte, error) {
				fetched.Add(1)
				return from, nil
			})
			if err != nil || string(to) != "0123456789" {
				t.Errorf("%q: %v", to, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(1), fetched.Load())
}

func TestTheCacheStaysWithinItsBoundAndKeepsTheBlocksUsedLast(t *testing.T) {
	data := make([]byte, 1000)
	from := stored(t, data)[Snappy]
	c := NewCache(Limits{Cached: 3000})
	ask := func(n int) {
		err := c.Copy(make([]byte, 1), 999, Block{Offset: int64(n), Stored: uint32(len(from)), Size: 1000, Codec: Snappy}, func() ([]byte, error) { return from, nil })
		require.NoError(t, err)
		require.LessOrEqual(t, c.used, int64(3000))
	}
	for _, n := range []int{1, 2, 3, 1, 4, 1, 3} {
		ask(n)
	}
	require.Equal(t, int64(4), c.Decoded(), "block 2 was dropped for block 4")
	ask(2)
	require.Equal(t, int64(5), c.Decoded())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				_ = c.Copy(make([]byte, 1), 0, Block{Offset: int64(n*i) % 7, Stored: uint32(len(from)), Size: 1000, Codec: Snappy}, func() ([]byte, error) { return from, nil })
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, c.used, int64(3000))
	require.Len(t, c.entries, c.recent.Len())
}

func TestABlockThatCouldNotBeReadOrDecodedIsReadAgain(t *testing.T) {
	data := []byte("data")
	from := stored(t, data)[Snappy]
	c := NewCache(Limits{Cached: 3})
	b := Block{Stored: uint32(len(from)), Size: 4, Codec: Snappy}
	broken := errors.New("the disk")
	for _, length := range []int{3, 4} { // a part of the block, and all of it
		require.ErrorIs(t, c.Copy(make([]byte, length), 0, b, func() ([]byte, error) { return nil, broken }), broken)
		var malformed *MalformedError
		require.ErrorAs(t, c.Copy(make([]byte, length), 0, b, func() ([]byte, error) { return from[:3], nil }), &malformed)
		to := make([]byte, length)
		require.NoError(t, c.Copy(to, 0, b, func() ([]byte, error) { return from, nil }))
		require.Equal(t, data[:length], to)
	}
	require.Len(t, c.entries, 1, "a block of one sample is not kept")
	c = NewCache(Limits{Cached: 3})
	require.NoError(t, c.Copy(make([]byte, 4), 0, b, func() ([]byte, error) { return from, nil }))
	require.Empty(t, c.entries)
	to := make([]byte, 4)
	require.Error(t, c.Copy(to, 1, b, nil), "4 bytes from byte 1 are beyond the end of 4")
	b.Size = MostBytes + 1
	require.Error(t, c.Copy(to, 0, b, nil))
}

func TestAPanicWhileReadingABlockReachesItsCallerAndOtherCallersReadItAgain(t *testing.T) {
	data := []byte("data")
	from := stored(t, data)[Snappy]
	c := NewCache(Limits{Cached: 4})
	b := Block{Stored: uint32(len(from)), Size: 4, Codec: Snappy}
	reading, waits := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer func() {
			if found := recover(); found != "a page that went away" {
				t.Errorf("recovered %v", found)
			}
		}()
		_ = c.Copy(make([]byte, 3), 0, b, func() ([]byte, error) {
			close(reading)
			<-waits
			panic("a page that went away")
		})
	})
	<-reading
	all.Go(func() {
		to := make([]byte, 3)
		if err := c.Copy(to, 0, b, func() ([]byte, error) { return from, nil }); err != nil || !bytes.Equal(data[:3], to) {
			t.Errorf("%q: %v", to, err)
		}
	})
	for users := 0; users < 2; { // until the second one waits for the first
		runtime.Gosched()
		c.mu.Lock()
		users = c.entries[b].users
		c.mu.Unlock()
	}
	close(waits)
	all.Wait()
	require.Equal(t, int64(4), c.used)
	other := b
	other.Offset = 1
	require.NoError(t, c.Copy(make([]byte, 3), 0, other, func() ([]byte, error) { return from, nil }),
		"the first block can be dropped")
}

func TestABlockOverTheLimitIsRefusedBeforeItIsRead(t *testing.T) {
	data := make([]byte, 1000)
	from := stored(t, data)[Snappy]
	b := Block{Stored: uint32(len(from)), Size: 1000, Codec: Snappy}
	for limit, taken := range map[int64]bool{999: false, 1000: true} {
		read := false
		err := NewCache(Limits{Block: limit}).Copy(make([]byte, 10), 0, b, func() ([]byte, error) {
			read = true
			return from, nil
		})
		require.Equal(t, taken, read)
		if !taken {
			require.EqualError(t, err, "the block has 1000 bytes, max_block_bytes is 999")
		}
	}
	require.NoError(t, Limits{}.Check())
	require.NoError(t, Limits{Block: MostBytes, Cached: 1 << 62}.Check())
	require.EqualError(t, Limits{Block: MostBytes + 1}.Check(), "max_block_bytes is 268435457 (expected 1 to 268435456)")
	require.EqualError(t, Limits{Cached: -1}.Check(), "max_cached_bytes is -1 (expected at least 1)")
}

func TestAPreparedBlockIsDecodedOnceBeforeItsSamplesAreAskedFor(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 100)
	from := stored(t, data)[Snappy]
	block := func(n int) Block {
		return Block{Offset: int64(n), Stored: uint32(len(from)), Size: uint32(len(data)), Codec: Snappy}
	}
	fetch := func() ([]byte, error) { return from, nil }
	c := NewCache(Limits{Cached: 2 * int64(len(data))})
	require.True(t, c.Prepare(block(1), fetch))
	require.False(t, c.Prepare(block(1), fetch), "it is in the cache already")
	to := make([]byte, 5)
	require.NoError(t, c.Copy(to, 10, block(1), func() ([]byte, error) { return nil, errors.New("it is there") }))
	require.Equal(t, "01234", string(to))
	require.Equal(t, int64(1), c.Decoded())
	broken := errors.New("the disk")
	c.Prepare(block(2), func() ([]byte, error) { return nil, broken })
	require.ErrorIs(t, c.Copy(to, 10, block(2), func() ([]byte, error) { return nil, broken }), broken,
		"the error is that of the caller who asks for the block")
	require.NoError(t, c.Copy(to, 10, block(2), fetch))
	require.False(t, c.Prepare(Block{Size: 1, Codec: codecs}, fetch))
	require.LessOrEqual(t, c.used, c.limits.Cached)
}

// Blocks of several sizes reuse each other's memory.
func TestABlockDecodedIntoReusedMemoryHasItsOwnBytes(t *testing.T) {
	c := NewCache(Limits{Cached: 8 << 20})
	for n := range 60 {
		data := bytes.Repeat([]byte{byte(n)}, 2<<20+(n*7919)%(1<<20))
		from := snappy.Encode(nil, data)
		to := make([]byte, 1<<20)
		b := Block{Offset: int64(n), Stored: uint32(len(from)), Size: uint32(len(data)), Codec: Snappy}
		require.NoError(t, c.Copy(to, int64(len(data)-len(to)), b, func() ([]byte, error) { return from, nil }))
		require.Equal(t, data[:len(to)], to)
		require.LessOrEqual(t, c.used, int64(8<<20))
		held := int64(0)
		for _, e := range c.entries {
			held += int64(cap(e.data))
		}
		require.Equal(t, held, c.used, "the bytes counted are those that the cache holds")
	}
}
