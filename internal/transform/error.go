package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// Error is a transform that cannot be. Transform and Argument are empty where the list as a whole,
// or the transform as a whole, is wrong.
type Error struct {
	Index     int // place in the list
	Transform string
	Argument  string
	Text      string
}

// place says which transform of the list it was, unless one inside of it has said so.
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

// Explain says which transform of the list an error of its plan is about, at an image that it does
// not fit. Package native knows ops by their number alone; RandomCrop's size is the one argument
// that depends on the image, as it does in torchvision, so the transform is found by that.
func Explain(list []json.RawMessage, err error) error {
	var plan *native.Error
	if !errors.As(err, &plan) || plan.Code != native.Argument || plan.Op == 0 {
		return err
	}
	if height, width := plan.Sides[0], plan.Sides[1]; height > 0 {
		for index, raw := range list {
			if hasCrop(raw, float64(height), float64(width)) {
				return &Error{Index: index, Transform: "RandomCrop", Argument: "size",
					Text: fmt.Sprintf("is %dx%d (expected at most %dx%d, height x width of the image with its padding); padding or pad_if_needed makes room",
						height, width, plan.Sides[2], plan.Sides[3])}
			}
		}
	}
	return errors.New(plan.Text) // without a number that is not the user's
}

// hasCrop reports whether a transform is a RandomCrop of that size, or holds one.
func hasCrop(raw json.RawMessage, height, width float64) bool {
	var given struct {
		Name       string            `json:"name"`
		Size       json.RawMessage   `json:"size"`
		Transforms []json.RawMessage `json:"transforms"`
	}
	if json.Unmarshal(raw, &given) != nil {
		return false
	}
	if given.Name == "RandomCrop" {
		size, err := numeric["size"].read(given.Size)
		v := value{numbers: size}
		return err == nil && v.each(0) == height && v.each(1) == width
	}
	return slices.ContainsFunc(given.Transforms, func(inner json.RawMessage) bool { return hasCrop(inner, height, width) })
}
