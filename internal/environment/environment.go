// Package environment reads environment variables with their current values. Go copies them when the
// library is loaded, so only C sees what Python's os.environ or a notebook's %env sets later.
package environment

import (
	"os"
	"strings"
	"sync"
)

// Get is a variable's value as C has it now, empty where there is none.
func Get(name string) string {
	list, _ := variables()
	for _, variable := range list {
		if own, value, ok := strings.Cut(variable, "="); ok && own == name {
			return value
		}
	}
	return ""
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
	list, whole := variables()
	if !whole {
		// What seems to be missing may only have been passed over, and would be unset for the whole program. The next
		// call follows.
		return false
	}
	now := map[string]string{}
	for _, variable := range list {
		if name, value, ok := strings.Cut(variable, "="); ok && concerned(name) {
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
