// Package core holds what all C code here uses: error status, a thread's memory, images and rows,
// and which instruction set the CPU has.
//
// status.c describes an error, memory.c keeps a thread's scratch memory and its limits, and rows.c
// goes over an image a few rows at a time. Only cpu.c asks the CPU what it can do, and only times.c
// reads the clock. crc32c.c, exif.c and philox.h are here because more than one stage uses them.
package core

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
*/
import "C"

import "embed"

// Go's build cache does not see the headers of other folders. Embedded files are part of this
// package, so packages that import it are compiled again when a header changes.
//
//go:embed *.h
var _ embed.FS
