package mmap

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#include "watch.h"
*/
import "C"

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"
)

// watch is of a mapping of a file: see watch.c.
type watch struct {
	watch *C.hr_watch
	note  *int64 // hr_watch_lost, which is asked for each row of an index
}

// watches guards the list of what is watched, which only the signal's handler goes over without it.
var watches sync.Mutex

// begin watches a mapping that is not empty; written says whether it is written to as well.
func (w *watch) begin(memory []byte, written bool) error {
	watches.Lock()
	defer watches.Unlock()
	w.watch = C.hr_watch_begin(unsafe.Pointer(unsafe.SliceData(memory)), C.size_t(len(memory)), C.bool(written))
	if w.watch == nil {
		return ErrMemory
	}
	w.note = (*int64)(unsafe.Pointer(C.hr_watch_lost(w.watch)))
	w.arm()
	return nil
}

func (w *watch) end() {
	watches.Lock()
	defer watches.Unlock()
	C.hr_watch_end(w.watch)
}

// arm comes before each look at mapped bytes: another library may have put its handler on top of ours since
// (Python's faulthandler does). 0.3 us.
func (w *watch) arm() { C.hr_watch_arm() }

// lost is from where on zeros may have been read in place of the file's bytes; beyond any file, of none.
func (w *watch) lost() int64 { return atomic.LoadInt64(w.note) }

// Table is a mapping that its owner made of a file, and reads and writes. What is written where the file no longer
// reaches is in no file.
type Table struct{ watch watch }

// Watch begins to watch a mapping that is not empty. End comes before its pages go.
func (t *Table) Watch(memory []byte) error { return t.watch.begin(memory, true) }

// Arm comes before each look at its bytes.
func (t *Table) Arm() { t.watch.arm() }

// Whole is true while each byte that was read or written was the file's.
func (t *Table) Whole() bool { return t.watch.lost() == math.MaxInt64 }

// End of the watch.
func (t *Table) End() { t.watch.end() }
