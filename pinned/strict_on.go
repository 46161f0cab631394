//go:build headrace_debug

package pinned

// refuse makes a wrong step a panic, because in our own builds it is our own bug.
func refuse(err *StateError) error { panic(err) }
