// Package core holds what all C code here uses: status, a thread's memory, images and rows, the CPU's level.
//
// status.c says what went wrong, memory.c keeps a thread's scratch and its limits, rows.c goes over
// an image a few rows at a time, cpu.c alone asks the CPU what it can do, times.c
// alone the clock. crc32c.c, exif.c and philox.h are what more than one stage wants and none owns.
package core

/*
#cgo CFLAGS: -O3 -std=c11 -D_GNU_SOURCE -Wall -Wextra -fvisibility=hidden
#cgo CFLAGS: -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
*/
import "C"

import "embed"

// Go's build cache looks at no header of another folder. What is embedded is part of this package,
// so packages that import it are compiled anew when a header changes.
//
//go:embed *.h
var _ embed.FS
