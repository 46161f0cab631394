// Package labels moves what belongs to an image along with it: boxes, points and masks, by the steps
// that were drawn for the image. Its arithmetic is torchvision's v2 on tv_tensors, in single
// precision and in its order, so that equal parameters give its numbers.
//
// It knows what a step does to a place. It knows nothing of files, fields, batches or pixels;
// masks are handed on to native.
package labels
