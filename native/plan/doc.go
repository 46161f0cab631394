// Package plan compiles a list of ops into stages, each one pass over the pixels, and runs them.
//
// plan.c checks and compiles, walk.c goes through the ops of one image, draw.c draws what is
// geometric, ioucrop.c what looks at boxes for it, geometry.c folds that into stages. stage.c runs
// one and hands its rows to a writer (writer.c, patch.c); crops.c and erase.c are what comes last.
// mix.c finishes a sample from two, and together.c says which views are decoded together.
package plan

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -lm
*/
import "C"

import (
	"embed"

	_ "github.com/headrace/headrace/native/core"
	_ "github.com/headrace/headrace/native/decode"
	_ "github.com/headrace/headrace/native/draws"
	_ "github.com/headrace/headrace/native/pixels"
	_ "github.com/headrace/headrace/native/resize"
	_ "github.com/headrace/headrace/native/write"
)

// Go's build cache looks at no header of another folder. What is embedded is part of this package,
// so packages that import it are compiled anew when a header changes.
//
//go:embed *.h
var _ embed.FS
