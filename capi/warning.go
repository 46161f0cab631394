package main

import (
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// withSIMD adds to what opening an object warns of that HEADRACE_SIMD is no instruction set that can be used. A
// misspelt one would be as slow as scalar code, and nobody would know why.
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
