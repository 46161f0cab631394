package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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

// Explain says which transform of the list an error of its plan is about. Package native knows ops
// by their number alone, and that is the transform's place in the list, for only Normalize makes no
// op and it comes last.
func Explain(list []json.RawMessage, err error) error {
	var plan *native.Error
	if !errors.As(err, &plan) || plan.Code != native.Argument {
		return err
	}
	var op int
	number, text, found := strings.Cut(plan.Text, ": ")
	if _, scan := fmt.Sscanf(number, "op %d", &op); !found || scan != nil || op < 0 || op >= len(list) {
		return err
	}
	e := &Error{Index: op, Text: text}
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(list[op], &named) == nil {
		e.Transform = named.Name
	}
	// RandomCrop's size is the one argument that depends on the image, as it does in torchvision.
	var height, width, most, wide int
	if n, _ := fmt.Sscanf(text, "required crop size %dx%d (height x width) is larger than the image with its padding, %dx%d",
		&height, &width, &most, &wide); n == 4 {
		e.Argument = "size"
		e.Text = fmt.Sprintf("is %dx%d (expected at most %dx%d, height x width of the image with its padding); padding or pad_if_needed makes room",
			height, width, most, wide)
	}
	return e
}
