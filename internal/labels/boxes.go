package labels

// Format says how numbers describe a box, like torchvision's BoundingBoxFormat.
type Format int

// The formats.
const (
	XYXY     Format = iota // left, top, right, bottom
	XYWH                   // left, top, width, height
	CXCYWH                 // middle, width, height
	XYXYXYXY               // the corners of a rotated box, clockwise from its upper left one
	XYWHR                  // a rotated box: upper left corner, width, height, and degrees counter-clockwise
	CXCYWHR                // a rotated box: middle, width, height, and degrees counter-clockwise
)

// box is one box in its format; every operation is rounded to single precision, as in torch.
type box = [4]float32

// corners converts a box to left, top, right, bottom.
func (f Format) corners(b box) box {
	switch f {
	case XYWH:
		return box{b[0], b[1], b[2] + b[0], b[3] + b[1]}
	case CXCYWH:
		// torchvision divides by -2 and takes the absolute value (_cxcywh_to_xyxy). For a negative size the result is
		// not its half.
		x, y := b[0]-abs(b[2]/-2), b[1]-abs(b[3]/-2)
		return box{x, y, b[2] + x, b[3] + y}
	}
	return b
}

// of converts corners to a box of the format.
func (f Format) of(b box) box {
	switch f {
	case XYWH:
		return box{b[0], b[1], b[2] - b[0], b[3] - b[1]}
	case CXCYWH:
		w, h := b[2]-b[0], b[3]-b[1]
		return box{(float32(b[0]*2) + w) / 2, (float32(b[1]*2) + h) / 2, w, h}
	}
	return b
}

func abs(n float32) float32 {
	if n < 0 {
		return -n
	}
	return n
}

// shifted moves a box; its size stays.
func (f Format) shifted(b box, x, y float32) box {
	b[0] += x
	b[1] += y
	// In the other formats the size is separate, and stays.
	if f == XYXY {
		b[2] += x
		b[3] += y
	}
	return b
}

// scaled stretches a box away from the corner of the image.
func scaled(b box, x, y float32) box { return box{b[0] * x, b[1] * y, b[2] * x, b[3] * y} }

// mirrored mirrors a box along one axis of that length: 0 across, 1 down.
func (f Format) mirrored(b box, axis int, length float32) box {
	switch f {
	case XYXY:
		b[axis], b[axis+2] = -(b[axis+2] - length), -(b[axis] - length)
	case XYWH:
		b[axis] = -(float32(b[axis]+b[axis+2]) - length)
	case CXCYWH:
		b[axis] = -(b[axis] - length)
	}
	return b
}

// clamped cuts a box off at the edges of the image.
func (f Format) clamped(b box, c canvas) box {
	b = f.corners(b)
	// A box outside the image becomes one without an area at its edge.
	for i, most := range [4]float32{c.width, c.height, c.width, c.height} {
		b[i] = min(max(b[i], 0), most)
	}
	return f.of(b)
}

// hull returns the box around the places to which a warp takes a box's four corners.
func (f Format) hull(b box, m *projection) box {
	b = f.corners(b)
	x, y := m.at(b[0], b[1])
	found := box{x, y, x, y}
	for _, corner := range [3][2]float32{{b[2], b[1]}, {b[2], b[3]}, {b[0], b[3]}} {
		x, y := m.at(corner[0], corner[1])
		found = box{min(found[0], x), min(found[1], y), max(found[2], x), max(found[3], y)}
	}
	return found
}

// sound is the condition of torchvision's SanitizeBoundingBoxes: large enough, and inside the image.
func (f Format) sound(b box, c canvas, size, area float32) bool {
	b = f.corners(b)
	w, h := b[2]-b[0], b[3]-b[1]
	return w >= size && h >= size && w*h >= area && b[0] >= 0 && b[1] >= 0 && b[2] >= 0 && b[3] >= 0 &&
		b[0] <= c.width && b[2] <= c.width && b[1] <= c.height && b[3] <= c.height
}
