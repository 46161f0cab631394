package threads

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// name is what ps, top and a debugger show for a decode thread, with a NUL at the end: the kernel keeps only 15 bytes
// (prctl(2), PR_SET_NAME).
var name = [16]byte([]byte("headrace-decode\x00"))

// Name names the locked thread and returns a function that removes the name again. That is needed because the process's
// first thread cannot end: the runtime parks it for ever instead (runtime.mexit).
func Name() func() {
	var before [16]byte
	// These calls cannot fail with valid memory, and a thread without a name works as well.
	_ = unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&before)), 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&before)), 0, 0, 0) }
}
