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

// maxLength is the greatest side of an image that transforms may ask for: JPEG's.
const maxLength = 65535

// value is an argument in the one shape its type has, whatever shape it was written in.
type value struct {
	numbers []float64
	text    string
	list    []json.RawMessage // transforms within a transform
	address uint64
	isNull  bool
}

// on is whether a bool is true.
func (v value) on() bool { return v.numbers[0] == 1 }

func (v value) integer(i int) int32 { return int32(v.numbers[i]) }

// read turns JSON into the shape of the argument's type. The error completes the sentence
// "<argument> ...".
func (a *argument) read(raw json.RawMessage) (value, error) {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		// torchvision takes None, too, and antialias means nothing on PIL images.
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

func readChoice(raw json.RawMessage, choices []string) (value, error) {
	var text string
	if json.Unmarshal(raw, &text) != nil || !slices.Contains(choices, text) {
		return value{}, fmt.Errorf("is %s (expected %s)", short(raw), oneOf(choices))
	}
	return value{text: text}, nil
}

// numberRule is a type made of numbers: how many may be written, what each may be.
type numberRule struct {
	counts   []int // lengths a list may have
	whole    bool
	low      float64
	high     float64
	openLow  bool
	ordered  bool
	noScalar bool
	anyCount bool // a list of any length
	odd      bool
	either   []float64 // one of two, if given
	notZero  bool      // after rounding to float32, as torch holds it
}

var numeric = map[string]numberRule{
	"size":            {counts: []int{1, 2}, whole: true, low: 1, high: maxLength},
	"shorter_or_size": {counts: []int{1, 2}, whole: true, low: 1, high: maxLength},
	"least":           {low: 1, high: math.MaxFloat32},
	"sizes":           {whole: true, low: 1, high: maxLength, anyCount: true},
	"height_width":    {counts: []int{2}, whole: true, low: 1, high: maxLength, noScalar: true},
	"overlaps":        {low: 0, high: 1e6, noScalar: true, anyCount: true},
	"aspect_ratio":    {low: 0, high: 1e6},
	"trials":          {whole: true, low: 1, high: 1000},
	"side_range":      {counts: []int{2}, low: 1, high: maxLength, ordered: true, noScalar: true},
	"part":            {counts: []int{4}, low: 0, high: maxLength, noScalar: true},
	"whole_factors":   {counts: []int{1, 2}, whole: true, low: 1, high: 65_536},
	"draft_factor":    {whole: true, low: 1, high: 8},
	"multiple":        {whole: true, low: 1, high: 64},
	"length":          {whole: true, low: 1, high: maxLength},
	"offset":          {whole: true, low: -maxLength, high: maxLength},
	"padding":         {counts: []int{1, 2, 4}, whole: true, low: 0, high: maxLength},
	"fill":            {counts: []int{1, 3}, whole: true, low: 0, high: 255},
	"tensor_fill":     {counts: []int{1, 3}, whole: true, low: 0, high: 255},
	"interval":        {counts: []int{2}, low: 0, openLow: true, high: math.MaxFloat32, ordered: true, noScalar: true},
	"probability":     {low: 0, high: 1},
	"grey_channels":   {low: 1, high: 3, either: []float64{1, 3}},
	"jitter":          {counts: []int{2}, low: 0, high: 1e9, ordered: true},
	"factors":         {counts: []int{2}, low: 0, high: 1e9, ordered: true, noScalar: true},
	"turns":           {counts: []int{2}, low: -0.5, high: 0.5, ordered: true, noScalar: true},
	"hue_jitter":      {counts: []int{2}, low: -0.5, high: 0.5, ordered: true},
	"factor":          {low: 0, high: 1e9},
	"positive":        {low: 0, openLow: true, high: 1e6},
	"number":          {low: -1e6, high: 1e6},
	"turn":            {low: -0.5, high: 0.5},
	"bits":            {whole: true, low: 1, high: 8},
	"bits_or_none":    {whole: true, low: 0, high: 8},
	"kernel":          {counts: []int{1, 2}, whole: true, low: 1, high: 1023, odd: true},
	"sigma":           {counts: []int{2}, low: 0, openLow: true, high: 1e6, ordered: true},
	"deviation":       {counts: []int{1, 2}, low: 0, openLow: true, high: 1e6},
	"elastic_alpha":   {counts: []int{1, 2}, low: -1e6, high: 1e6},
	"elastic_sigma":   {counts: []int{1, 2}, low: 0, high: 127},
	"degrees":         {counts: []int{2}, low: -1e6, high: 1e6, ordered: true},
	"erased":          {counts: []int{2}, low: 0, high: 1, ordered: true, noScalar: true},
	"quality":         {counts: []int{2}, whole: true, low: 1, high: 100, ordered: true},
	"noise_mean":      {low: -10, high: 10},
	"noise_deviation": {low: 0, high: 10},
	"noise_key":       {counts: []int{4}, whole: true, low: 0, high: math.MaxUint32, noScalar: true},
	"boxes":           {whole: true, low: 1, high: native.MaxErasings},
	"alpha":           {low: 0, high: 1e6, openLow: true},
	"alpha_or_0":      {low: 0, high: 1e6},
	"classes":         {whole: true, low: 1, high: 1 << 24},
	"shares":          {counts: []int{2}, low: 0, high: 1, noScalar: true},
	"shear":           {counts: []int{2, 4}, low: -1e6, high: 1e6},
	"centre":          {counts: []int{2}, low: -1e6, high: 1e6, noScalar: true},
	"pair":            {counts: []int{2}, low: -1e6, high: 1e6, noScalar: true},
	"eight":           {counts: []int{8}, low: -1e9, high: 1e9, noScalar: true},
	"six":             {counts: []int{6}, low: -1e9, high: 1e9, noScalar: true},
	"permutation":     {counts: []int{3}, whole: true, low: 0, high: 2, noScalar: true},
	"severity":        {whole: true, low: 1, high: 10},
	"version":         {whole: true, low: 1, high: 2},
	"chains":          {whole: true, low: 1, high: 16},
	"depth":           {whole: true, low: -1, high: 64},
	"concentration":   {low: 1e-3, high: 1e3},
	"radius":          {counts: []int{2}, low: 0, high: 1000},
	"radius_bounds":   {counts: []int{2}, low: 0, high: 1000, ordered: true},
	"byte":            {whole: true, low: 0, high: 255},
	"threshold":       {whole: true, low: 0, high: 256},
	"weights":         {counts: nil, low: 0, high: 1e9, noScalar: true, anyCount: true},
	"count":           {whole: true, low: 0, high: 1 << 20},
	"bins":            {whole: true, low: 1, high: 1 << 20},
	"channels":        {counts: []int{1, 3}, low: -math.MaxFloat32, high: math.MaxFloat32},
	"deviations":      {counts: []int{1, 3}, low: -math.MaxFloat32, high: math.MaxFloat32, notZero: true},
}

func (r numberRule) read(raw json.RawMessage) ([]float64, error) {
	var list []json.RawMessage
	// A list first: a number is no list, and a list of one is a scalar's other form.
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

// readOne reads an element, or says what was expected of it. The caller quotes the whole value, as the
// user wrote it.
func (r numberRule) readOne(raw json.RawMessage, number *float64) (expected string) {
	// json reads null into a float64 without complaint, and leaves it alone.
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, number) != nil {
		return r.shape()
	}
	n := *number
	if len(r.either) > 0 && !slices.Contains(r.either, n) {
		return fmt.Sprintf("%v or %v", r.either[0], r.either[1])
	}
	// JSON has no NaN, which would pass all of these.
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

// shape says in words what a value may be.
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

// short quotes what was found, cut where it is long.
func short(raw json.RawMessage) string {
	text := string(bytes.TrimSpace(raw))
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}
