package scan

import "testing"

// AlsoIndex indexes a container that opens, and reads what the index then has. It is set where package pack may be
// imported, which imports this one.
var AlsoIndex func(t testing.TB, file string, o Options)
