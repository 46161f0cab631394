package native

/*
#cgo noescape hrn_displace
#cgo nocallback hrn_displace
#cgo noescape hrn_displacement_at
#cgo nocallback hrn_displacement_at
#include "native.h"
*/
import "C"

// Displacements returns the displacements of all pixels of an image of that size: two a pixel,
// across and down, in halves of the image's sides.
func (o FixedElastic) Displacements(width, height int32) ([]float32, error) {
	elastic := o.c()
	room := make([]float32, C.hrn_displacement_room(C.int32_t(width), C.int32_t(height)))
	var status C.hrn_status
	if C.hrn_displace(&elastic, C.int32_t(width), C.int32_t(height), (*C.float)(&room[0]), &status); status.code != C.HRN_OK {
		return nil, failure(&status)
	}
	return room[:2*int(width)*int(height)], nil
}

// IdentityGrid returns where pixel `at` of an axis is in torch's grid of an image that is not
// moved.
func IdentityGrid(at, length int32) float32 {
	return float32(C.hrn_identity(C.int32_t(at), C.int32_t(length)))
}

// DisplacementAt returns the displacement of the pixel in column x and row y, which must be inside
// an image of that size.
func (o FixedElastic) DisplacementAt(width, height, x, y int32) (displacement [2]float32, err error) {
	elastic := o.c()
	var status C.hrn_status
	C.hrn_displacement_at(&elastic, C.int32_t(width), C.int32_t(height), C.int32_t(x), C.int32_t(y), (*C.float)(&displacement[0]), &status)
	if status.code != C.HRN_OK {
		return displacement, failure(&status)
	}
	return displacement, nil
}
