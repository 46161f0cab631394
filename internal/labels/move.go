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

// Rule says what a label is and what becomes of it.
type Rule struct {
	Kind       Kind
	Format     Format // of boxes
	Clamp      bool   // boxes are cut off at the edges by the ops that torchvision's clamping is part of
	Hard       bool   // where boxes are cut off, rotated ones become the largest inside; else the smallest around
	ClampAtEnd bool   // and after the last, and points are moved onto the edges
	Sanitize   bool   // leave out what is not whole inside the image, and boxes below MinSize and MinArea
	MinSize    float64
	MinArea    float64
	Fill       int32 // of a mask; native.MaskFillOfOp: as each op fills images
	Image      Form  // of an image
}

// FilledAsImages says whether it is a mask that each op fills with the value for images.
func (r Rule) FilledAsImages() bool { return r.Kind == Mask && r.Fill == native.MaskFillOfOp }

// Width is the numbers of one row of values.
func (r *Rule) Width() int {
	if r.Kind == Boxes {
		return r.Format.width()
	}
	return 2
}

func (r *Rule) rotated() bool { return r.Kind == Boxes && r.Format.Rotated() }

// canvas is the size of an image, as torch multiplies with it.
type canvas struct{ width, height float32 }

// Move moves boxes or points, which it may change, as steps move their image, whose size in the end
// is width x height. kept are the rows that are left, in order; values holds those alone.
func (r *Rule) Move(values []float32, steps []native.Step, width, height int32) (moved []float32, kept []int64, err error) {
	if err := r.follow(values, steps, width, height); err != nil {
		return nil, nil, err
	}
	row := r.Width()
	moved, kept = values[:0], []int64{}
	end := canvas{float32(width), float32(height)}
	if r.ClampAtEnd && r.rotated() {
		r.shiftRotated(values, 0, 0, end, false)
	} else if r.ClampAtEnd {
		r.each(values, nil, func(b box) box { return r.Format.clamped(b, end) }, func(x, y float32) (float32, float32) {
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

// follow does steps to all rows, of which none is left out.
func (r *Rule) follow(values []float32, steps []native.Step, width, height int32) error {
	row := r.Width()
	if len(values)%row != 0 {
		return fmt.Errorf("%d numbers (expected a multiple of %d)", len(values), row)
	}
	for i, v := range values {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("row %d holds %v (expected finite numbers)", i/row, v)
		}
	}
	for i := range steps {
		after := canvas{float32(width), float32(height)}
		if i+1 < len(steps) {
			after = canvas{float32(steps[i+1].Width), float32(steps[i+1].Height)}
		}
		if err := r.step(values, &steps[i], after); err != nil {
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

// step does one step to all rows.
func (r *Rule) step(values []float32, s *native.Step, after canvas) error {
	before := canvas{float32(s.Width), float32(s.Height)}
	i, b := s.I, s.Box
	switch s.Kind {
	case native.OpCrop:
		if i[4] == 1 && r.Kind == Boxes {
			r.iouCrop(values, i[0], i[1], i[2], i[3])
			return nil
		}
		r.crop(values, i[0], i[1], i[2], i[3])
	case native.OpCenterCrop:
		// The anchor alone, also where the image is padded: torchvision's image then lies half a
		// pixel beside it where what is missing is odd.
		r.crop(values, anchor(s.Height, i[0]), anchor(s.Width, i[1]), i[0], i[1])
	case native.OpRandomResizedCrop:
		r.crop(values, b[0], b[1], b[2], b[3])
		r.resize(values, b[3], b[2], i[1], i[0])
	case native.OpResize, native.OpResizeShorter:
		r.resize(values, s.Width, s.Height, int32(after.width), int32(after.height))
	case native.OpReduce:
		return errors.New("internal: no label moves with reduce")
	case native.OpResizeBox: // of functional, which has no labels
		return errors.New("internal: no label moves with resize_box")
	case native.OpPad:
		return r.pad(values, i[2], i[3], after, i[7])
	case native.OpRandomCrop:
		return r.randomCrop(values, s)
	case native.OpHorizontalFlip:
		r.flip(values, 0, before.width)
	case native.OpVerticalFlip:
		r.flip(values, 1, before.height)
	case native.StepPixel + native.PixelElastic:
		return r.displace(values, s, before)
	case native.StepPixel + native.PixelAffine, native.StepPixel + native.PixelPerspective:
		return r.warp(values, s, before, after)
	}
	return nil // what changes colours
}

func anchor(length, crop int32) int32 {
	return int32(math.RoundToEven(float64(length-crop) / 2))
}

// each replaces every row by what the functions say; boxes are clamped to c where it is not nil.
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

func (r *Rule) crop(values []float32, top, left, height, width int32) {
	if r.rotated() {
		r.shiftRotated(values, float32(-left), float32(-top), canvas{float32(width), float32(height)}, true)
		return
	}
	r.shift(values, float32(-left), float32(-top), canvas{float32(width), float32(height)})
}

func (r *Rule) resize(values []float32, width, height, toWidth, toHeight int32) {
	if width == toWidth && height == toHeight {
		return
	}
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

func (r *Rule) pad(values []float32, left, top int32, after canvas, mode int32) error {
	if mode != native.PadConstant {
		return fmt.Errorf("a padding that is not constant has no place for boxes and points")
	}
	if r.rotated() {
		r.shiftRotated(values, float32(left), float32(top), after, false)
		return nil
	}
	r.shift(values, float32(left), float32(top), after)
	return nil
}

// randomCrop pads only where there is padding, and crops only where something is left over, as
// torchvision's RandomCrop.
func (r *Rule) randomCrop(values []float32, s *native.Step) error {
	i, b := s.I, s.Box
	left, top, right, bottom := i[2], i[3], i[4], i[5]
	if i[6] == 1 {
		across, down := max(0, i[1]-s.Width-left-right), max(0, i[0]-s.Height-top-bottom)
		left, right, top, bottom = left+across, right+across, top+down, bottom+down
	}
	width, height := s.Width+left+right, s.Height+top+bottom
	if left != 0 || top != 0 || right != 0 || bottom != 0 {
		if err := r.pad(values, left, top, canvas{float32(width), float32(height)}, i[7]); err != nil {
			return err
		}
	}
	if width != b[3] || height != b[2] {
		r.crop(values, b[0], b[1], b[2], b[3])
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
				return -(x - (length - 1)), y
			}
			return x, -(y - (length - 1))
		})
}

func (r *Rule) warp(values []float32, s *native.Step, before, after canvas) error {
	m, err := warpOf(s, before)
	if err != nil {
		return err
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
		b = r.Format.hull(b, &m)
		if r.Clamp {
			b = XYXY.clamped(b, after)
		}
		return r.Format.of(b)
	}, m.at)
	return nil
}
