// Package environment reads environment variables with their current values. Go copies them when the library is loaded,
// so only C sees later changes by Python's os.environ or a notebook's %env.
package environment

import (
	"os"
	"strings"
	"sync"
)

// Get returns a variable's value as C has it now, "" if there is none.
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

// Follow updates Go's copy of the variables that begin with the prefixes to what C has now, for libraries that ask Go.
// It returns whether anything differed. Go passes on to C what it is told, so equal values are not set.
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
		// A variable that seems to be missing may only have been skipped, and would be unset for the whole program. The
		// next call follows.
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
			os.Setenv(name, value) // fails only for names that C cannot have either
			changed = true
		}
	}
	return changed
}
