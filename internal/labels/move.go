package labels

import (
	"errors"
	"fmt"
	"math"

	"github.com/headrace/headrace/native"
)

// Kind is what a label is.
type Kind int

// The kinds.
const (
	Boxes  Kind = iota // float32, n x 4; rotated n x 8 or n x 5
	Points             // float32, n x 2
	Mask               // bytes, height x width
	Image              // an encoded image
)

// Rule says what a label is and how it moves.
type Rule struct {
	Kind       Kind
	Format     Format // of boxes
	Clamp      bool   // boxes are cut off at the edges by the ops whose torchvision forms clamp
	Hard       bool   // cut-off rotated boxes become the largest box inside; otherwise the smallest around
	ClampAtEnd bool   // boxes are also cut off after the last op, and points are moved onto the edges
	Sanitize   bool   // leave out what is not inside the image, and boxes below MinSize and MinArea
	MinSize    float64
	MinArea    float64
	Fill       int32 // for a mask; native.MaskFillOfOp: the value that each op fills images with
	Image      Form  // for an image
}

// FilledAsImages says whether this is a mask that each op fills with its value for images.
func (r Rule) FilledAsImages() bool { return r.Kind == Mask && r.Fill == native.MaskFillOfOp }

// Width returns how many numbers a row of values has.
func (r *Rule) Width() int {
	if r.Kind == Boxes {
		return r.Format.width()
	}
	return 2
}

func (r *Rule) rotated() bool { return r.Kind == Boxes && r.Format.Rotated() }

// canvas is the size of an image, in the numbers that torch multiplies with.
type canvas struct{ width, height float32 }

// Move moves boxes or points as the drawn ops move their image, whose final size is width x height. It may change
// values. kept are the rows that are left, in order; moved holds only those.
func (r *Rule) Move(values []float32, drawn []native.Drawn, width, height int32) (moved []float32, kept []int64, err error) {
	if err := r.follow(values, drawn, width, height); err != nil {
		return nil, nil, err
	}
	row := r.Width()
	moved, kept = values[:0], []int64{}
	end := canvas{float32(width), float32(height)}
	if r.ClampAtEnd && r.rotated() {
		r.shiftRotated(values, 0, 0, end, false)
	} else if r.ClampAtEnd {
		r.each(values, nil, func(b box) box { return r.Format.clamped(b, end) }, func(x, y float32) (float32, float32) {
			// A point is a pixel's place, and the last pixel is at width - 1; the edge of a box may be at width.
			return min(max(x, 0), end.width-1), min(max(y, 0), end.height-1)
		})
	}
	for i := 0; i < len(values); i += row {
		if r.Sanitize && !r.sound(values[i:i+row], end) {
			continue
		}
		kept = append(kept, int64(i/row))
		moved = append(moved, values[i:i+row]...)
	}
	return moved, kept, nil
}

// follow applies the drawn ops to all rows, and leaves none out.
func (r *Rule) follow(values []float32, drawn []native.Drawn, width, height int32) error {
	row := r.Width()
	if len(values)%row != 0 {
		return fmt.Errorf("%d numbers (expected a multiple of %d)", len(values), row)
	}
	for i, v := range values {
		// Every comparison with a NaN is false, so a NaN would pass the later checks, including sanitizing.
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("row %d holds %v (expected finite numbers)", i/row, v)
		}
	}
	for i := range drawn {
		after := canvas{float32(width), float32(height)}
		if i+1 < len(drawn) {
			after = canvas{float32(drawn[i+1].Width), float32(drawn[i+1].Height)}
		}
		if err := r.move(values, &drawn[i], after); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) sound(row []float32, c canvas) bool {
	if r.rotated() {
		return r.Format.soundRotated(row, c, float32(r.MinSize), float32(r.MinArea))
	}
	if r.Kind == Boxes {
		return r.Format.sound(box(row), c, float32(r.MinSize), float32(r.MinArea))
	}
	return row[0] >= 0 && row[0] < c.width && row[1] >= 0 && row[1] < c.height
}

// move does to all rows what one op did to the image.
func (r *Rule) move(values []float32, d *native.Drawn, after canvas) error {
	before := canvas{float32(d.Width), float32(d.Height)}
	switch op := d.Op.(type) {
	case native.Crop:
		if d.ByBoxes && r.Kind == Boxes {
			r.iouCrop(values, op)
			return nil
		}
		r.crop(values, op)
	case native.CenterCrop:
		// Only the anchor of the crop is used, even if the image is padded: if an odd number of pixels is missing,
		// torchvision's image then lies half a pixel beside its boxes.
		r.crop(values, native.Crop{Top: anchor(d.Height, op.Height), Left: anchor(d.Width, op.Width), Height: op.Height, Width: op.Width})
	case native.RandomResizedCrop:
		r.crop(values, d.Box)
		r.resize(values, d.Box.Width, d.Box.Height, op.Width, op.Height)
	case native.Resize, native.ResizeShorter:
		r.resize(values, d.Width, d.Height, int32(after.width), int32(after.height))
	case native.Reduce:
		return errors.New("internal: no label moves with reduce")
	case native.ResizeBox: // only in functional, which has no labels
		return errors.New("internal: no label moves with resize_box")
	case native.Pad:
		return r.pad(values, op.Padding, after)
	case native.RandomCrop:
		return r.randomCrop(values, op, d)
	case native.HorizontalFlip:
		r.flip(values, 0, before.width)
	case native.VerticalFlip:
		r.flip(values, 1, before.height)
	case native.FixedElastic:
		return r.displace(values, op, d.Width, d.Height, before)
	case native.AffineMap:
		m, err := turnOf(&op, before)
		return r.warp(values, &m, err, after)
	case native.PerspectiveMap:
		m, err := perspectiveOf(&op.Coefficients)
		return r.warp(values, &m, err, after)
	}
	return nil // ops that change colours
}

func anchor(length, crop int32) int32 {
	// This is Python's round, which torchvision uses.
	return int32(math.RoundToEven(float64(length-crop) / 2))
}

// each replaces every row by the result of the functions; boxes are clamped to c if it is not nil.
func (r *Rule) each(values []float32, c *canvas, ofBox func(box) box, ofPoint func(x, y float32) (float32, float32)) {
	if r.Kind == Points {
		for i := 0; i < len(values); i += 2 {
			values[i], values[i+1] = ofPoint(values[i], values[i+1])
		}
		return
	}
	for i := 0; i < len(values); i += 4 {
		b := ofBox(box(values[i : i+4]))
		if c != nil && r.Clamp {
			b = r.Format.clamped(b, *c)
		}
		copy(values[i:], b[:])
	}
}

func (r *Rule) shift(values []float32, x, y float32, c canvas) {
	r.each(values, &c, func(b box) box { return r.Format.shifted(b, x, y) },
		func(px, py float32) (float32, float32) { return px + x, py + y })
}

func (r *Rule) crop(values []float32, c native.Crop) {
	end := canvas{float32(c.Width), float32(c.Height)}
	if r.rotated() {
		r.shiftRotated(values, float32(-c.Left), float32(-c.Top), end, true)
		return
	}
	r.shift(values, float32(-c.Left), float32(-c.Top), end)
}

func (r *Rule) resize(values []float32, width, height, toWidth, toHeight int32) {
	if width == toWidth && height == toHeight {
		return
	}
	// The ratio is in double and the product in single precision, as in Python and torch.
	x, y := float32(float64(toWidth)/float64(width)), float32(float64(toHeight)/float64(height))
	if r.rotated() {
		r.eachQuad(values, &canvas{float32(toWidth), float32(toHeight)}, func(q quad) quad {
			for i := 0; i < 8; i += 2 {
				q[i], q[i+1] = q[i]*x, q[i+1]*y
			}
			return rectangle(q)
		})
		return
	}
	r.each(values, nil, func(b box) box { return scaled(b, x, y) },
		func(px, py float32) (float32, float32) { return px * x, py * y })
}

func (r *Rule) pad(values []float32, p native.Padding, after canvas) error {
	if p.Mode != native.PadConstant {
		return fmt.Errorf("boxes and points do not move with a padding that is not constant")
	}
	if r.rotated() {
		r.shiftRotated(values, float32(p.Left), float32(p.Top), after, false)
		return nil
	}
	r.shift(values, float32(p.Left), float32(p.Top), after)
	return nil
}

// randomCrop pads only if there is padding, and crops only if pixels are left over, like torchvision's RandomCrop.
func (r *Rule) randomCrop(values []float32, op native.RandomCrop, d *native.Drawn) error {
	p := op.Pads(d.Width, d.Height)
	width, height := d.Width+p.Left+p.Right, d.Height+p.Top+p.Bottom
	if pads(p) {
		if err := r.pad(values, p, canvas{float32(width), float32(height)}); err != nil {
			return err
		}
	}
	if width != d.Box.Width || height != d.Box.Height {
		r.crop(values, d.Box)
	}
	return nil
}

func (r *Rule) flip(values []float32, axis int, length float32) {
	if r.rotated() {
		for width := r.Width(); len(values) >= width; values = values[width:] {
			r.Format.mirrorRotated(values[:width], axis, length)
		}
		return
	}
	r.each(values, nil, func(b box) box { return r.Format.mirrored(b, axis, length) },
		func(x, y float32) (float32, float32) {
			if axis == 0 {
				// A point is a pixel's place: the first pixel becomes the last.
				return -(x - (length - 1)), y
			}
			return x, -(y - (length - 1))
		})
}

// warp moves rows by a map, unless the map could not be made.
func (r *Rule) warp(values []float32, m *projection, failed error, after canvas) error {
	if failed != nil {
		return failed
	}
	if r.rotated() {
		r.eachQuad(values, &after, func(q quad) quad {
			for i := 0; i < 8; i += 2 {
				q[i], q[i+1] = m.at(q[i], q[i+1])
			}
			return rectangle(q)
		})
		return nil
	}
	r.each(values, nil, func(b box) box {
		b = r.Format.hull(b, m)
		if r.Clamp {
			b = XYXY.clamped(b, after)
		}
		return r.Format.of(b)
	}, m.at)
	return nil
}
