// Package draws draws the parameters of random ops. From a key (seed, epoch, sample) and an op's
// number in the plan it makes the angle, the factor or the chosen op.
//
// op.h has an op as data. draws.c makes the random words of an op, and distributions.c makes normal
// and Dirichlet values from them. pixel_draw.c draws ops on pixels, with the lists of pixel_list.c;
// policy.c and timm.c draw ops that choose among others, with the tables of policies.c and the maps
// of maps.c. check.c refuses impossible parameters of random ops, and checkpixel.c those of fixed
// ops, with the ranges of range.c. mixing.c draws for a batch.
package draws

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
#cgo LDFLAGS: -lm
*/
import "C"

import (
	"embed"

	_ "github.com/headrace/headrace/native/core"
	_ "github.com/headrace/headrace/native/pixels"
)

// Go's build cache does not see the headers of other folders. Embedded files are part of this
// package, so packages that import it are compiled again when a header changes.
//
//go:embed *.h
var _ embed.FS
