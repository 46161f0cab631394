package labels

import "math"

// quad is the four corners of a rotated box, x and y of each, in the order of torchvision's XYXYXYXY.
type quad = [8]float32

// Rotated says whether boxes of the format may be rotated: they have eight numbers, or five, of which the last is an
// angle in degrees.
func (f Format) Rotated() bool { return f >= XYXYXYXY }

// width returns how many numbers a box has.
func (f Format) width() int {
	switch f {
	case XYXYXYXY:
		return 8
	case XYWHR, CXCYWHR:
		return 5
	}
	return 4
}

// turn returns the cosine and sine of an angle in degrees. torch's differ from these in the last bit at most.
func turn(degrees float32) (cosine, sine float32) {
	return ofRadians(float32(degrees*math.Pi) / 180)
}

func ofRadians(angle float32) (cosine, sine float32) {
	// This is computed in double precision and rounded once, because no single-precision library gives the same bits
	// everywhere.
	sin, cos := math.Sincos(float64(angle))
	return float32(cos), float32(sin)
}

// quad converts a row of the format to corners. Every operation is rounded to single precision, in torchvision's order.
func (f Format) quad(row []float32) quad {
	if f == XYXYXYXY {
		return quad(row)
	}
	x, y, w, h := row[0], row[1], row[2], row[3]
	cos, sin := turn(row[4])
	if f == CXCYWHR {
		halfW, halfH := abs(w/2), abs(h/2)
		x = x - float32(halfW*cos) - float32(halfH*sin)
		y = y + float32(halfW*sin) - float32(halfH*cos)
	}
	return quad{
		x, y,
		x + float32(w*cos), y - float32(w*sin),
		x + (float32(w*cos) + float32(h*sin)), y - (float32(w*sin) - float32(h*cos)),
		x + float32(h*sin), y + float32(h*cos),
	}
}

// put writes corners to a row of the format.
func (f Format) put(row []float32, q quad) {
	if f == XYXYXYXY {
		copy(row, q[:])
		return
	}
	radians := float32(math.Atan2(float64(q[1]-q[3]), float64(q[2]-q[0])))
	w, h := length(q[2]-q[0], q[3]-q[1]), length(q[4]-q[2], q[5]-q[3])
	angle := float32(radians/math.Pi) * 180
	x, y := q[0], q[1]
	if f == CXCYWHR {
		cos, sin := turn(angle)
		x = x + float32(w/2*cos) + float32(h/2*sin)
		y = y - float32(w/2*sin) + float32(h/2*cos)
	}
	copy(row, []float32{x, y, w, h, angle})
}

func length(x, y float32) float32 {
	return float32(math.Sqrt(float64(float32(x*x) + float32(y*y))))
}

// rectangle does what torchvision's _parallelogram_to_bounding_boxes does: the longer diagonal stays, and the other
// corners move until the angles are right angles.
func rectangle(q quad) quad {
	cx, cy := (q[0]+q[4])/2, (q[1]+q[5])/2
	across, down := length(q[2]-q[0], q[3]-q[1]), length(q[6]-q[0], q[7]-q[1])
	r12 := float32(math.Atan2(float64(q[1]-q[3]), float64(q[2]-q[0])))
	r14 := float32(math.Atan2(float64(q[1]-q[7]), float64(q[6]-q[0])))
	cos, sin := ofRadians(r12 - r14)
	sign := float32(1)
	if r12-r14 > math.Pi/2 {
		sign = -1
	}
	w, h := across+float32(float32(down*cos)*sign), down+float32(float32(across*cos)*sign)
	if across < down {
		w = across * sin
	}
	if across > down {
		h = down * sin
	}
	angle := r12
	if down > across {
		angle = r14 + math.Pi/2
	}
	cos, sin = ofRadians(angle)
	wc, ws, hc, hs := float32(w/2*cos), float32(w/2*sin), float32(h/2*cos), float32(h/2*sin)
	return quad{cx - wc - hs, cy - hc + ws, cx + wc - hs, cy - hc - ws, cx + wc + hs, cy + hc - ws, cx - wc + hs, cy + hc + ws}
}

// eachQuad replaces every rotated box by what is made of its corners, cut off at the edges of c.
func (r *Rule) eachQuad(values []float32, c *canvas, of func(quad) quad) {
	for width := r.Format.width(); len(values) >= width; values = values[width:] {
		q := of(r.Format.quad(values))
		if c != nil && r.Clamp {
			q = r.clampedQuad(q, *c)
		}
		r.Format.put(values[:width], q)
	}
}

// shiftRotated moves rotated boxes. torchvision makes the corners rectangles again in a crop, but not in a padding.
func (r *Rule) shiftRotated(values []float32, x, y float32, c canvas, crops bool) {
	for width := r.Format.width(); len(values) >= width; values = values[width:] {
		row := values[:width]
		if r.Format != XYXYXYXY {
			row[0] += x
			row[1] += y
		} else {
			for i := 0; i < 8; i += 2 {
				row[i] += x
				row[i+1] += y
			}
			if crops {
				r.Format.put(row, rectangle(quad(row)))
			}
		}
		if r.Clamp {
			r.Format.put(row, r.clampedQuad(r.Format.quad(row), c))
		}
	}
}

// mirrorRotated mirrors a rotated box along one axis, 0 across, 1 down. The first corner is afterwards the upper left
// one of the mirrored box.
func (f Format) mirrorRotated(row []float32, axis int, length float32) {
	if f == XYXYXYXY {
		for i := axis; i < 8; i += 2 {
			row[i] = -(row[i] - length)
		}
		copy(row, []float32{row[2], row[3], row[0], row[1], row[6], row[7], row[4], row[5]})
		return
	}
	if f == XYWHR {
		cos, sin := turn(row[4])
		row[0] += float32(row[2] * cos)
		row[1] -= float32(row[2] * sin)
	}
	row[axis] = -(row[axis] - length)
	row[4] = -row[4]
	// Mirrored downwards, the first corner becomes the lower left one; half a turn brings it to the top again.
	if axis == 1 {
		row[4] += 180
	}
}

// soundRotated is the condition of torchvision's SanitizeBoundingBoxes for rotated boxes. The second length is what
// torchvision computes: from the differences of y2 and y3, and of x3 and x4.
func (f Format) soundRotated(row []float32, c canvas, size, area float32) bool {
	q := f.quad(row)
	w, h := length(q[0]-q[2], q[1]-q[3]), length(q[3]-q[5], q[4]-q[6])
	if !(w >= size && h >= size && w*h >= area) {
		return false
	}
	for i := 0; i < 8; i += 2 {
		if !(q[i] >= 0 && q[i+1] >= 0 && q[i] <= c.width && q[i+1] <= c.height) {
			return false
		}
	}
	return true
}
