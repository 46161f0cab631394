package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// Options are the form of the finished sample. "" means float32, NCHW, div and exact.
type Options struct {
	DType  string // uint8, float16, bfloat16, float32
	Layout string // NCHW, NHWC
	Scale  string // div: v1 ToTensor; mul: v2 ToDtype(scale=True)
	Mode   string // exact, fast
	Pillow string // the version whose pixels are wanted, as "12.3" or "12.3.0"; "": the newest
	// SourceWidth and SourceHeight are those of every image, if they are known to be equal; otherwise 0.
	SourceWidth, SourceHeight uint32
	SourceGrey                bool // each has one channel
}

// Parse checks a list of transforms, each a JSON object with a name and arguments, and compiles it. The error names the
// transform and the argument. The list comes from outside. Each number is checked here, so that the error names its
// argument; native checks its own bounds again before it computes with them.
func Parse(list []json.RawMessage, options Options) (*native.Plan, error) {
	output, err := options.output()
	if err != nil {
		return nil, err
	}
	p := parser{list: list, output: output, normalized: -1, cropped: -1}
	for i, raw := range list {
		if err := p.add(i, raw); err != nil {
			return nil, err
		}
	}
	return p.compile()
}

// parser holds a list that is being read, and what its order depends on.
type parser struct {
	list       []json.RawMessage
	output     native.Output
	ops        [][]native.Op // for each transform
	normalized int           // index of Normalize, or -1
	cropped    int           // index of FiveCrop or TenCrop, or -1
	erasings   []erasing
	mixed      *mixing
}

// add reads the next transform of the list.
func (p *parser) add(i int, raw json.RawMessage) *Error {
	name, values, err := parseOne(i, raw)
	if err != nil {
		return err
	}
	if p.mixed != nil {
		return &Error{Index: p.mixed.index, Transform: p.mixed.name, Text: "it is not the last transform (expected at the end, for it takes finished images)"}
	}
	if mixes(name, values) {
		return p.mix(i, name, values)
	}
	// Places are checked before arguments: a second Normalize is reported as such, and not because of its mean.
	if err := p.checkPlace(name); err != nil {
		return err
	}
	if err := p.checkChannels(i, name, values); err != nil {
		return err
	}
	if name == "Normalize" {
		return p.normalize(i, values)
	}
	made, err := buildAll(name, values, 0)
	if err != nil {
		err.place(i, name)
		return err
	}
	// The last one decides: Grayscale(3) after Grayscale(1) makes three channels again.
	if name == "Grayscale" {
		p.output.Grey = values["num_output_channels"].numbers[0] == 1
	}
	if makesSeveral(name) {
		p.cropped = i
	}
	if erases(name) {
		p.erasings = append(p.erasings, erasing{made[0].(*native.Erasing), i, name})
	}
	p.ops = append(p.ops, made)
	return nil
}

// mix reads a transform of whole batches, which is not an op of the plan. Its ops are numbered after those of the plan,
// as if they were part of it.
func (p *parser) mix(i int, name string, values map[string]value) (err *Error) {
	if p.cropped >= 0 {
		return &Error{Index: i, Transform: name, Text: "it mixes one image a sample, and " + nameOf(p.list[p.cropped]) + " makes several (expected one or the other)"}
	}
	p.mixed, err = buildMixing(i, name, values, len(slices.Concat(p.ops...)))
	return err
}

// checkPlace: a transform that must come last refuses whatever follows it.
func (p *parser) checkPlace(name string) *Error {
	if p.cropped >= 0 && name != "Normalize" {
		return &Error{Index: p.cropped, Transform: nameOf(p.list[p.cropped]), Text: "it is not the last transform (expected at the end, with Normalize alone behind it, which is the same for every crop)"}
	}
	if erases(name) {
		return nil // ops on the finished values may follow Normalize
	}
	if p.normalized >= 0 {
		return &Error{Index: p.normalized, Transform: "Normalize", Text: "it is not the last transform (expected at the end, with erasings alone behind it)"}
	}
	if len(p.erasings) > 0 && name != "Normalize" {
		return &Error{Index: p.erasings[0].index, Transform: p.erasings[0].name, Text: "it is not the last transform (expected at the end, with Normalize alone behind it)"}
	}
	return nil
}

// checkChannels: if one channel is left, three numbers for it are a mistake; one number for all is allowed.
func (p *parser) checkChannels(i int, name string, values map[string]value) *Error {
	for _, argument := range []string{"mean", "std", "fill", "value"} {
		if p.output.Grey && len(values[argument].numbers) == 3 {
			return &Error{Index: i, Transform: name, Argument: argument, Text: "has 3 numbers, and Grayscale(1) leaves one channel (expected one number)"}
		}
	}
	return nil
}

// normalize is applied when values are written, and so it is not an op either. Torch computes it in float32.
func (p *parser) normalize(i int, values map[string]value) *Error {
	if p.output.DType == native.Uint8 {
		return &Error{Index: i, Transform: "Normalize", Text: "dtype is \"uint8\" (expected a float: the result has fractions)"}
	}
	p.normalized = i
	p.output.Normalize = true
	for c := range p.output.Mean {
		p.output.Mean[c] = float32(values["mean"].each(c))
		p.output.Std[c] = float32(values["std"].each(c))
	}
	return normalizeErasings(p.erasings, p.output)
}

// compile makes the plan of everything that was read. Of several errors, those that need the whole list come first,
// then native's own.
func (p *parser) compile() (*native.Plan, error) {
	if err := checkErasings(p.erasings, p.output); err != nil {
		return nil, err
	}
	ops := slices.Concat(p.ops...)
	if len(ops) > native.MaxOps {
		return nil, &Error{Index: native.MaxOps, Text: fmt.Sprintf("one too many (expected at most %d transforms, those in groups included)", native.MaxOps)}
	}
	// A sample that is mixed is kept as bytes of pixels until its partner's bytes are there (native/plan/mix.c).
	p.output.Unmixed = p.mixed != nil
	plan, err := native.NewPlan(ops, p.output)
	if err != nil {
		return nil, Explain(p.list, err) // a combination that the rule of no single argument forbids
	}
	if p.mixed == nil {
		return plan, nil
	}
	if err := p.mixed.join(plan, p.output.DType); err != nil {
		plan.Close() // C's memory, which Go's garbage collector does not free
		return nil, err
	}
	return plan, nil
}

// makesSeveral is true for transforms that make several images of one; only Normalize may follow them.
func makesSeveral(name string) bool { return name == "FiveCrop" || name == "TenCrop" }

// each returns element i of a list, or the one number that stands for all. The count of numbers was checked with the
// argument's type (numberRule.counts), so i is in range.
func (v value) each(i int) float64 {
	if len(v.numbers) == 1 {
		return v.numbers[0]
	}
	return v.numbers[i]
}

// pair returns two numbers, or one that stands for both.
func (v value) pair() [2]float64 { return [2]float64{v.each(0), v.each(1)} }

// triple returns a number for each channel, or one that stands for all.
func (v value) triple() [3]float64 { return [3]float64{v.each(0), v.each(1), v.each(2)} }

// parseOne reads one transform's name and all its arguments, defaults included.
func parseOne(index int, raw json.RawMessage) (string, map[string]value, *Error) {
	return parseNamed("transform", theTable().Transforms, index, raw)
}

// parseNamed reads one object of a list of the table. Arguments are read in the table's order, so that of several wrong
// ones the same one is always reported.
func parseNamed(what string, entries []entry, index int, raw json.RawMessage) (string, map[string]value, *Error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return "", nil, &Error{Index: index, Text: "it is " + short(raw) + " (expected an object with a name)"}
	}
	var name string
	// An empty text is not JSON, so a missing name is an error here.
	if err := json.Unmarshal(given["name"], &name); err != nil {
		return "", nil, &Error{Index: index, Text: "it has no name"}
	}
	e := find(entries, name)
	if e == nil {
		return "", nil, &Error{Index: index, Transform: name, Text: "there is no such " + what + " (expected one of " + strings.Join(namesOf(entries), ", ") + ")"}
	}
	// They are sorted, so that of two unknown names the same one is always reported.
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
	// This sets all arguments, given or not, so that a builder finds each of them.
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

// dtypes of finished values, by their names.
var dtypes = map[string]int32{"uint8": native.Uint8, "float16": native.Float16, "bfloat16": native.BFloat16, "float32": native.Float32}

// passesOf says which pass of a resize comes first in a version of Pillow: Image.resize in PIL/Image.py, and
// ImagingResample in Resample.c.
func passesOf(pillow string) (int32, error) {
	if pillow == "" {
		return native.PassesCheaper, nil
	}
	first, rest, _ := strings.Cut(pillow, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.ParseUint(first, 10, 16)
	minor := uint64(0)
	if err == nil && rest != "" {
		minor, err = strconv.ParseUint(second, 10, 16)
	}
	switch {
	case err != nil:
		return 0, errors.New(fault.Argument("pillow", pillow, `a version such as "12.3"`))
	// Since 13, the vertical pass comes first if it saves more than twice as much as the other one. From 12.2 on it
	// comes first if the image is over 100 times as high as wide and shrinks; before 12.2 it never does. The order
	// shows in the last bit, because bytes are rounded between the passes.
	case major >= 13:
		return native.PassesCheaper, nil
	case major == 12 && minor >= 2:
		return native.PassesTall, nil
	}
	return native.PassesHorizontal, nil
}

// output checks the form of the sample; native/write/output.h explains each name.
func (o Options) output() (native.Output, error) {
	passes, err := passesOf(o.Pillow)
	if err != nil {
		return native.Output{}, err
	}
	out := native.Output{Passes: passes, SourceWidth: o.SourceWidth, SourceHeight: o.SourceHeight, SourceGrey: o.SourceGrey}
	for _, choice := range []struct {
		what, value, fallback string
		names                 map[string]int32
		to                    *int32
	}{
		{"dtype", o.DType, "float32", dtypes, &out.DType},
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
