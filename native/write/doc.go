// Package write turns pixels into the finished values of a sample: scale, normalise, cast, layout.
//
// The kernels of each instruction set are in write_*.c. weigh_*.c add two samples by weight
// (MixUp), move_*.c write an image of an array whose pixels are only moved, and plane_*.c write a
// row of one of its channels. kernels.c has the table of kernels.
package write

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
