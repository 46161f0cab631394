package labels

import "math"

// clampedQuad cuts a rotated box off at the edges of the image, as torchvision's _clamp_rotated_bounding_boxes (0.29)
// does. Soft clamping makes it the smallest box of the same angle around the part that lies inside. Hard clamping makes
// it the largest box that lies inside both box and image. Divisions by zero are intended: NaN decides between the cases
// here as it does in torchvision.
func (r *Rule) clampedQuad(q quad, c canvas) quad {
	whole := q
	// torchvision has the arithmetic for one edge only, and for each other edge it turns the box by a quarter.
	for range 4 {
		first := 2 * leftmost(q)
		q, whole = from(q, first), from(whole, first)
		q = clampedLeft(q, whole, c, r.Hard)
		// This does not turn back but repeats the same step, which gives torchvision's order of the corners.
		q, whole = from(q, first), from(whole, first)
		q, whole = quarter(q, c.width), quarter(whole, c.width)
		c = canvas{c.height, c.width}
	}
	return q
}

// leftmost returns the number of the corner that is farthest to the left; of several, the upper one.
func leftmost(q quad) int {
	var x, y float32
	for i := 0; i < 8; i += 2 {
		x, y = max(x, abs(q[i])), max(y, abs(q[i+1]))
	}
	best, found := 0, float32(0)
	for i := range 4 {
		weight := q[2*i+1]/y + float32(q[2*i]/x*100)
		// torch.argmin takes NaN for the least value, and returns its place.
		if weight != weight { // NaN, from a side that is all zeros
			return i
		}
		if i == 0 || weight < found {
			best, found = i, weight
		}
	}
	return best
}

// from returns the corners in order, beginning with corner first.
func from(q quad, first int) quad {
	var to quad
	for i := range to {
		to[i] = q[(first+i)%8]
	}
	return to
}

func quarter(q quad, width float32) quad {
	for i := 0; i < 8; i += 2 {
		q[i], q[i+1] = q[i+1], width-q[i]
	}
	return q
}

// lines returns the slopes of the four sides, and where each meets the left edge.
func lines(q quad) (slope, meets [4]float32) {
	for i := range 4 {
		next := (i + 1) % 4
		slope[i] = (q[2*next+1] - q[2*i+1]) / (q[2*next] - q[2*i])
		meets[i] = q[2*i+1] - float32(slope[i]*q[2*i])
	}
	return slope, meets
}

// within does what torch's clamp does. The result is NaN if one of the three values is, because Go's min and max are
// NaN if one of their arguments is, like torch's.
func within(value, low, high float32) float32 { return min(max(value, low), high) }

func clampedLeft(q, whole quad, c canvas, hard bool) quad {
	slope, b := lines(q)
	_, m := lines(whole)
	b[0], b[3] = within(within(b[1], b[0], b[2]), 0, c.height), within(within(b[2], b[1], b[3]), 0, c.height)
	if hard {
		b = narrowed(slope, b, c)
	}
	b[0], b[2] = within(b[0], m[0], m[2]), within(b[2], m[0], m[2])
	b[1], b[3] = within(b[1], m[1], m[3]), within(b[3], m[1], m[3])
	if hard { // torchvision's first and fourth share one tensor, to which both bounds are applied
		b[0] = within(b[0], m[1], m[3])
		b[3] = b[0]
	}

	close := func(i, j int) bool { return isClose(q[i], q[j]) }
	out := q[0] <= 0 && q[2] <= 0 && q[4] <= 0 && q[6] <= 0
	upright := close(1, 3) || close(5, 7)
	switch crossed := crossings(slope, b); {
	case out || close(1, 7) || close(3, 5) || upright && close(0, 2):
		return quad{}
	case upright:
		q[0], q[6] = max(q[0], 0), max(q[6], 0)
		return q
	case q[0] < 0 && crossed == crossed: // an array with NaN does not equal itself
		return crossed
	}
	return q
}

// narrowed returns the sides of the box that hard clamping leaves, by where each meets the left edge. The first and the
// fourth meet in its middle; the others lie as far out as the other edges let them.
func narrowed(a, b [4]float32, c canvas) [4]float32 {
	b[0] = (b[0] + b[3]) / 2
	b[3] = b[0]
	b[1] = min(max(
		float32(b[0]*a[1])/a[0],
		float32(b[2]*a[1])/a[2],
		float32((a[0]-a[1])*c.width)+b[0],
		float32((a[2]-a[1])*c.width)+b[2],
	), b[1])
	b[2] = max(min(
		float32(c.height*(1-a[2]/a[3]))+float32(b[3]*a[2])/a[3],
		float32(c.height*(1-a[2]/a[1]))+float32(b[1]*a[2])/a[1],
		float32((a[1]-a[2])*c.width)+b[1],
		float32((a[3]-a[2])*c.width)+b[3],
	), b[2])
	return b
}

// crossings returns where each side meets the one before it.
func crossings(slope, b [4]float32) quad {
	var q quad
	for i := range 4 {
		before := (i + 3) % 4
		x := -(b[i] - b[before]) / (slope[i] - slope[before])
		q[2*i], q[2*i+1] = x, float32(slope[i]*x)+b[i]
	}
	return q
}

// isClose does what torch's isclose does, with its tolerances.
func isClose(a, b float32) bool {
	off := abs(a - b)
	return a == b || !math.IsInf(float64(off), 0) && off <= 1e-8+abs(float32(1e-5*b))
}
