package main

/*
#include "headrace.h"
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"math"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/native"
)

// decodeConfig is the configuration of hr_decode.
type decodeConfig struct {
	imageConfig
	Seed    uint64          `json:"seed"`
	Epoch   uint64          `json:"epoch"`
	Sample  uint64          `json:"sample"`
	Draw    uint64          `json:"draw"`
	View    uint32          `json:"view"`
	Replay  bool            `json:"replay"`
	Label   json.RawMessage `json:"label"`
	Size    []int32         `json:"size"`
	Samples uint64          `json:"samples"`
	// Displacement asks for the displacements of the transform, an Elastic, on an image of that
	// size.
	Displacement bool `json:"displacement"`
}

//export goDecode
func goDecode(data *C.uint8_t, length C.size_t, config *C.char, configLength C.size_t, into unsafe.Pointer, capacity C.size_t, result *C.hr_image, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		c := decodeConfig{imageConfig: wholeImage}
		if configLength > 0 {
			if err := configuration(config, configLength, &c); err != nil {
				return err
			}
		}
		plan, err := c.plan(c.Epoch)
		if err != nil {
			return err
		}
		defer plan.Close()
		if plan.Mix() != nil && !c.Replay {
			return errMixes
		}
		if plan.LooksAtBoxes() && c.Label == nil {
			return errBoxes
		}
		context, err := native.NewContext(c.Limits.Native())
		if err != nil {
			return err
		}
		defer context.Close()
		if c.Displacement {
			return displacement(&c, plan, unsafe.Slice((*byte)(into), int(capacity)), result)
		}
		if c.Label != nil {
			values := unsafe.Slice((*byte)(unsafe.Pointer(data)), int(length))
			return moveLabel(&c, plan, context, values, unsafe.Slice((*byte)(into), int(capacity)), result)
		}
		source, size := unsafe.Pointer(data), int64(length)
		facts, _, err := context.Inspect(source, size, false)
		if err != nil {
			return err
		}
		key := native.Key{Seed: c.Seed, Epoch: c.Epoch, Sample: c.Sample, Draw: c.Draw, View: c.View}
		if c.Replay {
			calls, err := replay(plan, key, c.Samples, facts.Width, facts.Height)
			if err != nil {
				return err
			}
			text, err := json.Marshal(calls)
			if err != nil {
				return err
			}
			told(result, facts.Width, facts.Height, uint64(len(text)))
			return inPlaceOfPixels(text, unsafe.Slice((*byte)(into), int(capacity)))
		}
		made, err := plan.DrawnSize(key, facts.Width, facts.Height)
		if err != nil {
			return c.explain(err)
		}
		told(result, made.Width, made.Height, made.Bytes)
		if capacity == 0 {
			return nil
		}
		if err := room(int64(capacity), int64(made.Bytes)); err != nil {
			return err
		}
		_, err = context.Sample(source, size, native.Seek{}, key, nil,
			native.View{Plan: plan, To: into, Capacity: uint64(capacity)})
		return c.explain(err)
	})
}

// mostSamples bounds the answer of one replay, because a gigabyte would help nobody.
const mostSamples = 1 << 20

// replay says what the transforms would do to the image: a list of calls, or with samples a list of
// such lists, one for each sample from the key's on.
func replay(plan *native.Plan, key native.Key, samples uint64, width, height uint32) (any, error) {
	if samples == 0 {
		return transform.Replay(plan, key, width, height)
	}
	if samples > mostSamples || key.Sample > math.MaxUint64-samples {
		return nil, argument(fault.Argument("samples", samples, fmt.Sprintf("at most %d, and numbers of 64 bits", mostSamples)))
	}
	all := make([][]transform.Call, samples)
	for k := range all {
		calls, err := transform.Replay(plan, key, width, height)
		if err != nil {
			return nil, err
		}
		all[k] = calls
		key.Sample++
	}
	return all, nil
}

// inPlaceOfPixels copies an answer that is already known, if the caller has memory for one.
func inPlaceOfPixels(found, into []byte) error {
	if len(into) == 0 {
		return nil
	}
	if err := room(int64(len(into)), int64(len(found))); err != nil {
		return err
	}
	copy(into, found)
	return nil
}
