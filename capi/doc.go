// Package main is the C ABI: it makes Headrace a shared library that other languages can call.
//
// headrace.h is the contract and is written by hand. forward.c holds its functions: each refuses a
// forked child and goes on to the Go export of the same name. The exports find the object behind a
// handle, call the package that does the work, and turn its answer into a code; each recovers, for
// a Go panic would end the host's process. handle.go is the table of handles, errors.go the one
// place where a Go error becomes an hr_code.
//
// The package knows nothing of Python, of containers or of pixels, and keeps no pointer that a
// caller gave it, but for memory that was lent.
package main

// A shared library has no program of its own; the build mode wants the function all the same.
func main() {}
