// Package webp turns a WebP's bytes into the pixels of a window, through libwebp.
package webp

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -l:libwebpdemux.a -l:libwebp.a -lm
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
