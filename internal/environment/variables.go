package environment

/*
#include <stdint.h>

extern char **environ;
static uintptr_t hr_environ(void) { return (uintptr_t)__atomic_load_n(&environ, __ATOMIC_ACQUIRE); }
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pageBytes     = 4 << 10
	pointerBytes  = int(unsafe.Sizeof(uintptr(0)))
	mostVariables = 1 << 16
	mostBytes     = 4 << 20 // of one
	mostTries     = 64
)

// variables are those that C has now, as NAME=VALUE; whole is false where they changed all the time.
//
// Nothing keeps another thread from setting one meanwhile (setenv(3): MT-Unsafe): the list moves, and what it was is
// given back. So it is read as a debugger reads, by a call that fails where there is no memory and in which a pointer
// that became something else leads nowhere, and it counts when it is the same behind the texts as before them.
func variables() (list []string, whole bool) {
	known := map[uintptr]string{} // of a try before: each takes a call
	for range mostTries {
		pointers, ok := pointersNow()
		if !ok {
			continue
		}
		list = list[:0]
		for _, at := range pointers {
			text, read := known[at]
			if !read {
				if text, ok = textAt(at); !ok {
					break
				}
				known[at] = text
			}
			list = append(list, text)
		}
		if !ok {
			clear(known)
			continue
		}
		if again, ok := pointersNow(); ok && slices.Equal(pointers, again) {
			return list, true
		}
	}
	return list, false
}

// pointersNow is the list of C's pointers to variables; not ok where it went while it was read.
func pointersNow() (list []uintptr, ok bool) {
	at := uintptr(C.hr_environ())
	if at == 0 {
		return nil, true
	}
	var page [pageBytes]byte
	for len(list) < mostVariables {
		// To the end of a page: what lies behind it may not be there.
		n := pageBytes - int(at%pageBytes)
		if !own(page[:n], at) {
			return nil, false
		}
		for i := 0; i+pointerBytes <= n; i += pointerBytes {
			pointer := uintptr(binary.NativeEndian.Uint64(page[i:]))
			if pointer == 0 {
				return list, true
			}
			list = append(list, pointer)
		}
		at += uintptr(n)
	}
	return nil, false
}

// textAt is a text up to its NUL.
func textAt(at uintptr) (text string, ok bool) {
	var page [pageBytes]byte
	var found []byte
	for len(found) < mostBytes {
		n := pageBytes - int(at%pageBytes)
		if !own(page[:n], at) {
			return "", false
		}
		if end := bytes.IndexByte(page[:n], 0); end >= 0 {
			return string(append(found, page[:end]...)), true
		}
		found = append(found, page[:n]...)
		at += uintptr(n)
	}
	return "", false
}

// own copies memory of this process within a page; false where there is none.
func own(to []byte, from uintptr) bool {
	here := []unix.Iovec{{Base: &to[0], Len: uint64(len(to))}}
	there := []unix.RemoteIovec{{Base: from, Len: len(to)}}
	n, err := unix.ProcessVMReadv(os.Getpid(), here, there, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		// A sandbox knows no such call. What is read here was C's a moment ago.
		return copy(to, unsafe.Slice((*byte)(pointer(from)), len(to))) == len(to)
	}
	return err == nil && n == len(to)
}

// pointer is that of an address of C's memory.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
