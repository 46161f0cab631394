package native

/*
#cgo noescape hrn_sample
#cgo nocallback hrn_sample
#include "native.h"
*/
import "C"

import "unsafe"

// Seek is a record's seek points: C or mapped memory that stays readable for the call. With HasCRC,
// points whose checksum is not CRC32C are passed over: the pixels are right, and take longer.
type Seek struct {
	Data   unsafe.Pointer
	Length int64
	CRC32C uint32
	HasCRC bool
}

// View is one image of a sample: the plan that makes it, and where it goes, which is C, mapped or
// pinned memory of at least the plan's size.
type View struct {
	Plan     *Plan
	To       unsafe.Pointer
	Capacity uint64
}

// MaxViews is how many a sample may have.
const MaxViews = C.HRN_MAX_VIEWS

// Sample makes one finished sample from the encoded bytes at data and writes each of its views to
// its place: checksum (where crc is not nil), header, limits, draws, cropped decode, resize, flip,
// normalise, cast. It is one C call and allocates nothing in Go unless it fails. The key is that of
// the first view; the others differ from it in View alone, which counts up.
//
// seek is the record's seek points, as InspectSeek made them, or the zero value.
//
// data is C, mapped or pinned memory. Warnings counts what the decoder complained of while
// the pixels are still Pillow's. The error is an *Error; after one, the views' content is undefined.
func (c *Context) Sample(data unsafe.Pointer, length int64, seek Seek, key Key, crc *uint32,
	views ...View) (warnings uint32, err error) {
	if length < 0 {
		return 0, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if len(views) > MaxViews {
		return 0, &Error{Code: Argument, Offset: -1, Text: "too many views"}
	}
	job := C.hrn_job{
		bytes:       (*C.uint8_t)(data),
		length:      C.size_t(length),
		key:         key.c(),
		view_count:  C.int32_t(len(views)),
		seek:        (*C.uint8_t)(seek.Data),
		seek_length: C.size_t(seek.Length),
	}
	for i, v := range views {
		job.views[i] = C.hrn_view{plan: v.Plan.c, destination: v.To, capacity: C.uint64_t(v.Capacity)}
	}
	if seek.HasCRC {
		job.seek_crc32c = C.uint32_t(seek.CRC32C)
		job.check_seek_crc = 1
	}
	if crc != nil {
		job.crc32c = C.uint32_t(*crc)
		job.check_crc = 1
	}
	var status C.hrn_status
	C.hrn_sample(c.c, &job, &status)
	if status.code != C.HRN_OK {
		return uint32(status.warnings), failure(&status)
	}
	return uint32(status.warnings), nil
}
