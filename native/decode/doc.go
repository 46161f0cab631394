// Package decode finds out by its content what an encoded image is, whether it is good, and has the decoder
// of its kind make the pixels.
//
// sniff.c tells the kind, decode.c hands on to the decoders' packages, ppm.c or raw.c,
// inspect.c reads for facts and verdict without making pixels, baseline.c writes a progressive JPEG
// anew and loses nothing. context.c makes what a thread keeps from image to image.
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

// Go's build cache looks at no header of another folder. What is embedded is part of this package,
// so packages that import it are compiled anew when a header changes.
//
//go:embed *.h
var _ embed.FS
