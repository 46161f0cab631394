// Package png turns a PNG's bytes into the pixels of a window.
//
// chunks.c reads the chunks before the image data, stream.c inflates the image data, filters.c undoes the
// filters, rows.c makes pixels, and png.c combines the interlacing passes.
package png

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
