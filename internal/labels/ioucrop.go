package labels

import (
	"slices"

	"github.com/headrace/headrace/native"
)

// LooksAtBoxes says whether a RandomIoUCrop may use the label: boxes that are not rotated.
func (r Rule) LooksAtBoxes() bool { return r.Kind == Boxes && !r.rotated() }

// Settle draws what depends on the boxes of a sample whose image is width x height: each IoUCrop of the plan, using the
// boxes as the ops before it have moved them. It returns the key with what was drawn.
func (r *Rule) Settle(plan *native.Plan, key native.Key, values []float32, width, height uint32) (native.Key, error) {
	// The crops are drawn one after the other, because the first crop decides where the boxes are at the second one.
	for plan.LooksAtBoxes() {
		drawn, err := plan.Replay(key, width, height)
		if err != nil {
			return key, err
		}
		last := len(drawn) - 1
		if last < 0 {
			break
		}
		at := &drawn[last]
		// A group that was not drawn may have contained it.
		if _, waits := at.Op.(native.IoUCrop); !waits {
			break
		}
		boxes := slices.Clone(values)
		if err := r.follow(boxes, drawn[:last], at.Width, at.Height); err != nil {
			return key, err
		}
		r.each(boxes, nil, r.Format.corners, nil)
		// A plan has no more of them than a key has room for.
		if key.Crops[key.Settled], err = plan.IoUCrop(at.Number, key, at.Width, at.Height, boxes); err != nil {
			return key, err
		}
		key.Settled++
	}
	return key, nil
}

// iouCrop crops, and marks the boxes whose middle lies outside, as torchvision's RandomIoUCrop does: all their numbers
// become 0, and a sanitizing label leaves them out.
func (r *Rule) iouCrop(values []float32, crop native.Crop) {
	var outside []bool
	r.each(values, nil, func(b box) box {
		c := r.Format.corners(b)
		// This comes before the crop, because torchvision looks at the middle in the whole image.
		x, y := float32(0.5)*float32(c[0]+c[2]), float32(0.5)*float32(c[1]+c[3])
		within := float32(crop.Left) < x && x < float32(crop.Left+crop.Width) &&
			float32(crop.Top) < y && y < float32(crop.Top+crop.Height)
		outside = append(outside, !within)
		return b
	}, nil)
	r.crop(values, crop)
	for i, gone := range outside {
		if gone {
			clear(values[4*i : 4*i+4])
		}
	}
}
