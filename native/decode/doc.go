// Package decode finds an encoded image's format from its content, inspects it for damage, and
// calls the decoder of its format for the pixels.
//
// sniff.c detects the format. decode.c calls the decoders' packages, ppm.c or raw.c. inspect.c
// reads an image for its facts and verdict without making pixels. baseline.c recodes a progressive
// JPEG losslessly. context.c makes what a thread keeps from image to image.
package decode

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -lm
*/
import "C"

import (
	"embed"

	_ "github.com/headrace/headrace/native/bmp"
	_ "github.com/headrace/headrace/native/core"
	_ "github.com/headrace/headrace/native/gif"
	_ "github.com/headrace/headrace/native/jpeg"
	_ "github.com/headrace/headrace/native/png"
	_ "github.com/headrace/headrace/native/tiff"
	_ "github.com/headrace/headrace/native/webp"
)

// Go's build cache does not see the headers of other folders. Embedded files are part of this
// package, so packages that import it are compiled again when a header changes.
//
//go:embed *.h
var _ embed.FS
