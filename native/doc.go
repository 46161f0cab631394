// Package native turns encoded bytes into one finished sample, in C.
//
// One call an image: checksum, header, limits, random draws, cropped decode, resize, flip,
// ops on pixels, normalise, cast and write, straight to the place the caller names. native.h is the C interface
// and its contract; the Go files only carry it over.
//
// The package knows nothing of files, shards, batches or threads. It is handed bytes that stay
// readable for the length of the call and memory that stays writable, and keeps neither.
//
// # Files
//
// A stage is a file, an instruction set is a suffix: context.c (memory and limits), decode.c (which
// decoder), jpeg*.c and png*.c, inspect.c (facts and verdict without pixels), plan.c and walk.c (the
// ops of a sample, in order), resize_*.c, write_*.c, sample.c; for new files encode.c and baseline.c,
// both on encoder.c. draw.c, recipe.c and policy.c draw; pixels.c runs one op on an image, from
// point.c, enhance.c, hue.c, sharpen.c, blur.c, pillowblur.c, warp.c, tensorops.c and pad.c; erase.c works on finished values.
// mixdraw.c draws for a batch, and mix.c finishes a sample from two, on weigh_*.c.
// What one stage tells another is in internal.h.
//
// # Lifetimes
//
// A Context belongs to one thread at a time and holds decoder memory and scratch, which grow to the
// largest image seen and never over Limits.MaxDecoderBytes. A Plan is immutable and may be shared.
// Both are C memory: Close frees them, the garbage collector does not.
//
// # Build
//
// libjpeg-turbo and zlib are linked from their static archives; the final link hides their
// symbols, since a Python process holds other copies of each. ISO mode (-std=c11) is what makes gcc
// keep a*b+c two roundings (-ffp-contract=off, which cgo does not let through): resize
// coefficients must be Pillow's to the bit.
package native
