package main

/*
#include "headrace.h"
*/
import "C"

import (
	"encoding/json"
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
		plan, err := transform.Parse(c.Transform, transform.Options{DType: c.DType, Layout: c.Layout, Scale: c.Scale, Mode: c.Mode})
		if err != nil {
			return planError(err)
		}
		defer plan.Close()
		context, err := native.NewContext(c.Limits.limits())
		if err != nil {
			return err
		}
		defer context.Close()
		source, size := unsafe.Pointer(data), int64(length)
		facts, _, err := context.Inspect(source, size, false)
		if err != nil {
			return err
		}
		made, err := plan.Size(facts.Width, facts.Height)
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
		key := native.Key{Seed: c.Seed, Epoch: c.Epoch, Sample: c.Sample}
		_, err = context.Sample(plan, source, size, native.Seek{}, key, nil, into, uint64(capacity))
		return planError(transform.Explain(c.Transform, err))
	})
}
