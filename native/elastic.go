package native

/*
#cgo noescape hrn_displace
#cgo nocallback hrn_displace
#cgo noescape hrn_displacement_at
#cgo nocallback hrn_displacement_at
#include "native.h"
*/
import "C"

// pixelOp is the op of a step, with what displacements depend on.
func (s *Step) pixelOp() (op C.hrn_pixel_op) {
	op.kind = C.int32_t(s.Kind - StepPixel)
	for k := range op.i {
		op.i[k] = C.int32_t(s.I[k])
	}
	for k := range op.p {
		op.p[k] = C.double(s.P[k])
	}
	return op
}

// Displacements are those of all pixels of a step of PixelElastic, two a pixel, across and down, in halves of
// the image's sides.
func (s *Step) Displacements() ([]float32, error) {
	op := s.pixelOp()
	width, height := C.int32_t(s.Width), C.int32_t(s.Height)
	room := make([]float32, C.hrn_displacement_room(width, height))
	var status C.hrn_status
	if C.hrn_displace(&op, width, height, (*C.float)(&room[0]), &status); status.code != C.HRN_OK {
		return nil, failure(&status)
	}
	return room[:2*int(s.Width)*int(s.Height)], nil
}

// IdentityGrid is where pixel `at` of an axis stands in torch's grid of an image that is not moved.
func IdentityGrid(at, length int32) float32 {
	return float32(C.hrn_identity(C.int32_t(at), C.int32_t(length)))
}

// DisplacementAt is that of the pixel in column x and row y, which lies inside of the image.
func (s *Step) DisplacementAt(x, y int32) (displacement [2]float32, err error) {
	op := s.pixelOp()
	var status C.hrn_status
	C.hrn_displacement_at(&op, C.int32_t(s.Width), C.int32_t(s.Height), C.int32_t(x), C.int32_t(y), (*C.float)(&displacement[0]), &status)
	if status.code != C.HRN_OK {
		return displacement, failure(&status)
	}
	return displacement, nil
}
