package catalog

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
)

// tiled is an array of 10 images of 4 x 5 x 3 in two blocks of four chunks of 72 bytes, of which one was never written.
func tiled(t *testing.T) *ArrayConfig {
	c := arrayFile(t, 600)
	for number, rows := range []int64{6, 4} {
		tiles := &TilesConfig{Shape: []int64{rows, 4, 5, 3}, Chunk: []int64{6, 2, 3, 3}}
		for i := range int64(4) {
			tiles.Chunks = append(tiles.Chunks, ChunkConfig{Offset: 70 * (i + 4*int64(number)), Stored: 70, Size: 108, Codec: "zstd"})
		}
		tiles.Chunks[0] = ChunkConfig{Size: 108, Codec: "fill", Fill: 9}
		c.Stretches = append(c.Stretches[:number:number], Stretch{Stride: 60, Rows: rows, Tiles: tiles})
	}
	return c
}

func TestImagesSplitIntoTilesLieInTheBlockThatTheTilesMake(t *testing.T) {
	d, err := FromArrays(tiled(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	both, err := Concat([]*Dataset{d, d}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Release()
	defer d.Release()
	for i := range int64(20) {
		s, err := both.Sample(i)
		inside, block := i%10, int64(0)
		if inside >= 6 {
			inside, block = inside-6, 1
		}
		expected := BlockPlace{Stored: 70, Size: uint32(360 - 120*block), Inner: uint32(60 * inside), Codec: blocks.Tiled}
		if err != nil || s.Block != expected || s.Offset != 70+280*block || int64(s.Shard) != i/10 || s.Length != 60 {
			t.Errorf("sample %d is %+v, %v (expected %+v)", i, s, err, expected)
		}
		tiles, first := both.Tiles(i)
		if len(tiles.Parts) != 4 || int64(first) != i/10 || tiles.Parts[0].Codec != blocks.Fill || tiles.Parts[0].Offset != 9 {
			t.Errorf("sample %d is made of %+v from shard %d on", i, tiles, first)
		}
	}
	if count, bytes, rows := d.Chunks(); count != 2 || bytes != 600 || rows != 10 {
		t.Errorf("%d blocks of %d bytes and %d images", count, bytes, rows)
	}
	if tiles, _ := d.Tiles(10); tiles != nil {
		t.Error("a sample outside the dataset has tiles")
	}
}

// Whatever number of the tiles is wrong, no chunk lies outside its file, and no image outside its block.
func TestNoNumberOfTilesLeadsOutsideTheFileOrTheBlock(t *testing.T) {
	extremes := []int64{math.MinInt64, -1 << 32, -60, -1, 0, 1, 2, 3, 4, 5, 6, 60, 70, 108, 530, 531, 600, 1 << 24, 1 << 28, 1<<28 + 1, 1 << 32, math.MaxInt64}
	random := rand.New(rand.NewPCG(3, 4))
	opened := 0
	for range 3_000 {
		c := tiled(t)
		s := &c.Stretches[random.IntN(2)]
		chunk := &s.Tiles.Chunks[1+random.IntN(3)]
		fields := []*int64{&chunk.Offset, &chunk.Stored, &chunk.Size, &chunk.File, &s.Offset, &s.Stride, &s.Rows, &s.Tiles.Shape[random.IntN(4)], &s.Tiles.Chunk[random.IntN(4)]}
		for range 1 + random.IntN(2) {
			*fields[random.IntN(len(fields))] = extremes[random.IntN(len(extremes))]
		}
		d, err := FromArrays(c, nil, nil)
		if err != nil {
			if fault.KindOf(err) == fault.KindInternal {
				t.Fatalf("%+v: %v", c, err)
			}
			continue
		}
		opened++
		for _, i := range []int64{0, d.Len() - 1} {
			found, err := d.Sample(i)
			if b := found.Block; err != nil || int64(b.Inner) > int64(b.Size)-found.Length {
				t.Fatalf("%+v: sample %d is %+v, %v", c, i, found, err)
			}
			tiles, _ := d.Tiles(i)
			for _, part := range tiles.Parts {
				if part.Codec != blocks.Fill && (part.Offset < 0 || part.Offset > 600-int64(part.Stored)) {
					t.Fatalf("%+v: a chunk is %+v", c, part)
				}
			}
		}
		d.Release()
	}
	if opened < 100 {
		t.Errorf("only %d of the configurations were good, too few to show anything", opened)
	}
}
