package main

/*
#include "headrace.h"
*/
import "C"

import (
	"encoding/json"
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
)

// writer is the object behind a writer's handle.
type writer struct {
	*pack.Writer
	away     bool
	aborted  chan struct{} // closed when Abort has returned
	finishes *atomic.Bool  // a call of hr_writer_finish has the handle
}

func (w writer) close() error {
	within(clearingGrace, func() {
		defer close(w.aborted)
		w.Abort()
	})
	return nil
}

// left says which uploads were not removed.
func (w writer) left() string {
	if !w.away {
		return ""
	}
	select {
	case <-w.aborted:
		return leftAt(w.Place(), w.Left())
	default:
		return leftAt(w.Place(), stillRemoved)
	}
}

//export goWriterOpen
func goWriterOpen(config *C.char, length C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		var c struct {
			Destination pathjson.Text   `json:"destination"`
			Storage     json.RawMessage `json:"storage"`
			Timeout     float64         `json:"timeout"`
			pack.WriterConfig
		}
		if err := configuration(config, length, &c); err != nil {
			return err
		}
		var err error
		if c.WriterConfig.Storage, err = storageOf(c.Storage, c.Timeout); err != nil {
			return err
		}
		c.WriterConfig.Destination = string(c.Destination)
		w, err := pack.NewWriter(c.WriterConfig)
		if err != nil {
			return err
		}
		*into = C.hr_handle(handles.add(writer{w, remote.IsURL(c.WriterConfig.Destination), make(chan struct{}), new(atomic.Bool)}))
		return nil
	})
}

//export goWriterAdd
func goWriterAdd(handle C.hr_handle, image *C.uint8_t, imageLength C.size_t, fields *C.char, fieldsLength C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		w, err := find[writer](&handles, int64(handle), nil)
		if err != nil {
			return err
		}
		// Both are copied before the call returns.
		return w.AddJSON(unsafe.Slice((*byte)(image), int(imageLength)),
			unsafe.Slice((*byte)(unsafe.Pointer(fields)), int(fieldsLength)))
	})
}

//export goWriterFinish
func goWriterFinish(handle C.hr_handle, out *C.hr_error) C.int32_t {
	return answerWarning(out, func() (string, error) {
		w, err := find[writer](&handles, int64(handle), nil)
		if err != nil {
			return "", err
		}
		// The first of several calls says what the handle becomes.
		if !w.finishes.CompareAndSwap(false, true) {
			return "", catalog.NewError(fault.KindArgument, w.Place(), "the writer is closed")
		}
		// The writer is closed whatever Finish returns, and leaves nothing if it could not be
		// finished. Until then hr_close ends the wait.
		summary, err := w.Finish()
		var job object
		if err == nil {
			job = finishedJob(summary)
		}
		handles.exchange(int64(handle), w, job)
		return w.Warning(), err
	})
}
