//go:build !headrace_debug

package pinned

// refuse makes a wrong step an error, because nothing of ours may panic in a user's process.
func refuse(err *StateError) error { return err }
