package labels

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/native"
)

// projection maps a place in the image before a warp to the place after it.
type projection struct {
	x, y  [3]float32
	depth [3]float32 // 0, 0, 1 for an affine map
}

// Each product is converted to float32 by itself, here and in the whole package. Otherwise Go may fuse it with the sum
// ("Arithmetic operators" of its specification), and the last bit would differ from torch's.
func (m *projection) at(x, y float32) (float32, float32) {
	along := func(row *[3]float32) float32 {
		return float32(float32(x*row[0])+float32(y*row[1])) + row[2]
	}
	depth := along(&m.depth)
	return along(&m.x) / depth, along(&m.y) / depth
}

// affineOf inverts a map: images are warped from output to input, places the other way.
func affineOf(p *[6]float64) (projection, error) {
	// This is computed in double precision, as in Python; only the result becomes single.
	determinant := p[0]*p[4] - p[1]*p[3]
	a, b, c, d := p[4]/determinant, -p[1]/determinant, -p[3]/determinant, p[0]/determinant
	m := projection{
		x:     [3]float32{float32(a), float32(b), float32(-(a*p[2] + b*p[5]))},
		y:     [3]float32{float32(c), float32(d), float32(-(c*p[2] + d*p[5]))},
		depth: [3]float32{0, 0, 1},
	}
	return m, m.check(determinant)
}

// perspectiveOf does what torchvision's _compute_perspective_thetas does.
func perspectiveOf(p *[8]float64) (projection, error) {
	denominator := p[0]*p[4] - p[1]*p[3]
	over := func(n float64) float32 { return float32(n / denominator) }
	m := projection{
		x:     [3]float32{over(p[4] - p[5]*p[7]), over(-p[1] + p[2]*p[7]), over(p[1]*p[5] - p[2]*p[4])},
		y:     [3]float32{over(-p[3] + p[5]*p[6]), over(p[0] - p[2]*p[6]), over(-p[0]*p[5] + p[2]*p[3])},
		depth: [3]float32{over(-p[4]*p[6] + p[3]*p[7]), over(-p[0]*p[7] + p[1]*p[6]), 1},
	}
	return m, m.check(denominator)
}

func (m *projection) check(determinant float64) error {
	if determinant == 0 || math.IsNaN(determinant) {
		return fmt.Errorf("labels do not move with a warp that leaves no area")
	}
	return nil
}

// turnOf returns the map of a warp. If the warp sets its own size, the map is shifted so that the turned image begins
// at 0.
func turnOf(op *native.AffineMap, before canvas) (projection, error) {
	m, err := affineOf(&op.Coefficients)
	if err == nil && op.Width > 0 {
		// The image grows so that all four corners are in it (expand=True).
		left, top := float32(math.Inf(1)), float32(math.Inf(1))
		for _, corner := range [4][2]float32{{0, 0}, {before.width, 0}, {0, before.height}, {before.width, before.height}} {
			x, y := m.at(corner[0], corner[1])
			left, top = min(left, x), min(top, y)
		}
		m.x[2] -= left
		m.y[2] -= top
	}
	return m, err
}
