package main

/*
#include "headrace.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/pipeline"
)

//export goLoaderOpen
func goLoaderOpen(handle C.hr_handle, config *C.char, length C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answerWarning(out, func() (string, error) {
		var c loaderConfig
		if err := configuration(config, length, &c); err != nil {
			return "", err
		}
		d, err := useDataset(int64(handle))
		if err != nil {
			return "", err
		}
		defer d.Release()
		l, err := openLoader(d, c)
		if err != nil {
			return "", err
		}
		*into = C.hr_handle(handles.add(l))
		return withSIMD(l.Warning()), nil
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
		if short := headroom.Memory(16 * int64(length)); short != nil {
			return short
		}
		// They are copied, because the caller may use its arrays again at once.
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

// describe fills in everything but the batch's handle.
func (l *loader) describe(b batch, into *C.hr_batch) {
	at := b.Layout()
	into.epoch, into.step = C.int64_t(b.Epoch), C.int64_t(b.Step)
	into.length, into.tag = C.int64_t(b.Length), C.int64_t(b.Slot.Tag())
	into.replaced, into.field_count = C.int32_t(b.Replaced), C.int32_t(len(at.Fields))
	into.form = C.int64_t(b.Phase)
	for i := range at.Fields {
		setField(&into.fields[i], &at.Fields[i], b)
	}
}

func setField(to *C.hr_field, f *pipeline.Field, b batch) {
	copyText(to.name[:], f.Name)
	element := elementTypes[f.DType]
	to.data, to.ndim = unsafe.Add(b.Slot.Pointer(), f.Offset), C.int32_t(1+len(f.Shape))
	to.dtype_code, to.dtype_bits = C.uint8_t(element.code), C.uint8_t(element.bits)
	stride := f.DType.Bytes()
	for i := len(to.shape) - 1; i >= 0; i-- {
		to.shape[i], to.strides[i] = 0, 0
		if i > len(f.Shape) {
			continue
		}
		length := b.Length
		if i > 0 {
			length = f.Shape[i-1]
		}
		to.shape[i], to.strides[i] = C.int64_t(length), C.int64_t(stride)
		stride *= length
	}
	to.bytes = C.uint64_t(stride)
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
		o, err := find[summed](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		return textAnswer(o.told(), buffer, capacity, need)
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
