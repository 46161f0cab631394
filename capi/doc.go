// Package main is the C ABI: it makes Headrace a shared library that other languages can call.
//
// headrace.h is the contract and is written by hand. forward.c holds its functions: each refuses a
// forked child and then calls the Go export of the same name. The exports find the object behind a
// handle, call the package that does the work, and turn its answer into a code. Each export
// recovers from panics, because a Go panic would end the host's process. handle.go is the table of
// handles, errors.go the one place where a Go error becomes an hr_code.
//
// The package knows nothing of Python, of containers or of pixels. It keeps no pointer that a
// caller gave it, except for memory that was lent.
package main

// A shared library has no program of its own, but the build mode needs this function.
func main() {}
