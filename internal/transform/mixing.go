package transform

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/headrace/headrace/native"
)

// mixing is the end of a list, which applies to whole batches: MixUp, CutMix, timm's Mixup, or a choice of the first
// two. It is not an op of the plan: the plan makes one sample, and a mix needs two finished samples
// (docs/architecture.md, mix).
type mixing struct {
	index int    // in the list
	name  string // name of the transform there
	mix   native.Mix
}

// mixes says whether the transform, or one that it chooses from, applies to batches.
func mixes(name string, v map[string]value) bool {
	if theTable().entry(name).Batch {
		return true
	}
	return name == "RandomChoice" && slices.ContainsFunc(v["transforms"].list, func(raw json.RawMessage) bool {
		var member struct{ Name string }
		// The code that reads the list reports what is wrong with it.
		if json.Unmarshal(raw, &member) != nil {
			return false
		}
		e := theTable().entry(member.Name)
		return e != nil && e.Batch
	})
}

// buildMixing builds the last entry of a list, which mixes batches. Its ops are numbered from `ops` on, the number of
// ops for single samples, because an op's number is part of the key of its draws.
func buildMixing(index int, name string, v map[string]value, ops int) (*mixing, *Error) {
	m := &mixing{index: index, name: name}
	var err *Error
	if name == "RandomChoice" {
		err = m.addChoice(v, int32(ops))
	} else {
		err = m.add(name, v, int32(ops), 1)
	}
	if err != nil {
		err.place(index, name)
		return nil, err
	}
	return m, nil
}

// addChoice builds a RandomChoice of MixUp and CutMix, which draws one of them for each batch, as torchvision's
// documentation uses it. The choice has its own number, before those of its members.
func (m *mixing) addChoice(v map[string]value, number int32) *Error {
	list, weights := v["transforms"].list, v["p"].numbers
	switch {
	case len(weights) > 0 && len(weights) != len(list):
		return &Error{Argument: "p", Text: fmt.Sprintf("has %d weights (expected %d, one a transform)", len(weights), len(list))}
	case len(list) > native.MaxMixOps:
		return &Error{Text: fmt.Sprintf("it holds %d that mix a batch (expected at most %d)", len(list), native.MaxMixOps)}
	}
	m.mix.Choice = number
	sum := 0.0
	for i, raw := range list {
		name, values, err := parseOne(i, raw)
		if err != nil {
			return err
		}
		// timm's Mixup chooses between the two itself, and pairs samples in another way.
		if name != "MixUp" && name != "CutMix" {
			return &Error{Transform: name, Text: "it stands in a choice of what is done to a batch (expected MixUp and CutMix alone)"}
		}
		weight := 1.0
		if len(weights) > 0 {
			weight = weights[i]
		}
		sum += weight
		// add sets what all ways of mixing a batch have in common; it is kept here for comparison.
		before := m.mix
		if err := m.add(name, values, number+1+int32(i), weight); err != nil {
			err.place(i, name)
			return err
		}
		// A batch has one form of labels, whichever of the two was drawn for it.
		if i > 0 && before.Classes != m.mix.Classes {
			return &Error{Transform: name, Text: "its num_classes or labels differ from those of the ones before (expected the same of all)"}
		}
	}
	if sum <= 0 {
		return &Error{Argument: "p", Text: "has no weight above 0 (expected one or more)"}
	}
	return nil
}

// add appends one way to mix. The number is part of the key of its draws; the weight matters only in a choice.
func (m *mixing) add(name string, v map[string]value, number int32, weight float64) *Error {
	soft := v["labels"].text == "soft"
	if soft && v["num_classes"].isNull {
		return &Error{Argument: "num_classes", Text: `is null (expected the number of classes, or labels="pair" of this transform)`}
	}
	// This is set again for each member of a choice, so that addChoice notices if two differ. 0 means that labels are
	// pairs.
	m.mix.Classes = 0
	if soft {
		m.mix.Classes = int64(v["num_classes"].numbers[0])
	}
	op := native.MixOp{Op: number, Form: native.MixTorchvision, Weight: weight, Probability: 1}
	switch name {
	case "MixUp":
		op.Alpha[0] = v["alpha"].numbers[0]
	case "CutMix":
		op.Alpha[1] = v["alpha"].numbers[0]
	default:
		// timm mixes the first sample of a batch with its last (x.flip(0) in timm/data/mixup.py). In a batch that is
		// spread over ranks, each rank would then also have to decode every image of another rank.
		m.mix.Neighbours = true
		m.mix.Smoothing = v["label_smoothing"].numbers[0]
		op.Form = native.MixTimm
		op.Unit = int32(slices.Index(theTable().Choices["mix_mode"], v["mode"].text))
		op.Correct = v["correct_lam"].numbers[0] == 1
		op.Probability, op.Switching = v["prob"].numbers[0], v["switch_prob"].numbers[0]
		op.Alpha = [2]float64{v["mixup_alpha"].numbers[0], v["cutmix_alpha"].numbers[0]}
		if !v["cutmix_minmax"].isNull {
			copy(op.Shares[:], v["cutmix_minmax"].numbers)
			if op.Shares[1] == 0 { // 0 means none below
				return &Error{Argument: "cutmix_minmax", Text: "is [0, 0] (expected an upper bound above 0)"}
			}
			op.Alpha[1] = 1 // as in timm, where an alpha above 0 switches CutMix on
		}
		// timm asserts this when it draws.
		if op.Alpha == [2]float64{} {
			return &Error{Argument: "mixup_alpha", Text: "is 0, and so is cutmix_alpha (expected one above 0, or cutmix_minmax)"}
		}
	}
	m.mix.Ops = append(m.mix.Ops, op)
	return nil
}

// join gives a plan its mixing, once the plan's size and dtype are known. It comes last, because its checks need the
// size of the resulting images, which only the plan knows.
func (m *mixing) join(plan *native.Plan, dtype int32) error {
	refuse := func(argument, text string) error {
		return &Error{Index: m.index, Transform: m.name, Argument: argument, Text: text}
	}
	// A sample takes its partner's pixels place by place.
	size, fixed := plan.FixedSize()
	if !fixed {
		return refuse("", "the images before it differ in size (expected a transform that fixes it)")
	}
	for _, op := range m.mix.Ops {
		if op.Alpha[0] > 0 && dtype == native.Uint8 {
			return refuse("", "dtype is \"uint8\" (expected a float: sums of shares have fractions; CutMix alone takes bytes)")
		}
		for _, length := range []uint32{size.Height, size.Width} {
			// timm draws a whole number of pixels from low to high; numpy refuses if there is none (rand_bbox_minmax).
			low, high := int64(float64(length)*op.Shares[0]), int64(float64(length)*op.Shares[1])
			if op.Shares[1] > 0 && low >= high {
				return refuse("cutmix_minmax", fmt.Sprintf("is %v (expected bounds with a length between them, of %d pixels)", op.Shares, length))
			}
		}
	}
	if err := plan.SetMix(m.mix); err != nil {
		return refuse("", err.Error()) // the checks above leave no such error
	}
	return nil
}
