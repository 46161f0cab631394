package main

/*
#include "headrace.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pipeline"
)

//export goLoaderOpen
func goLoaderOpen(handle C.hr_handle, config *C.char, length C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		var c loaderConfig
		if err := configuration(config, length, &c); err != nil {
			return err
		}
		d, err := useDataset(int64(handle))
		if err != nil {
			return err
		}
		defer d.Release()
		l, err := openLoader(d, c)
		if err != nil {
			return err
		}
		*into = C.hr_handle(handles.add(l))
		return nil
	})
}

//export goSeek
func goSeek(handle C.hr_handle, epoch, position C.int64_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[*loader](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		return planError(l.SeekTo(int64(epoch), int64(position)))
	})
}

//export goSubmit
func goSubmit(handle C.hr_handle, indices *C.int64_t, draws *C.uint64_t, length C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[*loader](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		if indices == nil {
			if length != 0 || draws != nil {
				return argument(fault.Argument("length", uint64(length), "0 with indices of NULL, which ends the epoch"))
			}
			return planError(l.EndEpoch())
		}
		if length > 1<<40 {
			return argument(fault.Argument("length", uint64(length), "the samples of a batch"))
		}
		// Copied: the caller may reuse its arrays at once.
		chosen := slices.Clone(unsafe.Slice((*int64)(indices), int(length)))
		var numbers []uint64
		if draws != nil {
			numbers = slices.Clone(unsafe.Slice((*uint64)(draws), int(length)))
		}
		return planError(l.Submit(chosen, numbers))
	})
}

//export goNext
func goNext(handle C.hr_handle, timeoutMs C.int64_t, into *C.hr_batch, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[*loader](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		b, err := l.next(milliseconds(timeoutMs))
		if err != nil {
			return err
		}
		l.describe(batch{b}, into)
		into.batch = C.hr_handle(handles.add(batch{b}))
		return nil
	})
}

// describe fills in everything but the handle.
func (l *loader) describe(b batch, into *C.hr_batch) {
	into.epoch, into.step = C.int64_t(b.Epoch), C.int64_t(b.Step)
	into.length, into.tag = C.int64_t(b.Length), C.int64_t(b.Slot.Tag())
	into.replaced, into.field_count = C.int32_t(b.Replaced), 3
	at := b.Layout()
	height, width := int64(at.Height), int64(at.Width)
	shape := [4]int64{b.Length, 3, height, width}
	if l.layout == "NHWC" {
		shape = [4]int64{b.Length, height, width, 3}
	}
	slot, integers := b.Slot.Pointer(), [4]int64{b.Length}
	setField(&into.fields[0], "images", slot, l.dtype, shape, 4)
	setField(&into.fields[1], "labels", unsafe.Add(slot, at.LabelsOffset), elementType{dlInt, 64}, integers, 1)
	setField(&into.fields[2], "indices", unsafe.Add(slot, at.IndicesOffset), elementType{dlInt, 64}, integers, 1)
	if mixed := at.Mixed; mixed.Mixed {
		into.field_count += C.int32_t(describeMixed(b, mixed, into.fields[3:]))
	}
}

// describeMixed fills in the fields that only a mixed batch has, and returns how many they are.
func describeMixed(b batch, at pipeline.MixedLayout, into []C.hr_field) int {
	fields := []struct {
		name    string
		offset  int64
		element elementType
		across  int64 // 0: one number a sample
	}{
		{"partners", at.Partners, elementType{dlInt, 64}, 0},
		{"partner_labels", at.PartnerLabels, elementType{dlInt, 64}, 0},
		{"lambdas", at.Lambdas, elementType{dlFloat, 64}, 0},
		{"boxes", at.Boxes, elementType{dlInt, 32}, 4},
		{"targets", at.Targets, elementType{dlFloat, 32}, at.Classes},
	}
	if at.Classes == 0 {
		fields = fields[:4]
	}
	for i, f := range fields {
		dimensions := 1 + min(1, int(f.across))
		setField(&into[i], f.name, unsafe.Add(b.Slot.Pointer(), f.offset), f.element, [4]int64{b.Length, f.across}, dimensions)
	}
	return len(fields)
}

func setField(f *C.hr_field, name string, data unsafe.Pointer, element elementType, shape [4]int64, dimensions int) {
	copyText(f.name[:], name)
	f.data, f.ndim = data, C.int32_t(dimensions)
	f.dtype_code, f.dtype_bits = C.uint8_t(element.code), C.uint8_t(element.bits)
	stride := int64(element.bits / 8)
	for i := len(shape) - 1; i >= 0; i-- {
		f.shape[i], f.strides[i] = 0, 0
		if i < dimensions {
			f.shape[i], f.strides[i] = C.int64_t(shape[i]), C.int64_t(stride)
			stride *= shape[i]
		}
	}
	f.bytes = C.uint64_t(stride)
}

//export goRelease
func goRelease(handle C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		if _, err := find[batch](&handles, int64(handle), nil); err != nil {
			return err
		}
		b, ok := handles.remove(int64(handle))
		if !ok {
			return badHandle(int64(handle))
		}
		return b.close()
	})
}

//export goLend
func goLend(handle C.hr_handle, memory unsafe.Pointer, size C.uint64_t, tag C.int64_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[*loader](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		if size > 1<<62 {
			return argument(fault.Argument("bytes", uint64(size), "a size of memory"))
		}
		return planError(l.Lend(memory, int64(size), int64(tag)))
	})
}

//export goLoaderInfo
func goLoaderInfo(handle C.hr_handle, buffer *C.char, capacity C.size_t, need *C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[*loader](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		return textAnswer(l.summary(), buffer, capacity, need)
	})
}

//export goLoaderEvent
func goLoaderEvent(handle C.hr_handle, descriptor *C.int32_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[*loader](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		fd, err := l.EventFD()
		*descriptor = C.int32_t(fd)
		return err
	})
}
