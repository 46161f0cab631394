package transform

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/headrace/headrace/native"
)

// Error is about an impossible transform. Transform and Argument are "" if the whole list, or the whole transform, is
// wrong. It is kept in parts, because callers add to it: a group adds its own name (place), and a label's error names
// the field instead of a number (labelError).
type Error struct {
	Index     int // number in the list
	Transform string
	Argument  string
	Text      string
}

// place says which transform of the list it was, unless an inner one has already been named. The outermost name comes
// first, as in "RandomApply, RandomChoice, CenterCrop". The index is that of the outermost transform, because only that
// one is in the user's own list.
func (e *Error) place(index int, transform string) {
	e.Index = index
	if e.Transform == "" {
		e.Transform = transform
	} else {
		e.Transform = transform + ", " + e.Transform
	}
}

// Error returns the sentence in the form of package fault: "transform 1 (CenterCrop): size is -1 (expected ...)".
func (e *Error) Error() string {
	name := fmt.Sprintf("transform %d", e.Index)
	if e.Transform != "" {
		name += " (" + e.Transform + ")"
	}
	if e.Argument != "" {
		return name + ": " + e.Argument + " " + e.Text
	}
	return name + ": " + e.Text
}

// Explain says which transform of the list an error of its plan is about. Package native knows ops only by number, and
// a transform may have become several ops, or none. The plan's error comes when the plan is compiled, or much later,
// when an image is smaller than a crop.
func Explain(list []json.RawMessage, err error) error {
	var plan *native.Error
	// Op counts from 1; 0 is an error of the whole plan.
	if !errors.As(err, &plan) || plan.Code != native.Argument || plan.Op == 0 {
		return err
	}
	index, name := transformOf(list, plan.Op)
	if name == "" {
		return errors.New(plan.Text) // without a number that the user does not know
	}
	height, width := plan.Sides[0], plan.Sides[1]
	// For a crop that is larger than its image, the plan gives the sides as numbers and not in its text.
	if height == 0 {
		return &Error{Index: index, Transform: name, Text: plan.Text}
	}
	if name != "RandomCrop" {
		name += ", RandomCrop" // the only transform in a group whose argument depends on the image
	}
	return &Error{Index: index, Transform: name, Argument: "size",
		Text: fmt.Sprintf("is %dx%d (expected at most %dx%d, height x width of the image with its padding); padding or pad_if_needed makes room",
			height, width, plan.Sides[2], plan.Sides[3])}
}

// transformOf returns the transform that the op with a number, counted from 1, belongs to; "" if there is none. A plan
// was made of the list before, so reading it again does not fail. It does not matter which size of a schedule applies,
// because a transform has the same number of ops at any size.
func transformOf(list []json.RawMessage, op int) (index int, name string) {
	for i, raw := range sizesAt(list, 0) {
		name, values, err := parseOne(i, raw)
		if err != nil {
			return 0, ""
		}
		// Neither is an op of the plan, so neither has a number.
		if name == "Normalize" || mixes(name, values) {
			continue
		}
		// It has as many ops as in the plan, because it is built in the same way: a group is a head and its members.
		made, err := buildAll(name, values, 0)
		if err != nil {
			return 0, ""
		}
		if op -= len(made); op <= 0 {
			return i, name
		}
	}
	return 0, ""
}
