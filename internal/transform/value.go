package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headrace/headrace/native"
)

// maxLength is the greatest side of an image that transforms may ask for: JPEG's, whose frame header has 16 bits for it
// (ITU-T T.81, B.2.2).
const maxLength = 65535

// value is an argument in the one form of its type, whatever form it was written in. The argument's type in
// transforms.json says which member holds it, and a builder knows that.
type value struct {
	numbers []float64
	text    string
	list    []json.RawMessage // transforms within a transform
	address uint64
	isNull  bool
}

// on returns whether a bool is true. JSON's true and false become 1 and 0, so that one slice is enough for all numeric
// types.
func (v value) on() bool { return v.numbers[0] == 1 }

// integer needs no check: a type of whole numbers has bounds within an int32, or its builder does not call this
// (noise_key).
func (v value) integer(i int) int32 { return int32(v.numbers[i]) }

// read turns JSON into the shape of the argument's type. The error completes the sentence
// "<argument> ...".
func (a *argument) read(raw json.RawMessage) (value, error) {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		// torchvision accepts None for antialias, too. It means nothing on PIL images, because Pillow always resizes
		// with antialiasing.
		if a.Nullable || a.Type == "antialias" {
			return value{isNull: true}, nil
		}
		return value{}, errors.New("is null (expected a value)")
	}
	if choices, ok := theTable().Choices[a.Type]; ok {
		return readChoice(raw, choices)
	}
	switch a.Type {
	case "transforms":
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
			return value{}, fmt.Errorf("is %s (expected a list of transforms)", short(raw))
		}
		return value{list: list}, nil
	case "address":
		var address uint64
		if json.Unmarshal(raw, &address) != nil {
			return value{}, fmt.Errorf("is %s (expected an address, a whole number from 0 to 2^64-1)", short(raw))
		}
		return value{address: address}, nil
	case "text":
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return value{}, fmt.Errorf("is %s (expected a string)", short(raw))
		}
		return value{text: text}, nil
	// RandomErasing's value is a number, three of them, or this word.
	case "erasing_value":
		var text string
		if json.Unmarshal(raw, &text) == nil && text == "random" {
			return value{text: text}, nil
		}
		numbers, err := numeric["channels"].read(raw)
		return value{numbers: numbers}, err
	case "bool", "antialias":
		var on bool
		if json.Unmarshal(raw, &on) != nil {
			return value{}, fmt.Errorf("is %s (expected true or false)", short(raw))
		}
		if on {
			return value{numbers: []float64{1}}, nil
		}
		return value{numbers: []float64{0}}, nil
	}
	rule, ok := numeric[a.Type]
	if !ok {
		return value{}, fmt.Errorf("has the unknown type %q", a.Type)
	}
	numbers, err := rule.read(raw)
	return value{numbers: numbers}, err
}

// readChoice reads one of a few words.
func readChoice(raw json.RawMessage, choices []string) (value, error) {
	var text string
	if json.Unmarshal(raw, &text) != nil || !slices.Contains(choices, text) {
		return value{}, fmt.Errorf("is %s (expected %s)", short(raw), oneOf(choices))
	}
	return value{text: text}, nil
}

// numberRule describes a type made of numbers: how many may be written, and what each may be. The zero value allows one
// number from 0 to 0, so a rule that forgets its bounds refuses everything else.
type numberRule struct {
	counts   []int // lengths a list may have; nil: only one number
	whole    bool
	low      float64
	high     float64
	openLow  bool // low itself is refused
	ordered  bool // two numbers are an interval
	noScalar bool // one number does not stand for several
	anyCount bool // a list of any length
	odd      bool
	either   []float64 // one of two, if given
	notZero  bool      // after rounding to float32, as torch holds it
}

// numeric are the types of the table that are made of numbers. Each bound is torchvision's if it has one. Otherwise a
// bound keeps products of numbers that come from outside within what the engine computes with: coordinates in int32 and
// float64. The C side checks its own bounds again, which are at least as wide (check.c and checkpixel.c in
// native/draws, check.c in native/plan).
var numeric = map[string]numberRule{
	// Lengths in pixels.
	"size":            {counts: []int{1, 2}, whole: true, low: 1, high: maxLength},
	"shorter_or_size": {counts: []int{1, 2}, whole: true, low: 1, high: maxLength},
	"sizes":           {whole: true, low: 1, high: maxLength, anyCount: true},
	"height_width":    {counts: []int{2}, whole: true, low: 1, high: maxLength, noScalar: true},
	"length":          {whole: true, low: 1, high: maxLength},
	"part":            {counts: []int{4}, low: 0, high: maxLength, noScalar: true},
	"padding":         {counts: []int{1, 2, 4}, whole: true, low: 0, high: maxLength},
	// A corner may lie outside the image, to its left or above it.
	"offset": {whole: true, low: -maxLength, high: maxLength},
	"least":  {low: 1, high: math.MaxFloat32},

	// Factors of lengths. The result is bounded like an image, so these bounds need not be tight.
	"whole_factors": {counts: []int{1, 2}, whole: true, low: 1, high: 65_536}, // HRN_MAX_FACTOR
	"draft_factor":  {whole: true, low: 1, high: 8},                           // libjpeg's scales: 1, 1/2, 1/4, 1/8
	"multiple":      {whole: true, low: 1, high: 64},
	"side_range":    {counts: []int{2}, low: 1, high: maxLength, ordered: true, noScalar: true},
	"interval":      {counts: []int{2}, low: 0, openLow: true, high: math.MaxFloat32, ordered: true, noScalar: true},
	"positive":      {low: 0, openLow: true, high: 1e6},

	// RandomIoUCrop. An overlap of 1 or more means that the image is left alone.
	"overlaps":     {low: 0, high: 1e6, noScalar: true, anyCount: true},
	"aspect_ratio": {low: 0, high: 1e6},
	"trials":       {whole: true, low: 1, high: 1000}, // draws for one image: docs/limits.md

	// Colours: bytes, and what is done to them.
	"fill":        {counts: []int{1, 3}, whole: true, low: 0, high: 255},
	"tensor_fill": {counts: []int{1, 3}, whole: true, low: 0, high: 255},
	"byte":        {whole: true, low: 0, high: 255},
	// 256 is above every byte: nothing is inverted.
	"threshold": {whole: true, low: 0, high: 256},
	"bits":      {whole: true, low: 1, high: 8},
	// Policies may keep no bit (timm at level 0, AugMix at the last magnitude), so a replay may contain 0.
	"bits_or_none":  {whole: true, low: 0, high: 8},
	"grey_channels": {low: 1, high: 3, either: []float64{1, 3}},
	"permutation":   {counts: []int{3}, whole: true, low: 0, high: 2, noScalar: true},
	"jitter":        {counts: []int{2}, low: 0, high: 1e9, ordered: true},
	"factors":       {counts: []int{2}, low: 0, high: 1e9, ordered: true, noScalar: true},
	"factor":        {low: 0, high: 1e9},
	// A share of the circle of hues, in both directions to its opposite side: torchvision's adjust_hue has the same
	// bounds.
	"hue_jitter": {counts: []int{2}, low: -0.5, high: 0.5, ordered: true},
	"turns":      {counts: []int{2}, low: -0.5, high: 0.5, ordered: true, noScalar: true},
	"turn":       {low: -0.5, high: 0.5},
	"number":     {low: -1e6, high: 1e6},

	// Filters. The side of a kernel is at most HRN_MAX_BLUR; an elastic kernel has int(8 sigma + 1), made odd.
	"kernel":        {counts: []int{1, 2}, whole: true, low: 1, high: 1023, odd: true},
	"elastic_sigma": {counts: []int{1, 2}, low: 0, high: 127},
	"elastic_alpha": {counts: []int{1, 2}, low: -1e6, high: 1e6},
	"sigma":         {counts: []int{2}, low: 0, openLow: true, high: 1e6, ordered: true},
	"deviation":     {counts: []int{1, 2}, low: 0, openLow: true, high: 1e6},
	"radius":        {counts: []int{2}, low: 0, high: 1000},
	"radius_bounds": {counts: []int{2}, low: 0, high: 1000, ordered: true},
	"quality":       {counts: []int{2}, whole: true, low: 1, high: 100, ordered: true},

	// Noise is for values in 0..1; a deviation of 10 already drowns all of them.
	"noise_mean":      {low: -10, high: 10},
	"noise_deviation": {low: 0, high: 10},
	"noise_key":       {counts: []int{4}, whole: true, low: 0, high: math.MaxUint32, noScalar: true},

	// Warps.
	"degrees": {counts: []int{2}, low: -1e6, high: 1e6, ordered: true},
	"shear":   {counts: []int{2, 4}, low: -1e6, high: 1e6},
	"centre":  {counts: []int{2}, low: -1e6, high: 1e6, noScalar: true},
	"pair":    {counts: []int{2}, low: -1e6, high: 1e6, noScalar: true},
	"eight":   {counts: []int{8}, low: -1e9, high: 1e9, noScalar: true},
	"six":     {counts: []int{6}, low: -1e9, high: 1e9, noScalar: true},

	// Chance.
	"probability": {low: 0, high: 1},
	"weights":     {counts: nil, low: 0, high: 1e9, noScalar: true, anyCount: true},

	// Erasing.
	"erased": {counts: []int{2}, low: 0, high: 1, ordered: true, noScalar: true},
	"boxes":  {whole: true, low: 1, high: native.MaxErasings},

	// Policies. A count is also used for other numbers, such as rows. buildAugMix bounds the length of all chains of
	// AugMix together.
	"count":         {whole: true, low: 0, high: 1 << 20},
	"bins":          {whole: true, low: 1, high: 1 << 20},
	"severity":      {whole: true, low: 1, high: 10}, // AugMix._PARAMETER_MAX
	"version":       {whole: true, low: 1, high: 2},
	"chains":        {whole: true, low: 1, high: 16},
	"depth":         {whole: true, low: -1, high: 64},
	"concentration": {low: 1e-3, high: 1e3},

	// Mixing. A soft label is a float32 for each class and sample, which a slot has to hold.
	"alpha":      {low: 0, high: 1e6, openLow: true},
	"alpha_or_0": {low: 0, high: 1e6},
	"classes":    {whole: true, low: 1, high: 1 << 24},
	"shares":     {counts: []int{2}, low: 0, high: 1, noScalar: true},

	// These are finished values, which are float32.
	"channels":   {counts: []int{1, 3}, low: -math.MaxFloat32, high: math.MaxFloat32},
	"deviations": {counts: []int{1, 3}, low: -math.MaxFloat32, high: math.MaxFloat32, notZero: true},
}

// read reads a number or a list of some. The error completes the sentence "<argument> ...".
func (r numberRule) read(raw json.RawMessage) ([]float64, error) {
	var list []json.RawMessage
	// It is tried as a list first: a number is not a list, and a list of one is another form of a scalar.
	if json.Unmarshal(raw, &list) == nil {
		if !r.anyCount && !slices.Contains(r.counts, len(list)) {
			return nil, fmt.Errorf("is %s (expected %s)", short(raw), r.shape())
		}
	} else if r.noScalar {
		return nil, fmt.Errorf("is %s (expected %s)", short(raw), r.shape())
	} else {
		list = []json.RawMessage{raw}
	}
	numbers := make([]float64, len(list))
	for i, item := range list {
		if expected := r.readOne(item, &numbers[i]); expected != "" {
			return nil, fmt.Errorf("is %s (expected %s)", short(raw), expected)
		}
	}
	if r.ordered && len(numbers) == 2 && numbers[0] > numbers[1] {
		return nil, fmt.Errorf("is %s (expected the lower bound first)", short(raw))
	}
	return numbers, nil
}

// readOne reads an element, or returns what was expected. The caller quotes the whole value as the user wrote it.
func (r numberRule) readOne(raw json.RawMessage, number *float64) (expected string) {
	// json silently accepts null for a float64 and leaves it alone.
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, number) != nil {
		return r.shape()
	}
	n := *number
	if len(r.either) > 0 && !slices.Contains(r.either, n) {
		return fmt.Sprintf("%v or %v", r.either[0], r.either[1])
	}
	// JSON has no NaN, which would pass all of these checks.
	if n < r.low || n > r.high || (r.openLow && n == r.low) || (r.whole && n != math.Trunc(n)) {
		return r.shape()
	}
	if r.odd && math.Mod(n, 2) != 1 {
		return "odd numbers"
	}
	if r.notZero && float32(n) == 0 {
		return "numbers that are not 0 in float32, for they divide"
	}
	return ""
}

// shape says in words what a value may be. It is made from the rule itself, so an error cannot name other bounds than
// those that are checked.
func (r numberRule) shape() string {
	one := "a number"
	if r.whole {
		one = "a whole number"
	}
	switch {
	case r.openLow:
		one += " above 0"
	case r.low == 0 && r.high == math.MaxFloat32:
		one += " from 0 on"
	case r.high < math.MaxFloat32:
		one += fmt.Sprintf(" from %v to %v", r.low, r.high)
	}
	switch {
	case r.anyCount:
		return "a list, each " + one
	case len(r.counts) == 0:
		return one
	}
	lengths := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(r.counts)), " or "), "[]")
	if r.noScalar {
		return fmt.Sprintf("a list of %s, each %s", lengths, one)
	}
	return fmt.Sprintf("%s, or a list of %s such", one, lengths)
}

// oneOf lists choices as they are written.
func oneOf(choices []string) string { return `one of "` + strings.Join(choices, `", "`) + `"` }

// short quotes what was found, and cuts it if it is long.
func short(raw json.RawMessage) string {
	text := string(bytes.TrimSpace(raw))
	if len(text) > 60 {
		// The cut may leave a part of a character, which is removed.
		return strings.ToValidUTF8(text[:60], "") + "..."
	}
	return text
}
