package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/labels"
)

// ParseLabel reads what a field of labels is; the error names the field, the label and the argument.
func ParseLabel(field string, raw json.RawMessage) (labels.Rule, error) {
	t := theTable()
	name, v, err := parseNamed("label", t.Labels, 0, raw)
	if err != nil {
		return labels.Rule{}, labelError(field, err)
	}
	switch name {
	case "Boxes":
		r := labels.Rule{Kind: labels.Boxes, MinArea: v["min_area"].numbers[0]}
		r.Format = labels.Format(slices.Index(t.BoxFormats, v["format"].text))
		r.Clamp = v["clamp"].numbers[0] == 1
		if least := v["sanitize"]; !least.isNull {
			r.Sanitize, r.MinSize = true, least.numbers[0]
		}
		return r, nil
	case "KeyPoints":
		return labels.Rule{Kind: labels.Points, Sanitize: v["sanitize"].numbers[0] == 1}, nil
	case "Mask":
		return labels.Rule{Kind: labels.Mask, Fill: uint8(v["fill"].numbers[0])}, nil
	}
	return labels.Rule{}, labelError(field, &Error{Transform: name, Text: "it is no label that moves (expected Boxes, KeyPoints or Mask)"})
}

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

// CheckLabels refuses transforms with which torchvision moves no labels: policies, which would have
// to know them, crops into several images, and for places paddings that show the image again.
func CheckLabels(list []json.RawMessage, rules []labels.Rule) error {
	places := slices.ContainsFunc(rules, func(r labels.Rule) bool { return r.Kind != labels.Mask })
	if len(rules) == 0 {
		return nil
	}
	for i, raw := range list {
		if err := checkLabels(i, raw, places); err != nil {
			return err
		}
	}
	return nil
}

func checkLabels(index int, raw json.RawMessage, places bool) error {
	name, v, err := parseOne(index, raw)
	if err != nil {
		return err
	}
	if theTable().entry(name).NoLabels {
		return &Error{Index: index, Transform: name, Text: "it moves no labels (expected a transform that does, or no labels)"}
	}
	if mode := v["padding_mode"].text; places && mode != "" && mode != "constant" {
		return &Error{Index: index, Transform: name, Argument: "padding_mode", Text: fmt.Sprintf("is %q (expected \"constant\", for boxes and points have no place in another)", mode)}
	}
	for _, inner := range v["transforms"].list {
		if err := checkLabels(index, inner, places); err != nil {
			return err
		}
	}
	return nil
}
