// Package draws makes parameters of random ops: from a key (seed, epoch, sample) and an op's number in the
// plan to the angle, the factor or the op that was chosen.
//
// op.h is an op as data. draws.c makes the random words of an op, distributions.c normal and Dirichlet
// values of them. recipe.c draws ops on pixels, policy.c and timm.c those that choose among ops, with the
// tables of policies.c and the maps of maps.c. Impossible parameters are refused by check.c, and of fixed
// ops by checkpixel.c, with the ranges of range.c. mixing.c draws for a batch.
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

// Go's build cache looks at no header of another folder. What is embedded is part of this package,
// so packages that import it are compiled anew when a header changes.
//
//go:embed *.h
var _ embed.FS
