package main

/*
#include "headrace.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/decoder"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// decoderConfig is the configuration of hr_decoder_open.
type decoderConfig struct {
	NumThreads  int   `json:"num_threads"`
	ReadDelayMs int64 `json:"read_delay_ms"`
}

// imageConfig says what is made of an image: the configuration of a task, and of hr_decode without
// the key.
type imageConfig struct {
	Transform []json.RawMessage `json:"transform"`
	DType     string            `json:"dtype"`
	Layout    string            `json:"layout"`
	Scale     string            `json:"scale"`
	Mode      string            `json:"mode"`
	Pillow    string            `json:"pillow"`
	Limits    limits.Limits     `json:"limits"`
}

// wholeImage is the configuration of a caller that says nothing.
var wholeImage = imageConfig{DType: "uint8", Layout: "NHWC"}

// plan compiles the transforms as they are in an epoch.
func (c *imageConfig) plan(epoch uint64) (*native.Plan, error) {
	plan, err := transform.ParseAt(c.Transform, int64(min(epoch, math.MaxInt64)), transform.Options{DType: c.DType, Layout: c.Layout, Scale: c.Scale, Mode: c.Mode, Pillow: c.Pillow})
	return plan, planError(err)
}

// explain names the transform that an error of the plan is about.
func (c *imageConfig) explain(err error) error { return planError(transform.Explain(c.Transform, err)) }

var errMixes = argument("transform mixes the images of a batch, and this is one image (expected a list without MixUp, CutMix and Mixup)")

var errBoxes = argument("transform needs the boxes of a sample, and this is a single image (expected a list without RandomIoUCrop)")

// compileTask reads the configuration of a task.
func compileTask(text string, epoch uint64) (*decoder.Recipe, error) {
	c := wholeImage
	if text != "" {
		if err := strictly([]byte(text), &c); err != nil {
			return nil, err
		}
	}
	plan, err := c.plan(epoch)
	if err != nil {
		return nil, err
	}
	if plan.Mix() != nil {
		plan.Close()
		return nil, errMixes
	}
	if plan.LooksAtBoxes() {
		plan.Close()
		return nil, errBoxes
	}
	return &decoder.Recipe{Plan: plan, Limits: c.Limits.Native(), Explain: c.explain}, nil
}

// imageDecoder and imageWork are the objects behind their handles.
type (
	imageDecoder struct{ *decoder.Decoder }
	imageWork    struct{ *decoder.Work }
)

func (d imageDecoder) close() error {
	d.Close()
	return nil
}

func (w imageWork) close() error {
	w.Close()
	return nil
}

func openDecoder(c decoderConfig) (imageDecoder, error) {
	switch {
	case c.NumThreads < 0:
		return imageDecoder{}, argument(fault.Argument("num_threads", c.NumThreads, "at least 1, or 0 for as many as the process may use"))
	case c.ReadDelayMs < 0 || c.ReadDelayMs > 60_000:
		return imageDecoder{}, argument(fault.Argument("read_delay_ms", c.ReadDelayMs, "0 to 60000"))
	}
	d, err := decoder.Open(decoder.Config{Threads: c.NumThreads, Compile: compileTask,
		Store: mmap.Options{ReadDelay: time.Duration(c.ReadDelayMs) * time.Millisecond}})
	return imageDecoder{d}, err
}

// bytesAt returns the caller's memory as a slice. If the memory is empty, its address is not kept,
// here and below: Go takes a number such as 1 for a broken pointer, and ends the process.
func bytesAt(text *C.char, length C.size_t) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length))
}

// tasksOf reads a caller's tasks. Their paths and texts are still the caller's memory.
func tasksOf(list []C.hr_task) ([]decoder.Task, error) {
	if short := headroom.Memory(1024 * int64(len(list))); short != nil {
		return nil, short
	}
	tasks := make([]decoder.Task, len(list))
	copied := int64(0)
	for i := range list {
		from, to := &list[i], &tasks[i]
		if err := checkTask(from); err != nil {
			return nil, argument(fmt.Sprintf("task %d: %v", i, err))
		}
		*to = decoder.Task{Length: int64(from.length), Descriptor: -1, SameImage: from.flags&C.HR_TASK_SAME_IMAGE != 0,
			InMemory: from.bytes != nil, Path: bytesAt(from.path, from.path_length), Config: bytesAt(from.config, from.config_length),
			Key: native.Key{Seed: uint64(from.seed), Epoch: uint64(from.epoch), Sample: uint64(from.sample),
				Draw: uint64(from.draw), View: uint32(from.view)},
			Capacity: int64(from.capacity)}
		if to.Capacity > 0 {
			to.To = from.data
		}
		if to.Length > 0 {
			to.Bytes = unsafe.Pointer(from.bytes)
		}
		if from.flags&C.HR_TASK_DESCRIPTOR != 0 {
			to.Descriptor = int(from.descriptor)
		}
		if from.flags&C.HR_TASK_CHECKED != 0 {
			to.Identity = &mmap.Identity{Device: uint64(from.device), Inode: uint64(from.inode),
				Stamp: mmap.Stamp{Size: int64(from.size), MTimeNs: int64(from.mtime_ns)}}
		}
		copied += int64(from.path_length) + int64(from.config_length)
	}
	if short := headroom.Memory(copied); short != nil {
		return nil, short
	}
	return tasks, nil
}

// mostText bounds a path and a configuration; PATH_MAX is 4,096.
const mostText = 1 << 30

// checkTask refuses what cannot be memory. Package decoder refuses what is no image.
func checkTask(t *C.hr_task) error {
	const known = C.HR_TASK_DESCRIPTOR | C.HR_TASK_SAME_IMAGE | C.HR_TASK_CHECKED
	switch {
	case t.flags&^known != 0 || t.reserved != 0:
		return fmt.Errorf("flags is %#x and reserved %d (expected bits of %#x, and 0)", uint32(t.flags), uint32(t.reserved), known)
	case t.flags&C.HR_TASK_DESCRIPTOR != 0 && t.descriptor < 0:
		return errors.New(fault.Argument("descriptor", int32(t.descriptor), "an open file's"))
	}
	for _, memory := range []struct {
		name    string
		missing bool
		size    C.size_t
		most    uint64
	}{
		{"bytes", t.bytes == nil && t.flags&C.HR_TASK_SAME_IMAGE == 0, t.length, math.MaxInt64}, {"path", t.path == nil, t.path_length, mostText},
		{"config", t.config == nil, t.config_length, mostText}, {"data", t.data == nil, t.capacity, math.MaxInt64},
	} {
		switch {
		case uint64(memory.size) > memory.most:
			return errors.New(fault.Argument("the size of "+memory.name, uint64(memory.size), fmt.Sprintf("at most %d", memory.most)))
		case memory.missing && memory.size > 0:
			return fmt.Errorf("%s is NULL (expected %d bytes)", memory.name, uint64(memory.size))
		}
	}
	return nil
}
