// Package pixels runs one op with fixed parameters on an image.
//
// pixels.c chooses the function. The ops are in point.c (each value of a channel becomes another
// one), enhance.c, hue.c, sharpen.c, blur.c, pillowblur.c, warp.c with the neighbours of filter.c,
// noise.c, elastic.c and tensorops.c (as torchvision does them to tensors). user.c calls the
// program's own function, and chains.c blends the results of several ops. The inner loops of an
// instruction set (*_avx2.c) are listed in kernels.h.
package pixels

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -lm
*/
import "C"

import (
	"embed"

	_ "github.com/headrace/headrace/native/core"
	_ "github.com/headrace/headrace/native/jpeg"
)

// Go's build cache does not see the headers of other folders. Embedded files are part of this
// package, so packages that import it are compiled again when a header changes.
//
//go:embed *.h
var _ embed.FS
