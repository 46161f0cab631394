package main

/*
#include "headrace.h"
*/
import "C"

import (
	"encoding/json"
	"math"
	"unsafe"

	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/native"
)

// decodeConfig is the configuration of hr_decode.
type decodeConfig struct {
	Transform []json.RawMessage `json:"transform"`
	DType     string            `json:"dtype"`
	Layout    string            `json:"layout"`
	Scale     string            `json:"scale"`
	Mode      string            `json:"mode"`
	Limits    *limitsJSON       `json:"limits"`
	Seed      uint64            `json:"seed"`
	Epoch     uint64            `json:"epoch"`
	Sample    uint64            `json:"sample"`
	Draw      uint64            `json:"draw"`
	View      uint32            `json:"view"`
	Replay    bool              `json:"replay"`
	Label     json.RawMessage   `json:"label"`
	Size      []int32           `json:"size"`
}

//export goDecode
func goDecode(data *C.uint8_t, length C.size_t, config *C.char, configLength C.size_t, into unsafe.Pointer, capacity C.size_t, result *C.hr_image, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		c := decodeConfig{DType: "uint8", Layout: "NHWC"}
		if configLength > 0 {
			if err := configuration(config, configLength, &c); err != nil {
				return err
			}
		}
		plan, err := transform.ParseAt(c.Transform, int64(min(c.Epoch, math.MaxInt64)), transform.Options{DType: c.DType, Layout: c.Layout, Scale: c.Scale, Mode: c.Mode})
		if err != nil {
			return planError(err)
		}
		defer plan.Close()
		context, err := native.NewContext(c.Limits.limits())
		if err != nil {
			return err
		}
		defer context.Close()
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
			return replay(plan, key, facts.Width, facts.Height, into, uint64(capacity), result)
		}
		made, err := plan.DrawnSize(key, facts.Width, facts.Height)
		if err != nil {
			return transform.Explain(c.Transform, err)
		}
		if result != nil {
			result.width, result.height = C.uint32_t(made.Width), C.uint32_t(made.Height)
			result.bytes = C.uint64_t(made.Bytes)
		}
		if capacity == 0 {
			return nil
		}
		_, err = context.Sample(source, size, native.Seek{}, key, nil,
			native.View{Plan: plan, To: into, Capacity: uint64(capacity)})
		return planError(transform.Explain(c.Transform, err))
	})
}

// replay answers with JSON in the place of pixels: what the transforms would do to the image.
func replay(plan *native.Plan, key native.Key, width, height uint32, into unsafe.Pointer, capacity uint64, result *C.hr_image) error {
	calls, err := transform.Replay(plan, key, width, height)
	if err != nil {
		return err
	}
	text, err := json.Marshal(calls)
	if err != nil {
		return err
	}
	if result != nil {
		result.width, result.height = C.uint32_t(width), C.uint32_t(height)
		result.bytes = C.uint64_t(len(text))
	}
	if capacity >= uint64(len(text)) {
		copy(unsafe.Slice((*byte)(into), len(text)), text)
	}
	return nil
}
