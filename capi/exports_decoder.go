package main

/*
#include "headrace.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/internal/decoder"
)

//export goDecoderOpen
func goDecoderOpen(config *C.char, length C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answerWarning(out, func() (string, error) {
		var c decoderConfig
		if err := configuration(config, length, &c); err != nil {
			return "", err
		}
		d, err := openDecoder(c)
		if err != nil {
			return "", err
		}
		*into = C.hr_handle(handles.add(d))
		return withSIMD(d.Warning()), nil
	})
}

//export goDecoderSubmit
func goDecoderSubmit(handle C.hr_handle, tasks *C.hr_task, count C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		d, err := find[imageDecoder](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		if count > decoder.MaxTasks { // before any task is looked at
			return fmt.Errorf("%w: %d tasks were submitted, of at most %d", decoder.ErrFull, uint64(count), decoder.MaxTasks)
		}
		list, err := tasksOf(unsafe.Slice(tasks, int(count)))
		if err != nil {
			return err
		}
		w, err := d.Submit(list)
		if err != nil {
			return err
		}
		*into = C.hr_handle(handles.add(imageWork{w}))
		return nil
	})
}

//export goDecoderWait
func goDecoderWait(handle C.hr_handle, timeoutMs C.int64_t, failed *C.uint64_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		w, err := find[imageWork](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		count, err := w.Wait(milliseconds(timeoutMs))
		if errors.Is(err, decoder.ErrTimeout) {
			return notDecoded
		}
		if err == nil && failed != nil {
			*failed = C.uint64_t(count)
		}
		return err
	})
}

//export goDecoderResult
func goDecoderResult(handle C.hr_handle, index C.uint64_t, result *C.hr_image, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		w, err := find[imageWork](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		found, err := w.Result(uint64(index))
		if errors.Is(err, decoder.ErrTimeout) {
			return notDecoded
		}
		if err != nil {
			return err
		}
		told(result, found.Width, found.Height, found.Bytes)
		return found.Err
	})
}

// It is made once, as the notices of a loader are.
var notDecoded = &notice{codeTimeout, decoder.ErrTimeout.Error()}
