package blocks

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each block of random shape is cut into tiles, of which some were never written and have the fill value.
func TestTilesOfAnyShapeAreAssembledIntoTheirBlock(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		tiles := &Tiles{}
		for axis := range tiles.Shape {
			tiles.Shape[axis] = 1 + random.Int64N(7)
			tiles.Chunk[axis] = 1 + random.Int64N(8)
		}
		tiles.Chunk[0] = tiles.Shape[0] + random.Int64N(3)
		shape, chunk := tiles.Shape, tiles.Chunk
		block := make([]byte, tiles.Size())
		for i := range block {
			block[i] = byte(random.Uint32())
		}
		var stored [][]byte
		for y := int64(0); y < shape[1]; y += chunk[1] {
			for x := int64(0); x < shape[2]; x += chunk[2] {
				for c := int64(0); c < shape[3]; c += chunk[3] {
					part := Block{Offset: int64(len(stored)), Stored: uint32(volume(chunk)), Size: uint32(volume(chunk)), Codec: Plain}
					filled := random.IntN(4) == 0
					if filled {
						part.Codec, part.Stored = Fill, 0
					}
					data := make([]byte, part.Size)
					for n := range shape[0] {
						for j := range min(chunk[1], shape[1]-y) {
							for i := range min(chunk[2], shape[2]-x) {
								for k := range min(chunk[3], shape[3]-c) {
									from := &block[((n*shape[1]+y+j)*shape[2]+x+i)*shape[3]+c+k]
									if filled {
										*from = byte(part.Offset)
									}
									data[((n*chunk[1]+j)*chunk[2]+i)*chunk[3]+k] = *from
								}
							}
						}
					}
					tiles.Parts, stored = append(tiles.Parts, part), append(stored, data)
				}
			}
		}
		require.NoError(t, tiles.Check())
		named := Block{Size: uint32(len(block)), Codec: Tiled}
		from := random.IntN(len(block))
		to := make([]byte, len(block)-from)
		cache := NewCache(Limits{Cached: 1 << 20})
		require.NoError(t, cache.CopyTiled(to, int64(from), named, tiles, func(b Block) ([]byte, error) { return stored[b.Offset], nil }))
		require.Equal(t, block[from:], to, "%v of %v", chunk, shape)
		require.Error(t, cache.CopyTiled(to, int64(from)+1, named, tiles, nil), "beyond its end")
	}
}

func TestTilesThatDoNotFillTheirBlockAreRefused(t *testing.T) {
	good := func() *Tiles {
		part := Block{Stored: 12, Size: 12, Codec: Plain}
		return &Tiles{Shape: [4]int64{2, 4, 3, 1}, Chunk: [4]int64{2, 2, 3, 1}, Parts: []Block{part, part}}
	}
	require.NoError(t, good().Check())
	for name, change := range map[string]func(*Tiles){
		"one too many":           func(x *Tiles) { x.Parts = append(x.Parts, x.Parts[0]) },
		"one too few":            func(x *Tiles) { x.Parts = x.Parts[:1] },
		"more rows than tiles":   func(x *Tiles) { x.Shape[0] = 3 },
		"nothing":                func(x *Tiles) { x.Shape[2] = 0 },
		"a negative step":        func(x *Tiles) { x.Chunk[1] = -2 },
		"a size that overflows":  func(x *Tiles) { x.Chunk[0], x.Chunk[1], x.Chunk[2] = 1<<28, 1<<28, 1<<28 },
		"a block over the limit": func(x *Tiles) { x.Shape[3], x.Chunk[3] = MostBytes/10, MostBytes/10 },
		"another size":           func(x *Tiles) { x.Parts[1].Size = 11 },
		"tiles of tiles":         func(x *Tiles) { x.Parts[1].Codec = Tiled },
		"too many tiles":         func(x *Tiles) { x.Shape[1], x.Shape[2], x.Chunk = 1<<28, 1<<28, [4]int64{2, 1, 1, 1} },
		"an unknown codec":       func(x *Tiles) { x.Parts[0].Codec = codecs },
	} {
		tiles := good()
		change(tiles)
		require.Error(t, tiles.Check(), name)
	}
	require.False(t, Known(Tiled), "no index may have tiles of tiles")
	require.False(t, Known(Fill))
}
