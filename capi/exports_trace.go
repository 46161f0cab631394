package main

/*
#include "headrace.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/trace"
)

// A traced object has threads that a trace can be written of: a loader or a decoder.
type traced interface {
	object
	Trace(path string) (string, error)
	EndTrace() error
	Span(thread int, e trace.Event)
}

//export goTrace
func goTrace(handle C.hr_handle, path *C.char, length C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[traced](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		if path == nil && length == 0 {
			return l.EndTrace()
		}
		if length == 0 || length > unix.PathMax {
			return argument(fault.Argument("length", uint64(length), "the bytes of a path"))
		}
		_, err = l.Trace(string(unsafe.Slice((*byte)(unsafe.Pointer(path)), int(length))))
		return err
	})
}

// spans are the kinds of spans that a program may note, by their numbers in headrace.h.
var spans = map[C.int32_t]trace.Kind{C.HR_SPAN_NEXT: trace.Next, C.HR_SPAN_WAIT: trace.Wait, C.HR_SPAN_COPY: trace.Copy}

//export goSpan
func goSpan(handle C.hr_handle, kind C.int32_t, epoch, step, begin, end C.int64_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		l, err := find[traced](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		of, known := spans[kind]
		switch {
		case !known:
			return argument(fault.Argument("kind", int32(kind), "HR_SPAN_NEXT, HR_SPAN_WAIT or HR_SPAN_COPY"))
		case begin < 0 || end < begin:
			return argument(fault.Argument("end_ns", int64(end), "at least begin_ns, which is at least 0"))
		}
		l.Span(unix.Gettid(), trace.Event{Kind: of, Epoch: int64(epoch), Step: int64(step),
			Begin: time.Duration(begin), Took: time.Duration(end - begin)})
		return nil
	})
}
