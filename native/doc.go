// Package native turns encoded bytes into one finished sample, in C.
//
// One call makes one image: checksum, header, limits, random draws, cropped decode, resize, flip,
// ops on pixels, normalise, cast and write, straight to the place that the caller names. native.h
// is the C interface and its contract; the Go files only make it callable from Go.
//
// The package knows nothing of files, shards, batches or threads. It is given bytes that stay
// readable for the length of the call and memory that stays writable, and keeps neither.
//
// # Packages
//
// The C code is in packages below this one. Each may call only what it imports; otherwise it does
// not link. The lowest package comes first:
//
//	core              status, memory, images and their rows, the CPU, checksum, EXIF
//	jpeg              bytes to rows of pixels, verdicts and seek points; an image to a JPEG
//	png, webp, bmp    bytes to pixels
//	gif, tiff         bytes to pixels
//	decode            chooses the decoder; facts and verdict without pixels; baseline files
//	resize            Pillow's resampling
//	write             pixels to finished values
//	pixels            one op with fixed parameters on an image
//	draws             draws parameters from a key and an op
//	plan              groups the ops of a sample into stages, and runs a stage
//	native            sample.c, the one call; run.c, many small images in one; reencode.c, files made anew;
//	                  mask.c, a mask moved with its image, with the warps of maskwarp.c
//
// Each stage has a file of its own, and the file's suffix names the instruction set. ctest holds
// the C tests of all of them.
//
// # Lifetimes
//
// A Context belongs to one thread at a time. It holds a decoder's memory and scratch memory, which
// grow to what the largest image needed and never over Limits.MaxDecoderBytes. A Plan is immutable
// and may be shared. Both are C memory: Close frees them, the garbage collector does not.
//
// # Build
//
// libjpeg-turbo, libwebp and zlib are linked from their static archives. The final link hides their
// symbols, because a Python process holds other copies of each. ISO mode (-std=c11) makes gcc round
// a*b+c twice (as -ffp-contract=off would, which cgo does not allow): resize coefficients must
// equal Pillow's to the bit. Every package has the same flags.
//
// Go's build cache does not see the headers of other folders. So each package embeds its headers,
// and each imports every package whose headers reach it: a changed header then recompiles what it
// must. tools/lint.sh derives those imports from the compiler.
package native
