// Package tiff turns a TIFF of 8 bits in strips into the pixels of a window, as Pillow reads it.
package tiff

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -l:libz.a
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
