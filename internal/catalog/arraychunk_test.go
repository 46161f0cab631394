package catalog

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
)

// chunked is an array of 10 images of 60 bytes in two chunks of a file of 500 bytes.
func chunked(t *testing.T) *ArrayConfig {
	c := arrayFile(t, 500)
	c.Stretches = []Stretch{
		{Stride: 60, Rows: 6, Chunk: &ChunkConfig{Offset: 100, Stored: 200, Size: 360, Codec: "zstd"}},
		{Stride: 60, Rows: 4, Chunk: &ChunkConfig{Offset: 300, Stored: 200, Size: 360, Codec: "plain", Sum: "crc32c"}},
	}
	return c
}

func TestImagesOfACompressedChunkLieInItsBlock(t *testing.T) {
	d, err := FromArrays(chunked(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	for i, expected := range []blocks.Block{{Offset: 100, Stored: 200, Size: 360, Codec: blocks.Zstd}, {Offset: 300, Stored: 200, Size: 360, Codec: blocks.Plain | blocks.CRC32C}} {
		s, err := d.Sample(int64(5 + i))
		if err != nil || s.InBlock() != expected || s.Length != 60 || s.Block.Inner != uint32(300*(1-i)) {
			t.Errorf("%+v, %v (expected %+v)", s, err, expected)
		}
	}
	if count, bytes, rows := d.Chunks(); count != 2 || bytes != 720 || rows != 10 {
		t.Errorf("%d chunks of %d bytes and %d images", count, bytes, rows)
	}
}

func TestAChunkOverTheLimitForBlocksIsRefused(t *testing.T) {
	for _, change := range []func(*ChunkConfig){
		func(c *ChunkConfig) { c.Size = blocks.MostBytes + 1 },
		func(c *ChunkConfig) { c.Stored = math.MaxInt64 },
	} {
		c := chunked(t)
		change(c.Stretches[1].Chunk)
		if _, err := FromArrays(c, nil, nil); fault.KindOf(err) != fault.KindLimit {
			t.Errorf("%v", err)
		}
	}
}

func TestNoNumberOfAChunkLeadsOutsideItsFileOrItsDecodedBytes(t *testing.T) {
	extremes := []int64{math.MinInt64, -1, 0, 1, 59, 60, 61, 200, 300, 301, 359, 360, 361, 500, 1 << 28, 1<<28 + 1, 1 << 32, 1 << 62, math.MaxInt64}
	random := rand.New(rand.NewPCG(5, 6))
	base, opened := chunked(t), 0
	for range 4_000 {
		c, s := *base, base.Stretches[1]
		chunk := *s.Chunk
		s.Chunk = &chunk
		fields := []*int64{&chunk.Offset, &chunk.Stored, &chunk.Size, &s.Offset, &s.Stride, &s.Rows}
		for range 1 + random.IntN(2) {
			*fields[random.IntN(len(fields))] = extremes[random.IntN(len(extremes))]
		}
		c.Stretches = []Stretch{s}
		d, err := FromArrays(&c, nil, nil)
		if err != nil {
			if fault.KindOf(err) == fault.KindInternal {
				t.Fatalf("%+v: %v", c, err)
			}
			continue
		}
		opened++
		for _, i := range []int64{0, d.Len() - 1} {
			found, err := d.Sample(i)
			b := found.Block
			if err != nil || found.Offset < 0 || found.Offset > 500-found.Stored() || int64(b.Inner) > int64(b.Size)-found.Length {
				t.Fatalf("%+v: sample %d is %+v, %v", c, i, found, err)
			}
		}
		d.Release()
	}
	if opened < 50 {
		t.Errorf("only %d of the configurations were good, too few to show anything", opened)
	}
}
