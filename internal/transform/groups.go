package transform

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// maxDepth bounds transforms within transforms (docs/limits.md), because a list comes from outside, and reading it is
// recursive.
const maxDepth = 8

// buildAll makes the ops of one transform: its own, or those of a group with its contents. depth counts the groups
// around the transform: 0 for an entry of the user's list.
func buildAll(name string, v map[string]value, depth int) ([]native.Op, *Error) {
	switch {
	case depth > maxDepth:
		return nil, &Error{Text: fmt.Sprintf("it is nested too deep (expected at most %d levels)", maxDepth)}
	// There is one draw for the whole list: all of it is done, or nothing.
	case name == "RandomApply":
		inner, err := buildList(v["transforms"].list, depth)
		return group(native.OpApply, v["p"].numbers[0], 1, inner), err
	case name == "RandomChoice" || name == "RandomOrder":
		return buildMembers(name, v, depth)
	// It is a separate class in torchvision, and in the engine a group of its parts.
	case name == "RandomPhotometricDistort":
		return buildPhotometric(v), nil
	}
	op, err := build(name, v)
	if err != nil {
		return nil, err
	}
	// A group may be skipped, and then the number of channels of the batch's images would depend on chance.
	if name == "Grayscale" && depth > 0 && v["num_output_channels"].numbers[0] == 1 {
		return nil, &Error{Argument: "num_output_channels", Text: "is 1 in a group (expected 3: all images of a batch have as many channels)"}
	}
	// The op itself has no probability. In a group of its own it gets the group's.
	if theTable().entry(name).WithChance {
		return group(native.OpApply, v["p"].numbers[0], 1, []native.Op{op}), nil
	}
	return []native.Op{op}, nil
}

// buildPhotometric: each of ColorJitter's changes is applied separately with the probability p, and contrast in one of
// two places. torchvision draws one contrast and then its place; a choice between two that are drawn in the same way
// gives the same.
func buildPhotometric(v map[string]value) []native.Op {
	p := v["p"].numbers[0]
	change := func(at int, argument string) []native.Op {
		var op native.ColorJitter
		// It is drawn even if the interval is only the factor that changes nothing: unlike for ColorJitter, torchvision
		// does not make it None here (RandomPhotometricDistort.make_params).
		op.Drawn[at], op.Factor[at] = true, v[argument].pair()
		return group(native.OpApply, p, 1, []native.Op{op})
	}
	contrast, colour := change(1, "contrast"), slices.Concat(change(2, "saturation"), change(3, "hue"))
	places := slices.Concat(
		group(native.OpApply, 1, 1, slices.Concat(contrast, colour)),
		group(native.OpApply, 1, 1, slices.Concat(colour, contrast)))
	channels := []native.Op{native.ChannelPermutation{}}
	return slices.Concat(change(0, "brightness"), group(native.OpChoice, 0, 0, places), group(native.OpApply, p, 1, channels))
}

// group puts an op before the others that says how many follow. Only members of a choice have a weight. Count is a
// number of ops and not of transforms, so that native skips a group by adding it.
func group(kind int32, p, weight float64, inner []native.Op) []native.Op {
	// A plan is a flat list for C: a group is a head and the ops that follow it.
	head := native.Group{Kind: kind, Count: int32(len(inner)), Probability: p, Weight: weight}
	return append([]native.Op{head}, inner...)
}

// buildList makes the ops of the transforms in a group, one after the other.
func buildList(list []json.RawMessage, depth int) ([]native.Op, *Error) {
	var ops []native.Op
	for i, raw := range list {
		made, err := buildNested(i, raw, depth)
		if err != nil {
			return nil, err
		}
		// This is checked as the list grows. Otherwise eight levels of long lists would first take memory, and be
		// refused only then.
		if ops = append(ops, made...); len(ops) > native.MaxOps {
			return nil, &Error{Text: fmt.Sprintf("it holds too many (expected at most %d transforms)", native.MaxOps)}
		}
	}
	return ops, nil
}

// buildNested makes the ops of one transform in a group. Its error has the place in the group. Each level above puts
// its own place in front, so in the end the place is that of an entry of the user's list.
func buildNested(index int, raw json.RawMessage, depth int) ([]native.Op, *Error) {
	name, values, err := parseOne(index, raw)
	if err != nil {
		return nil, err
	}
	// These apply to finished values, or to several images. The plan has one place for each, after all ops.
	if name == "Normalize" || erases(name) || makesSeveral(name) {
		return nil, &Error{Transform: name, Text: "it stands inside of another (expected at the end of the list)"}
	}
	if theTable().entry(name).Batch {
		return nil, &Error{Transform: name, Text: "it stands inside of another (expected at the end of the list, in a RandomChoice of such at most)"}
	}
	made, err := buildAll(name, values, depth+1)
	if err != nil {
		err.place(index, name)
	}
	return made, err
}

// buildMembers puts each transform of a choice or an order into a group of its own. A member that became several ops,
// such as a Compose or a RandomApply, still counts once in the draw.
func buildMembers(name string, v map[string]value, depth int) ([]native.Op, *Error) {
	list, weights := v["transforms"].list, v["p"]
	if len(weights.numbers) > 0 && len(weights.numbers) != len(list) {
		text := fmt.Sprintf("has %d weights (expected %d, one a transform)", len(weights.numbers), len(list))
		return nil, &Error{Argument: "p", Text: text}
	}
	sum := 0.0
	var members []native.Op
	for i, raw := range list {
		weight := 1.0
		if len(weights.numbers) > 0 {
			weight = weights.numbers[i]
		}
		sum += weight
		inner, err := buildNested(i, raw, depth)
		if err != nil {
			return nil, err
		}
		// A member of a choice may be a Compose of several transforms: its weight belongs to the group.
		if members = append(members, group(native.OpApply, 1, weight, inner)...); len(members) > native.MaxOps {
			return nil, &Error{Text: fmt.Sprintf("it holds too many (expected at most %d transforms)", native.MaxOps)}
		}
	}
	// A weight may be 0, but not all of them, because then none could be drawn.
	if sum <= 0 {
		return nil, &Error{Argument: "p", Text: "has no weight above 0 (expected one or more)"}
	}
	kind := native.OpChoice
	if name == "RandomOrder" {
		kind = native.OpOrder
	}
	return group(kind, 0, 0, members), nil
}
