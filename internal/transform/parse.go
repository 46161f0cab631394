package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// Options are the form of the finished sample. Empty strings mean float32, NCHW, div and exact.
type Options struct {
	DType  string // uint8, float16, bfloat16, float32
	Layout string // NCHW, NHWC
	Scale  string // div: v1 ToTensor; mul: v2 ToDtype(scale=True)
	Mode   string // exact, fast
}

// Parse checks a list of transforms, each a JSON object with a name and arguments, and compiles it.
// The error names the transform and the argument.
func Parse(list []json.RawMessage, options Options) (*native.Plan, error) {
	output, err := options.output()
	if err != nil {
		return nil, err
	}
	var lists [][]native.Op // of each transform
	normalized := -1        // where Normalize stands
	cropped := -1           // where FiveCrop or TenCrop stands
	var erasings []erasing
	var mixed *mixing
	for i, raw := range list {
		name, values, err := parseOne(i, raw)
		if err != nil {
			return nil, err
		}
		if mixed != nil {
			return nil, &Error{Index: mixed.index, Transform: mixed.name, Text: "it is not the last transform (expected at the end, for it takes finished images)"}
		}
		if mixes(name, values) {
			if cropped >= 0 {
				return nil, &Error{Index: i, Transform: name, Text: "it mixes one image a sample, and " + nameOf(list[cropped]) + " makes several (expected one or the other)"}
			}
			if mixed, err = buildMixing(i, name, values, len(slices.Concat(lists...))); err != nil {
				return nil, err
			}
			continue
		}
		if cropped >= 0 && name != "Normalize" {
			return nil, &Error{Index: cropped, Transform: nameOf(list[cropped]), Text: "it is not the last transform (expected at the end, with Normalize alone behind it, which is the same for every crop)"}
		}
		if makesSeveral(name) {
			cropped = i
		}
		switch {
		case erases(name):
			// What is done to the finished values may stand behind Normalize.
		case normalized >= 0:
			return nil, &Error{Index: normalized, Transform: "Normalize", Text: "it is not the last transform (expected at the end, with erasings alone behind it)"}
		case name == "Normalize":
			if output.DType == native.Uint8 {
				return nil, &Error{Index: i, Transform: name, Text: "dtype is \"uint8\" (expected a float: the result has fractions)"}
			}
			normalized = i
			output.Normalize = true
			for c := range output.Mean {
				output.Mean[c] = float32(values["mean"].each(c))
				output.Std[c] = float32(values["std"].each(c))
			}
			if err := normalizeErasings(erasings, output); err != nil {
				return nil, err
			}
			continue
		case len(erasings) > 0:
			return nil, &Error{Index: erasings[0].index, Transform: erasings[0].name, Text: "it is not the last transform (expected at the end, with Normalize alone behind it)"}
		}
		made, err := buildAll(name, values, 0)
		if err != nil {
			err.place(i, name)
			return nil, err
		}
		if erases(name) {
			erasings = append(erasings, erasing{&made[0], i, name})
		}
		lists = append(lists, made)
	}
	if err := checkErasings(erasings, output); err != nil {
		return nil, err
	}
	ops := slices.Concat(lists...)
	if len(ops) > native.MaxOps {
		return nil, &Error{Index: native.MaxOps, Text: fmt.Sprintf("one too many (expected at most %d transforms, those in groups included)", native.MaxOps)}
	}
	output.Unmixed = mixed != nil
	plan, err := native.NewPlan(ops, output)
	if err != nil {
		return nil, Explain(list, err) // a combination that no argument's own rule forbids
	}
	if mixed == nil {
		return plan, nil
	}
	if err := mixed.join(plan, output.DType); err != nil {
		plan.Close()
		return nil, err
	}
	return plan, nil
}

// makesSeveral: images from one, which nothing but Normalize can go on with.
func makesSeveral(name string) bool { return name == "FiveCrop" || name == "TenCrop" }

// each is element i of a list, or the one number that stands for all.
func (v value) each(i int) float64 {
	if len(v.numbers) == 1 {
		return v.numbers[0]
	}
	return v.numbers[i]
}

// parseOne reads one transform's name and all its arguments, defaults included.
func parseOne(index int, raw json.RawMessage) (string, map[string]value, *Error) {
	return parseNamed("transform", theTable().Transforms, index, raw)
}

// parseNamed reads one object of a list of the table.
func parseNamed(what string, entries []entry, index int, raw json.RawMessage) (string, map[string]value, *Error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return "", nil, &Error{Index: index, Text: "it is " + short(raw) + " (expected an object with a name)"}
	}
	var name string
	if err := json.Unmarshal(given["name"], &name); err != nil {
		return "", nil, &Error{Index: index, Text: "it has no name"}
	}
	e := find(entries, name)
	if e == nil {
		return "", nil, &Error{Index: index, Transform: name, Text: "there is no such " + what + " (expected one of " + strings.Join(namesOf(entries), ", ") + ")"}
	}
	// In order of names, so that of two unknown ones always the same is reported.
	var unknown []string
	for key := range given {
		if key != "name" && !e.takes(key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		return "", nil, &Error{Index: index, Transform: name, Argument: slices.Min(unknown), Text: "is no argument of it (expected one of " + strings.Join(e.argumentNames(), ", ") + ")"}
	}
	values := make(map[string]value, len(e.Arguments))
	for i := range e.Arguments {
		a := &e.Arguments[i]
		text, ok := given[a.Name]
		if !ok {
			text = a.Default
		}
		if text == nil {
			return "", nil, &Error{Index: index, Transform: name, Argument: a.Name, Text: "is missing"}
		}
		v, err := a.read(text)
		if err != nil {
			return "", nil, &Error{Index: index, Transform: name, Argument: a.Name, Text: err.Error()}
		}
		values[a.Name] = v
	}
	return name, values, nil
}

// output checks the form of the sample; what each name means stands in native/write/output.h.
func (o Options) output() (native.Output, error) {
	var out native.Output
	for _, choice := range []struct {
		what, value, fallback string
		names                 map[string]int32
		to                    *int32
	}{
		{"dtype", o.DType, "float32", map[string]int32{"uint8": native.Uint8, "float16": native.Float16,
			"bfloat16": native.BFloat16, "float32": native.Float32}, &out.DType},
		{"layout", o.Layout, "NCHW", map[string]int32{"NCHW": native.NCHW, "NHWC": native.NHWC}, &out.Layout},
		{"scale", o.Scale, "div", map[string]int32{"div": native.ScaleDiv, "mul": native.ScaleMul}, &out.Scale},
		{"mode", o.Mode, "exact", map[string]int32{"exact": native.Exact, "fast": native.Fast}, &out.Mode},
	} {
		if choice.value == "" { // not given
			choice.value = choice.fallback
		}
		number, ok := choice.names[choice.value]
		if !ok {
			return out, errors.New(fault.Argument(choice.what, choice.value, oneOf(slices.Sorted(maps.Keys(choice.names)))))
		}
		*choice.to = number
	}
	return out, nil
}
