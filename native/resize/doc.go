// Package resize resizes images with the same bytes as Pillow: with its coefficients, its rounding
// and its order of passes.
//
// coefficients.c computes the weights, and arrange.c arranges them for an instruction set.
// scalar.c, avx2.c and avx512.c are the kernels. resize.c orders the passes and runs them down the
// image.
package resize

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -lm
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
