package main

/*
#include "headrace.h"
*/
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"unsafe"

	"github.com/headrace/headrace/internal/labels"
	"github.com/headrace/headrace/internal/pipeline"
	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/native"
)

// labelConfig is a field of a loader that moves with the images.
type labelConfig struct {
	Field string          `json:"field"`
	Label json.RawMessage `json:"label"`
}

// labels reads what the fields are, and refuses transforms that cannot move them.
func (c *loaderConfig) labels(views []transform.View) ([]pipeline.Label, error) {
	var found []pipeline.Label
	var rules []labels.Rule
	for _, l := range c.Labels {
		rule, err := transform.ParseLabel(l.Field, l.Label)
		if err != nil {
			return nil, argument(err.Error())
		}
		found, rules = append(found, pipeline.Label{Field: l.Field, Rule: rule}), append(rules, rule)
	}
	for _, view := range views {
		if err := transform.CheckLabels(view.Transform, rules); err != nil {
			return nil, planError(err)
		}
	}
	return found, nil
}

// moveLabel is hr_decode with "label": the bytes are no image but a label of an image of that size.
func moveLabel(c *decodeConfig, plan *native.Plan, context *native.Context, data []byte, into []byte, result *C.hr_image) error {
	rule, err := transform.ParseLabel("label", c.Label)
	if err != nil {
		return argument(err.Error())
	}
	if rule.Kind == labels.Image {
		return argument("label is an Image (expected Boxes, KeyPoints or Mask)")
	}
	if err := transform.CheckLabels(c.Transform, []labels.Rule{rule}); err != nil {
		return planError(err)
	}
	if len(c.Size) != 2 || c.Size[0] < 1 || c.Size[1] < 1 {
		return argument(fmt.Sprintf("size is %v (expected the image's height and width)", c.Size))
	}
	height, width := c.Size[0], c.Size[1]
	key := native.Key{Seed: c.Seed, Epoch: c.Epoch, Sample: c.Sample, Draw: c.Draw, View: c.View}
	var values []float32
	if rule.Kind != labels.Mask {
		if values, err = floats(data); err != nil {
			return err
		}
		if key, err = rule.Settle(plan, key, values, uint32(width), uint32(height)); err != nil {
			return transform.Explain(c.Transform, err)
		}
	}
	drawn, err := plan.Replay(key, uint32(width), uint32(height))
	if err != nil {
		return transform.Explain(c.Transform, err)
	}
	end, err := plan.DrawnSize(key, uint32(width), uint32(height))
	if err != nil {
		return transform.Explain(c.Transform, err)
	}
	var moved []byte
	if rule.Kind == labels.Mask {
		if int64(len(data)) != int64(width)*int64(height) {
			return argument(fmt.Sprintf("the mask has %d bytes (expected %d, the image's %d x %d)", len(data), int64(width)*int64(height), height, width))
		}
		need := int64(end.Width) * int64(end.Height)
		told(result, end.Width, end.Height, uint64(need))
		if len(into) == 0 {
			return nil
		}
		if err := room(int64(len(into)), need); err != nil {
			return err
		}
		mask := native.Mask{Pixels: data, Width: width, Height: height, Fill: rule.Fill}
		return context.MoveMask(drawn, mask, unsafe.Pointer(unsafe.SliceData(into)), int32(end.Width), int32(end.Height))
	}
	values, kept, err := rule.Move(values, drawn, int32(end.Width), int32(end.Height))
	if err != nil {
		return argument(err.Error())
	}
	for _, n := range kept {
		moved = binary.LittleEndian.AppendUint64(moved, uint64(n))
	}
	for _, v := range values {
		moved = binary.LittleEndian.AppendUint32(moved, math.Float32bits(v))
	}
	told(result, uint32(len(kept)), 0, uint64(len(moved)))
	return inPlaceOfPixels(moved, into)
}

func floats(data []byte) ([]float32, error) {
	if len(data)%4 != 0 {
		return nil, argument(fmt.Sprintf("the label has %d bytes (expected float32 numbers)", len(data)))
	}
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values, nil
}

// told fills in the size of an answer of hr_decode, if the caller asked for it.
func told(result *C.hr_image, width, height uint32, bytes uint64) {
	if result == nil {
		return
	}
	result.width, result.height, result.bytes = C.uint32_t(width), C.uint32_t(height), C.uint64_t(bytes)
}
