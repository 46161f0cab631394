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

// watch watches a mapping of a file: see watch.c.
type watch struct {
	watch *C.hr_watch
	note  *int64 // hr_watch_lost, which is read for each row of an index
}

// watches guards the list of watched mappings. Only the signal's handler reads the list without it.
var watches sync.Mutex

// begin watches a mapping that is not empty; written says whether it is also written to.
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

// arm has to be called before each access to mapped bytes, because another library may have put its handler on top of
// ours since (Python's faulthandler does). It takes 0.3 us.
func (w *watch) arm() { C.hr_watch_arm() }

// lost returns from where on zeros may have been read in place of the file's bytes. If there were none, it is beyond
// any file.
func (w *watch) lost() int64 { return atomic.LoadInt64(w.note) }

// Table is a mapping of a file that its owner made, and reads and writes. What is written where the file no longer
// reaches is in no file.
type Table struct{ watch watch }

// Watch begins to watch a mapping that is not empty. End has to come before the pages are unmapped.
func (t *Table) Watch(memory []byte) error { return t.watch.begin(memory, true) }

// Arm has to be called before each access to the bytes.
func (t *Table) Arm() { t.watch.arm() }

// Whole is true as long as each byte that was read or written belonged to the file.
func (t *Table) Whole() bool { return t.watch.lost() == math.MaxInt64 }

// End ends the watch.
func (t *Table) End() { t.watch.end() }
