package labels

import (
	"math"

	"github.com/headrace/headrace/native"
)

// displace moves boxes and points by elastic displacements, as torchvision's elastic_bounding_boxes and
// elastic_keypoints do (0.29). A corner or point moves against the displacement of the pixel in which it lies, because
// images look up where their pixels come from. For a rotated box, its middle moves.
func (r *Rule) displace(values []float32, op native.FixedElastic, width, height int32, c canvas) error {
	var failed error
	at := func(x, y float32) (float32, float32) {
		column, row := pixelOf(x, width), pixelOf(y, height)
		d, err := op.DisplacementAt(width, height, column, row)
		if err != nil && failed == nil {
			failed = err
		}
		return movedTo(d[0], column, width), movedTo(d[1], row, height)
	}
	if r.rotated() {
		for width := r.Width(); len(values) >= width; values = values[width:] {
			r.displaceRotated(values[:width], c, at)
		}
		return failed
	}
	r.each(values, nil, func(b box) box {
		b = r.Format.corners(b)
		found := box{float32(math.Inf(1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Inf(-1))}
		for _, corner := range [4][2]float32{{b[0], b[1]}, {b[2], b[1]}, {b[2], b[3]}, {b[0], b[3]}} {
			x, y := at(ceil(corner[0]), ceil(corner[1]))
			found = box{min(found[0], x), min(found[1], y), max(found[2], x), max(found[3], y)}
		}
		if r.Clamp {
			found = XYXY.clamped(found, c)
		}
		return r.Format.of(found)
	}, at)
	return failed
}

func (r *Rule) displaceRotated(row []float32, c canvas, at func(x, y float32) (float32, float32)) {
	var b [5]float32
	if r.Format == CXCYWHR {
		copy(b[:], row)
	} else {
		CXCYWHR.put(b[:], r.Format.quad(row))
	}
	b[0], b[1] = at(ceil(b[0]), ceil(b[1]))
	if r.Clamp {
		CXCYWHR.put(b[:], r.clampedQuad(CXCYWHR.quad(b[:]), c))
	}
	if r.Format == CXCYWHR {
		copy(row, b[:])
	} else {
		r.Format.put(row, CXCYWHR.quad(b[:]))
	}
}

// movedTo returns where a pixel's place goes. torch counts places from -1 to 1; this does the same operations in the
// same order.
func movedTo(displacement float32, at, length int32) float32 {
	moved := native.IdentityGrid(at, length) - displacement + 1
	return float32(moved*float32(0.5*float32(length))) - 0.5
}

func ceil(n float32) float32 { return float32(math.Ceil(float64(n))) }

// pixelOf returns the pixel at a place on one axis; for a place outside, the pixel at the edge.
func pixelOf(at float32, length int32) int32 {
	return int32(min(max(at, 0), float32(length-1)))
}
