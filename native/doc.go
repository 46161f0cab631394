// Package native turns encoded bytes into one finished sample, in C.
//
// One call an image: checksum, header, limits, random draws, cropped decode, resize, flip, ops on
// pixels, normalise, cast and write, straight to the place the caller names. native.h is the C
// interface and its contract; the Go files only carry it over.
//
// The package knows nothing of files, shards, batches or threads. It is handed bytes that stay
// readable for the length of the call and memory that stays writable, and keeps neither.
//
// # Packages
//
// The C code stands in packages below this one, which may call only what they import; the linker
// sees to that. Lowest first:
//
//	core              status, memory, images and their rows, the CPU, checksum, EXIF
//	jpeg              bytes to rows of pixels, verdicts and seek points; an image to a JPEG
//	png, webp, bmp    bytes to pixels
//	gif, tiff         bytes to pixels
//	decode            which decoder; facts and verdict without pixels; baseline files
//	resize            Pillow's resampling
//	write             pixels to finished values
//	pixels            one op with fixed parameters on an image
//	draws             what chance decides: from key and op to parameters
//	plan              the ops of a sample as stages, and a stage's run
//	native            sample.c, the one call; run.c, many small images in one; reencode.c, files made anew;
//	                  mask.c, a mask moved with its image, with the warps of maskwarp.c
//
// A stage is a file, an instruction set is a suffix. ctest holds the C tests of all of them.
//
// # Lifetimes
//
// A Context belongs to one thread at a time and holds decoder memory and scratch, which grow to the
// largest image seen and never over Limits.MaxDecoderBytes. A Plan is immutable and may be shared.
// Both are C memory: Close frees them, the garbage collector does not.
//
// # Build
//
// libjpeg-turbo, libwebp and zlib are linked from their static archives; the final link hides their
// symbols, since a Python process holds other copies of each. ISO mode (-std=c11) is what makes gcc
// keep a*b+c two roundings (-ffp-contract=off, which cgo does not let through): resize
// coefficients must be Pillow's to the bit. Every package has the same flags.
//
// Go's build cache looks at no header of another folder. So each package embeds its headers, and each
// imports every package whose headers reach it: a changed header then compiles anew what it must.
// tools/lint.sh derives those imports from the compiler.
package native
