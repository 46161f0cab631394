package native

/*
#cgo noescape hrn_mix_check
#cgo nocallback hrn_mix_check
#cgo noescape hrn_mix_draw
#cgo nocallback hrn_mix_draw
#cgo noescape hrn_mix
#cgo nocallback hrn_mix
#cgo noescape hrn_mix_labels
#cgo nocallback hrn_mix_labels
#include "native.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// MixOp is one way of mixing two samples, as data; draws/mixing.h documents its fields.
type MixOp struct {
	Op, Form, Unit int32
	Correct        bool
	Weight         float64
	Alpha          [2]float64
	Probability    float64
	Switching      float64
	Shares         [2]float64
}

// The values of MixOp.Form and Unit.
const (
	MixTorchvision int32 = C.HRN_MIX_TORCHVISION
	MixTimm        int32 = C.HRN_MIX_TIMM

	MixBatch   int32 = C.HRN_MIX_BATCH
	MixPair    int32 = C.HRN_MIX_PAIR
	MixElement int32 = C.HRN_MIX_ELEMENT
)

// The values of Mixing.Kind.
const (
	MixNone   int32 = C.HRN_MIX_NONE
	MixMixUp  int32 = C.HRN_MIX_MIXUP
	MixCutMix int32 = C.HRN_MIX_CUTMIX
)

// MaxMixOps is the most ways of mixing that one may be chosen from.
const MaxMixOps = C.HRN_MAX_MIX_OPS

// Mix says how the samples of a batch are mixed.
type Mix struct {
	Ops    []MixOp // one op, or those that one is chosen from for each batch; all have one Unit
	Choice int32   // number of the choice in the whole list
	// Classes is the length of a soft label. 0: labels stay numbers, with the partners' beside
	// them.
	Classes   int64
	Smoothing float64
	// Neighbours: the first two samples of a batch are a pair, and so are the next two. Otherwise
	// each sample's partner is the one before it.
	Neighbours bool

	list C.hrn_mix_list
}

// SetMix tells a plan of unmixed samples how they are mixed, before its first use.
func (p *Plan) SetMix(m Mix) error {
	if len(m.Ops) > MaxMixOps {
		return &Error{Code: Argument, Offset: -1, Text: "too many ways of mixing"}
	}
	m.list.count, m.list.choice = C.int32_t(len(m.Ops)), C.int32_t(m.Choice)
	for i, op := range m.Ops {
		to := &m.list.ops[i]
		to.op, to.form, to.unit = C.int32_t(op.Op), C.int32_t(op.Form), C.int32_t(op.Unit)
		if op.Correct {
			to.correct = 1
		}
		to.weight, to.probability, to.switching = C.double(op.Weight), C.double(op.Probability), C.double(op.Switching)
		for k := range 2 {
			to.alpha[k], to.shares[k] = C.double(op.Alpha[k]), C.double(op.Shares[k])
		}
	}
	var status C.hrn_status
	C.hrn_mix_check(&m.list, C.uint32_t(p.size.Width), C.uint32_t(p.size.Height), &status)
	if status.code != C.HRN_OK {
		return failure(&status)
	}
	p.mix = &m
	return nil
}

// Mix says how the plan's samples are mixed; nil if each is finished alone.
func (p *Plan) Mix() *Mix { return p.mix }

// Unit says what one draw is for.
func (m *Mix) Unit() int32 { return m.Ops[0].Unit }

// Mixing is what is done to one sample; draws/mixing.h says what its fields mean.
type Mixing struct {
	Kind                     int32
	Top, Left, Height, Width int32
	_                        int32
	Drawn, Lambda            float64
}

// DrawMixing says what is done to the samples that one draw is for. Key.Draw is where their step
// begins, Key.Sample which of its places is meant.
func (m *Mix) DrawMixing(key Key, width, height uint32) Mixing {
	k := key.c()
	var mixing C.hrn_mixing
	C.hrn_mix_draw(&m.list, &k, C.uint32_t(width), C.uint32_t(height), &mixing)
	return *(*Mixing)(unsafe.Pointer(&mixing))
}

// UnmixedBytes returns the memory that a sample takes while it waits to be mixed.
func (p *Plan) UnmixedBytes() int64 { return int64(C.hrn_unmixed_bytes(p.c)) }

// FinishMixed finishes a sample by MixUp and writes FixedSize's bytes to dst. own, whose share is
// lambda, and other are what Sample left waiting with an unmixed plan.
func (p *Plan) FinishMixed(own, other unsafe.Pointer, lambda float64, dst unsafe.Pointer) {
	C.hrn_mix(p.c, own, other, C.double(lambda), dst)
	runtime.KeepAlive(p)
}

// MixLabels writes a share for each class. Both labels must be below the number of classes.
func MixLabels(smoothing float64, own, other int64, lambda float64, to []float32) {
	C.hrn_mix_labels(C.double(smoothing), C.int64_t(own), C.int64_t(other), C.double(lambda), C.int64_t(len(to)), (*C.float)(&to[0]))
}
