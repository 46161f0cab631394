//go:build coverage

package main

import "C"

import (
	"os"
	"runtime/coverage"
)

// goWriteCoverage writes to GOCOVERDIR which Go code the process ran. A program built with -cover
// does so when main returns, but a shared library never does (golang/go#64371), so coverage_exit.go
// calls this at exit. Only tools/coverage.sh builds with this tag.
//
//export goWriteCoverage
func goWriteCoverage() {
	directory := os.Getenv("GOCOVERDIR")
	if directory == "" {
		return
	}
	if err := coverage.WriteMetaDir(directory); err != nil {
		os.Stderr.WriteString("coverage: " + err.Error() + "\n")
		return
	}
	if err := coverage.WriteCountersDir(directory); err != nil {
		os.Stderr.WriteString("coverage: " + err.Error() + "\n")
	}
}
