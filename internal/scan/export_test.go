package scan

import "testing"

// AlsoIndex indexes a container that opens, and reads all samples of the index. It is set in a test package of its
// own, because package pack imports this one.
var AlsoIndex func(t testing.TB, file string, o Options)
