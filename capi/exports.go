package main

/*
#include "headrace.h"
*/
import "C"

import "time"

// How long hr_close waits for what an object still has under way. A read that hangs cannot be
// interrupted, and half a second is what somebody who pressed Ctrl-C will wait. Jobs and writers
// get longer, because they remove what they had begun, and a sync of a shard may be under way. What
// is not done by then goes on by itself and gives everything back when it ends.
const (
	closeGrace    = 500 * time.Millisecond
	clearingGrace = 5 * time.Second
)

// within runs work and waits for it for at most grace. It swallows panics of work, because nobody
// is left to be told, and they must not end the process.
func within(grace time.Duration, work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		work()
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

//export goClose
func goClose(handle C.hr_handle, out *C.hr_error) C.int32_t {
	return answerWarning(out, func() (string, error) {
		// Somebody still looks at the batch. Its memory would become the next batch's under their
		// eyes.
		if _, err := find[batch](&handles, int64(handle), nil); err == nil {
			return "", batchHandle(int64(handle))
		}
		o, ok := handles.remove(int64(handle))
		if !ok {
			return "", badHandle(int64(handle))
		}
		if err := o.close(); err != nil {
			return "", err
		}
		if uploads, ok := o.(interface{ left() string }); ok {
			return uploads.left(), nil
		}
		return "", nil
	})
}
