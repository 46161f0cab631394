package main

import (
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// withSIMD adds to the warning of an opened object that HEADRACE_SIMD names no instruction set that
// can be used. With a misspelt one everything would be as slow as scalar code, and nobody would
// know why.
func withSIMD(warning string) string {
	_, err := native.SIMD()
	switch {
	case err == nil:
		return warning
	case warning == "":
		return fault.Line(err.Error())
	}
	return fault.Line(err.Error()) + "\n" + warning
}
