package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/labels"
	"github.com/headrace/headrace/native"
)

// ParseLabel reads how a field of labels moves. Its error names the field, the label and the argument.
func ParseLabel(field string, raw json.RawMessage) (labels.Rule, error) {
	t := theTable()
	name, v, err := parseNamed("label", t.Labels, 0, raw)
	if err != nil {
		return labels.Rule{}, labelError(field, err)
	}
	switch name {
	case "Boxes":
		r := labels.Rule{Kind: labels.Boxes, MinArea: v["min_area"].numbers[0]}
		// The table lists the formats in the order of package labels' numbers.
		r.Format = labels.Format(slices.Index(t.Choices["box_format"], v["format"].text))
		r.Clamp, r.ClampAtEnd, r.Hard = v["clamp"].on(), v["clamp_at_end"].on(), v["clamping_mode"].text == "hard"
		if least := v["sanitize"]; !least.isNull {
			r.Sanitize, r.MinSize = true, least.numbers[0]
		}
		return r, nil
	case "KeyPoints":
		return labels.Rule{Kind: labels.Points, ClampAtEnd: v["clamp_at_end"].on(), Sanitize: v["sanitize"].on()}, nil
	case "Mask":
		// A mask without its own fill gets the fill of the op that moves it, as in torchvision.
		r := labels.Rule{Kind: labels.Mask, Fill: native.MaskFillOfOp}
		if fill := v["fill"]; !fill.isNull {
			r.Fill = fill.integer(0)
		}
		return r, nil
	case "Image":
		return labels.Rule{Kind: labels.Image, Image: parseForm(v)}, nil
	}
	return labels.Rule{}, labelError(field, &Error{Transform: name, Text: "it is no label that moves (expected Boxes, KeyPoints, Mask or Image)"})
}

// parseForm reads the form of a further image of a sample.
func parseForm(v map[string]value) labels.Form {
	// A DType of -1 means the batch's own.
	f := labels.Form{Scale: v["scale"].integer(0), DType: -1}
	if dtype := v["dtype"]; !dtype.isNull {
		f.DType = dtypes[dtype.text]
	}
	mean, std := v["mean"], v["std"]
	f.Normalize = !mean.isNull || !std.isNull
	for c := range f.Mean {
		// Either of the two may be left out: a mean of 0 and a deviation of 1 change nothing.
		f.Std[c] = 1
		if !mean.isNull {
			f.Mean[c] = float32(mean.each(c))
		}
		if !std.isNull {
			f.Std[c] = float32(std.each(c))
		}
	}
	return f
}

// labelError names the field, and not a number in a list as for a transform.
func labelError(field string, err *Error) error {
	text := fmt.Sprintf("labels: %q", field)
	if err.Transform != "" {
		text += " (" + err.Transform + ")"
	}
	text += ": "
	if err.Argument != "" {
		text += err.Argument + " "
	}
	return errors.New(text + err.Text)
}

// CheckLabels refuses transforms with which torchvision moves no labels: policies, which would have to know labels,
// crops into several images, and what mixes images. It refuses a RandomIoUCrop without boxes; for places, paddings that
// show the image again; for masks that are filled like images, a fill with a number for each channel; and for images of
// another scale, ops that have no counterpart in whole pixels of both. The list was parsed, so its schedules are valid.
func CheckLabels(list []json.RawMessage, rules []labels.Rule) error {
	// parseOne does not accept a schedule as a size.
	resolved := sizesAt(list, 0) // labels move in the same way at any size
	for i, raw := range resolved {
		if err := checkIoUCrops(i, raw, rules); err != nil {
			return err
		}
	}
	if len(rules) == 0 {
		return nil
	}
	for i, raw := range resolved {
		if err := checkLabels(i, raw, rules); err != nil {
			return err
		}
	}
	return nil
}

// checkIoUCrops refuses a RandomIoUCrop without the one label whose boxes it uses. It is called even if there are no
// labels, because such a crop cannot be drawn without boxes.
func checkIoUCrops(index int, raw json.RawMessage, rules []labels.Rule) error {
	name, v, err := parseOne(index, raw)
	if err != nil {
		return err
	}
	if name == "RandomIoUCrop" {
		boxes := 0
		for _, r := range rules {
			if r.Kind == labels.Boxes {
				boxes++
			}
		}
		// With two labels of boxes, it would be undefined which of them the crop uses.
		if boxes != 1 || !slices.ContainsFunc(rules, labels.Rule.LooksAtBoxes) {
			return &Error{Index: index, Transform: name, Text: "it needs the boxes of a sample (expected one label of Boxes, which are not rotated)"}
		}
	}
	for _, inner := range v["transforms"].list {
		if err := checkIoUCrops(index, inner, rules); err != nil {
			return err
		}
	}
	return nil
}

// checkLabels refuses one transform, or one inside it, if labels of these rules do not move with it.
func checkLabels(index int, raw json.RawMessage, rules []labels.Rule) error {
	name, v, err := parseOne(index, raw)
	if err != nil {
		return err
	}
	e := theTable().entry(name)
	if e.NoLabels {
		return &Error{Index: index, Transform: name, Text: "it moves no labels (expected a transform that does, or no labels)"}
	}
	if err := checkScaled(index, name, e, v, rules); err != nil {
		return err
	}
	places := slices.ContainsFunc(rules, func(r labels.Rule) bool { return r.Kind == labels.Boxes || r.Kind == labels.Points })
	// Reflected pixels would show an object twice, but its box moves to only one place. torchvision refuses this, too
	// (v2/functional/_geometry.py: pad_bounding_boxes, pad_keypoints).
	if mode := v["padding_mode"].text; places && mode != "" && mode != "constant" {
		return &Error{Index: index, Transform: name, Argument: "padding_mode", Text: fmt.Sprintf("is %q (expected \"constant\", for boxes and points have no place in another)", mode)}
	}
	// A mask has one channel, so it cannot use a fill of three numbers.
	channels := slices.ContainsFunc(e.Arguments, func(a argument) bool { return a.Type == "fill" && len(v[a.Name].numbers) > 1 })
	if channels && slices.ContainsFunc(rules, labels.Rule.FilledAsImages) {
		return &Error{Index: index, Transform: name, Argument: "fill", Text: "has a number for each channel (expected one number, or a Mask with a fill of its own)"}
	}
	for _, inner := range v["transforms"].list {
		if err := checkLabels(index, inner, rules); err != nil {
			return err
		}
	}
	return nil
}

// checkScaled refuses transforms with which an image of another scale does not move.
func checkScaled(index int, name string, e *entry, v map[string]value, rules []labels.Rule) error {
	if !slices.ContainsFunc(rules, func(r labels.Rule) bool { return r.Kind == labels.Image && r.Image.Scale != 1 }) {
		return nil
	}
	const expected = "(expected crops, paddings, flips and quarter turns, or a scale of 1)"
	if e.NoScale {
		return &Error{Index: index, Transform: name, Text: "no image of another scale moves with it " + expected}
	}
	if v["padding_mode"].text == "reflect" {
		return &Error{Index: index, Transform: name, Argument: "padding_mode", Text: `is "reflect", which leaves out the edge, a pixel that is larger in an image of another scale (expected another mode, or a scale of 1)`}
	}
	// A quarter turn moves whole pixels, so the pixels of both images still correspond.
	if name == "RandomRotation" && !turnsByQuarters(v) {
		return &Error{Index: index, Transform: name, Argument: "degrees", Text: "leave more than a quarter turn to chance, and no image of another scale moves with that " + expected}
	}
	return nil
}

// turnsByQuarters is true for a RandomRotation by one angle, 0, 90, 180 or 270 degrees, around the middle.
func turnsByQuarters(v map[string]value) bool {
	d := v["degrees"].numbers
	// One number other than 0 is an interval around 0, from which any angle may be drawn.
	one := len(d) == 2 && d[0] == d[1] || len(d) == 1 && d[0] == 0
	return one && math.Mod(d[0], 90) == 0 && v["center"].isNull
}
