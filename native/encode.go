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

// Encoding says what Reencode makes of an image.
type Encoding struct {
	Shorter     int32 // pixels of the shorter side where it is longer; 0: the size stays
	Quality     int32 // libjpeg's, 1 to 100
	Orientation uint8 // Facts.Orientation of the image, which the new file says too
}

var errEncodeClosed = errors.New("native: encoding on a closed context")

// Reencode appends to `to` the image at data as a new JPEG, which loses: decoded, made smaller with
// Pillow's bilinear filter where e asks for it, and encoded at a quality. The error is an *Error.
// `to` may be the memory that data points to, for the image is made before it is copied.
func (c *Context) Reencode(data unsafe.Pointer, length int64, e Encoding, to []byte) ([]byte, error) {
	if length < 0 {
		return nil, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if c.c == nil {
		return nil, errEncodeClosed
	}
	var made C.hrn_encoded
	var status C.hrn_status
	C.hrn_reencode(c.c, (*C.uint8_t)(data), C.size_t(length), C.int32_t(e.Shorter),
		C.int32_t(e.Quality), C.int32_t(e.Orientation), &made, &status)
	if err := failure(&status); err != nil {
		return nil, err
	}
	return append(to, unsafe.Slice((*byte)(made.bytes), int(made.length))...), nil
}

// ToPPM appends to `to` the image at data as a binary PPM: every pixel as a decode gives it, after
// e.Shorter as in Reencode; e.Quality has no meaning. The error and `to` are as there.
func (c *Context) ToPPM(data unsafe.Pointer, length int64, e Encoding, to []byte) ([]byte, error) {
	if length < 0 {
		return nil, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if c.c == nil {
		return nil, errEncodeClosed
	}
	var made C.hrn_encoded
	var status C.hrn_status
	C.hrn_to_ppm(c.c, (*C.uint8_t)(data), C.size_t(length), C.int32_t(e.Shorter),
		C.int32_t(e.Orientation), &made, &status)
	if err := failure(&status); err != nil {
		return nil, err
	}
	return append(to, unsafe.Slice((*byte)(made.bytes), int(made.length))...), nil
}

// ToBaseline appends to `to` the JPEG at data, progressive or arithmetic-coded, as baseline with the
// same coefficients and markers, and says whether it did: a file of another kind, one that is
// baseline already, incomplete or odd is better left alone. `to` may be the memory of data.
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
