package main

/*
#include "headrace.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/remote"
)

//export goJobStart
func goJobStart(config *C.char, length C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		place, work, err := chooseJob(config, length)
		if err != nil {
			return err
		}
		*into = C.hr_handle(handles.add(startJob(place, work)))
		return nil
	})
}

// chooseJob returns the work that a configuration asks for, and the address that it uploads to, if
// any.
func chooseJob(config *C.char, length C.size_t) (place string, work func(context.Context, *pack.Tracker) (any, error), err error) {
	var named jobName
	if config != nil {
		// The strict reading below reports whatever is wrong with the text.
		_ = json.Unmarshal(unsafe.Slice((*byte)(unsafe.Pointer(config)), int(length)), &named)
	}
	switch named.Job {
	case "pack":
		var c packJob
		if err := configuration(config, length, &c); err != nil {
			return "", nil, err
		}
		told, err := c.config()
		if remote.IsURL(told.Destination) {
			place = remote.Display(told.Destination)
		}
		return place, func(ctx context.Context, t *pack.Tracker) (any, error) { return pack.Pack(ctx, told, t) }, err
	case "index":
		var c indexJob
		if err := configuration(config, length, &c); err != nil {
			return "", nil, err
		}
		told, err := c.config()
		return "", func(ctx context.Context, t *pack.Tracker) (any, error) { return pack.Index(ctx, told, t) }, err
	case "fields":
		var c fieldsJob
		if err := configuration(config, length, &c); err != nil {
			return "", nil, err
		}
		work, err = c.work()
		return "", work, err
	case "verify":
		var c verifyJob
		if err := configuration(config, length, &c); err != nil {
			return "", nil, err
		}
		told, err := c.config()
		return "", func(ctx context.Context, t *pack.Tracker) (any, error) { return pack.Verify(ctx, told, t) }, err
	}
	return "", nil, argument(fault.Argument("job", named.Job, `"pack", "index", "verify" or "fields"`))
}

//export goJobWait
func goJobWait(handle C.hr_handle, timeoutMs C.int64_t, progress *C.hr_progress, out *C.hr_error) C.int32_t {
	return answerWarning(out, func() (string, error) {
		j, err := find[*job](&handles, int64(handle), nil)
		if err != nil {
			return "", err
		}
		err = j.wait(milliseconds(timeoutMs))
		if progress != nil {
			p := j.tracker.Progress()
			progress.done, progress.total = C.int64_t(p.Done), C.int64_t(p.Total)
			progress.bytes, progress.faults = C.int64_t(p.Bytes), C.int64_t(p.Faults)
		}
		return j.tracker.Warning(), err
	})
}

// milliseconds cuts a caller's timeout to one day, so that the product cannot overflow.
func milliseconds(n C.int64_t) time.Duration {
	return time.Duration(min(max(n, 0), 24*60*60*1000)) * time.Millisecond
}

//export goJobResult
func goJobResult(handle C.hr_handle, buffer *C.char, capacity C.size_t, need *C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		j, err := find[*job](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		if err := j.wait(0); err != nil {
			return err
		}
		return textAnswer(j.result, buffer, capacity, need)
	})
}
