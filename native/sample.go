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

// Sample makes one finished sample from the encoded bytes at data and writes it to dst, which holds
// capacity bytes: checksum (where crc is not nil), header, limits, draws, cropped decode, resize,
// flip, normalise, cast. It is one C call and allocates nothing in Go unless it fails.
//
// seek is the record's seek points, as InspectSeek made them, or the zero value.
//
// data and dst are C, mapped or pinned memory. Warnings counts what the decoder complained of while
// the pixels are still Pillow's. The error is an *Error; after one, dst's content is undefined.
func (c *Context) Sample(p *Plan, data unsafe.Pointer, length int64, seek Seek, key Key, crc *uint32,
	dst unsafe.Pointer, capacity uint64) (warnings uint32, err error) {
	if length < 0 {
		return 0, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	job := C.hrn_job{
		bytes:       (*C.uint8_t)(data),
		length:      C.size_t(length),
		key:         key.c(),
		destination: dst,
		capacity:    C.uint64_t(capacity),
		seek:        (*C.uint8_t)(seek.Data),
		seek_length: C.size_t(seek.Length),
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
	C.hrn_sample(c.c, p.c, &job, &status)
	if status.code != C.HRN_OK {
		return uint32(status.warnings), failure(&status)
	}
	return uint32(status.warnings), nil
}
