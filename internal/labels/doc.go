// Package labels moves boxes, points and masks along with their image, by the ops that were drawn for
// the image. Its arithmetic is torchvision's v2 on tv_tensors, in single
// precision and in its order, so that equal parameters give its numbers.
//
// It knows what an op does to a point. It knows nothing of files, fields, batches or pixels;
// masks are handed on to native.
package labels
