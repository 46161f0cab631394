// Package labels moves boxes, points, masks and further images along with their image, by the ops that were drawn for
// the image. Its arithmetic follows torchvision's v2 on tv_tensors, in single precision and in the same order, so that
// equal parameters give equal numbers.
//
// The package knows what an op does to a point, and which ops do the same to a larger image. It knows nothing of files,
// fields, batches or pixels; masks and images are handed on to native.
package labels
