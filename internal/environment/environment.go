// Package environment reads environment variables with their current values. Go copies them when the
// library is loaded, so only C sees what Python's os.environ or a notebook's %env sets later.
package environment

/*
#include <stdlib.h>

extern char **environ;
static char *hr_variable(size_t i) { return environ ? environ[i] : NULL; }
*/
import "C"

import (
	"os"
	"strings"
	"sync"
	"unsafe"
)

// Get is a variable's value as C has it now, empty where there is none.
func Get(name string) string {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.GoString(C.getenv(c))
}

var following sync.Mutex

// Follow makes Go's copy of the variables that begin so what C has now, for libraries that ask Go, and says
// whether anything differed. Go tells C what it is told, so nothing is set that is the same.
func Follow(prefixes ...string) (changed bool) {
	following.Lock()
	defer following.Unlock()
	concerned := func(name string) bool {
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	}
	now := map[string]string{}
	for i := C.size_t(0); ; i++ {
		variable := C.hr_variable(i)
		if variable == nil {
			break
		}
		if name, value, ok := strings.Cut(C.GoString(variable), "="); ok && concerned(name) {
			now[name] = value
		}
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if _, ok := now[name]; !ok && concerned(name) {
			os.Unsetenv(name)
			changed = true
		}
	}
	for name, value := range now {
		if had, ok := os.LookupEnv(name); !ok || had != value {
			os.Setenv(name, value) // fails for names alone that C cannot have either
			changed = true
		}
	}
	return changed
}
