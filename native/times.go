package native

/*
#cgo noescape hrn_times_note
#cgo nocallback hrn_times_note
#cgo noescape hrn_times_of
#cgo nocallback hrn_times_of
#include "core/times.h"
*/
import "C"

import "time"

// Times are how long the parts of a sample took. Decoding, ops and writing take turns, some rows at
// a time. Each time is the sum of its turns; that of writing is extrapolated from one row of
// sixteen, and ops take what is left of the call.
type Times struct{ Checksum, Decode, Write time.Duration }

// NoteTimes makes the calls of the context measure their times, or stops that.
func (c *Context) NoteTimes(on bool) {
	note := C.int32_t(0)
	if on {
		note = 1
	}
	C.hrn_times_note(c.c, note)
	c.times = C.hrn_times_of(c.c)
}

// Times returns the times of the last Sample or SampleRaw; zero if they are not measured.
func (c *Context) Times() Times {
	if c.times == nil {
		return Times{}
	}
	return Times{Checksum: time.Duration(c.times.checksum), Decode: time.Duration(c.times.decode), Write: time.Duration(c.times.write)}
}
