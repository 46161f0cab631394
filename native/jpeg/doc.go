// Package jpeg turns a JPEG's bytes into rows of pixels, and an image into a JPEG.
//
// header.c opens a file and says at the end whether it was damaged, limits.c bounds what it may
// cost. inspect.c and entropy.c read all of it for its verdict and its seek points (seek.c).
// window.c makes the pixels of a window: hook.c takes the place of libjpeg-turbo's entropy decoder,
// hook_rows.c decodes the window's coefficients (coefficients.c, huffman.c), planes.c makes pixels
// of them with the kernels of plane_kernels.h, and libjpeg-turbo does what is left. hook_check.c
// tests first whether the linked libjpeg can be hooked. encode.c and encoder.c write a JPEG,
// recompress.c writes one and reads it again.
package jpeg

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -l:libjpeg.a
*/
import "C"

import (
	"embed"

	_ "github.com/headrace/headrace/native/core"
)

// Go's build cache does not see the headers of other folders. Embedded files are part of this
// package, so packages that import it are compiled again when a header changes.
//
//go:embed *.h
var _ embed.FS
