//go:build !headrace_debug

package pinned

// refuse makes a wrong step an error: in a user's process nothing of ours may panic.
func refuse(err *StateError) error { return err }
