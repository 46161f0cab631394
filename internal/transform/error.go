package transform

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/headrace/headrace/native"
)

// Error is a transform that cannot be. Transform and Argument are empty where the list as a whole,
// or the transform as a whole, is wrong.
// It is in parts, because more is learned of it on the way up: a group adds its own name (place), and a label's error names
// the field instead of a number (labelError).
type Error struct {
	Index     int // place in the list
	Transform string
	Argument  string
	Text      string
}

// place says which transform of the list it was, unless one inside of it has said so.
// The outermost name comes first, as in "RandomApply, RandomChoice, CenterCrop": the index is that of the outermost, since
// only that one stands in the user's own list.
func (e *Error) place(index int, transform string) {
	e.Index = index
	if e.Transform == "" {
		e.Transform = transform
	} else {
		e.Transform = transform + ", " + e.Transform
	}
}

// Error says it in the form of package fault: "transform 1 (CenterCrop): size is -1 (expected ...)".
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

// Explain says which transform of the list an error of its plan is about. Package native knows ops by
// their number alone, and a transform may have become several of them, or none.
// The plan's error comes when a plan is compiled, or much later, when an image is smaller than a crop.
func Explain(list []json.RawMessage, err error) error {
	var plan *native.Error
	// Op counts from 1; 0 is an error of the plan as a whole.
	if !errors.As(err, &plan) || plan.Code != native.Argument || plan.Op == 0 {
		return err
	}
	index, name := transformOf(list, plan.Op)
	if name == "" {
		return errors.New(plan.Text) // without a number that is not the user's
	}
	height, width := plan.Sides[0], plan.Sides[1]
	// Of a crop that is larger than its image the plan says the sides, in numbers and not in its text.
	if height == 0 {
		return &Error{Index: index, Transform: name, Text: plan.Text}
	}
	if name != "RandomCrop" {
		name += ", RandomCrop" // the one transform whose argument depends on the image, in a group
	}
	return &Error{Index: index, Transform: name, Argument: "size",
		Text: fmt.Sprintf("is %dx%d (expected at most %dx%d, height x width of the image with its padding); padding or pad_if_needed makes room",
			height, width, plan.Sides[2], plan.Sides[3])}
}

// transformOf is the transform whose ops the one of that number, counted from 1, is among. The list
// has been made a plan before, so reading it again does not fail. "" where there is none. Which size of a
// schedule holds makes no difference: a transform has as many ops at any.
func transformOf(list []json.RawMessage, op int) (index int, name string) {
	for i, raw := range sizesAt(list, 0) {
		name, values, err := parseOne(i, raw)
		if err != nil {
			return 0, ""
		}
		// Neither is an op of the plan, so neither has a number there.
		if name == "Normalize" || mixes(name, values) {
			continue
		}
		// As many ops as the plan got of it, for it is built in the same way: a group is a head and its members.
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
