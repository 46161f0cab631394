package native

/*
#cgo noescape hrn_reencode
#cgo nocallback hrn_reencode
#cgo noescape hrn_to_ppm
#cgo nocallback hrn_to_ppm
#cgo noescape hrn_to_baseline
#cgo nocallback hrn_to_baseline
#include "native.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Encoding says how Reencode encodes an image.
type Encoding struct {
	Shorter     int32 // pixels that a longer shorter side is reduced to; 0: the size stays
	Quality     int32 // libjpeg's, 1 to 100
	Orientation uint8 // Facts.Orientation of the image, which the new file says as well
}

var errEncodeClosed = errors.New("native: encoding on a closed context")

// Reencode appends the image at data to `to` as a new JPEG, which loses quality: it is decoded,
// made smaller with Pillow's bilinear filter if e asks for it, and encoded at a quality. The error
// is an *Error. `to` may be the memory that data points to, because the image is made before it is
// copied.
func (c *Context) Reencode(data unsafe.Pointer, length int64, e Encoding, to []byte) ([]byte, error) {
	return c.written(length, to, func(made *C.hrn_encoded, status *C.hrn_status) {
		C.hrn_reencode(c.c, (*C.uint8_t)(data), C.size_t(length), C.int32_t(e.Shorter),
			C.int32_t(e.Quality), C.int32_t(e.Orientation), made, status)
	})
}

// ToPPM appends the image at data to `to` as a binary PPM: every pixel as a decode gives it,
// reduced by e.Shorter as in Reencode. e.Quality has no meaning. The error and `to` are as in
// Reencode.
func (c *Context) ToPPM(data unsafe.Pointer, length int64, e Encoding, to []byte) ([]byte, error) {
	return c.written(length, to, func(made *C.hrn_encoded, status *C.hrn_status) {
		C.hrn_to_ppm(c.c, (*C.uint8_t)(data), C.size_t(length), C.int32_t(e.Shorter),
			C.int32_t(e.Orientation), made, status)
	})
}

// written appends what write makes from a record of that length.
func (c *Context) written(length int64, to []byte, write func(*C.hrn_encoded, *C.hrn_status)) ([]byte, error) {
	if length < 0 {
		return nil, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if c.c == nil {
		return nil, errEncodeClosed
	}
	var made C.hrn_encoded
	var status C.hrn_status
	write(&made, &status)
	if err := failure(&status); err != nil {
		return nil, err
	}
	return append(to, unsafe.Slice((*byte)(made.bytes), int(made.length))...), nil
}

// ToBaseline appends the JPEG at data, progressive or arithmetic-coded, to `to` as baseline with
// the same coefficients and markers, and says whether it did. It leaves a file alone that is of
// another kind, already baseline, incomplete or odd. `to` may be the memory of data.
func (c *Context) ToBaseline(data unsafe.Pointer, length int64, to []byte) ([]byte, bool, error) {
	if length < 0 {
		return nil, false, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if c.c == nil {
		return nil, false, errEncodeClosed
	}
	var made C.hrn_encoded
	var status C.hrn_status
	C.hrn_to_baseline(c.c, (*C.uint8_t)(data), C.size_t(length), &made, &status)
	if err := failure(&status); err != nil || made.bytes == nil {
		return nil, false, err
	}
	return append(to, unsafe.Slice((*byte)(made.bytes), int(made.length))...), true, nil
}
