// Package plan compiles a list of ops into stages and runs them. A stage is one pass over the
// pixels.
//
// plan.c checks and compiles the list, and walk.c goes through the ops of one image. draw.c draws
// the geometric ops, ioucrop.c those that look at boxes, and geometry.c folds them into stages.
// stage.c runs a stage and gives its rows to a writer (writer.c, patch.c); crops.c and erase.c run
// last. mix.c makes a sample of two, and together.c decides which views are decoded together.
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

// Go's build cache does not see the headers of other folders. Embedded files are part of this
// package, so packages that import it are compiled again when a header changes.
//
//go:embed *.h
var _ embed.FS
