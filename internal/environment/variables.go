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
	mostBytes     = 4 << 20 // bytes of one variable
	mostTries     = 64
)

// variables returns the variables that C has now, as NAME=VALUE. whole is false if they changed all the time.
//
// Nothing keeps another thread from setting a variable meanwhile (setenv(3): MT-Unsafe): the list moves, and its former
// memory is freed. So the memory is read as a debugger reads it: by a call that fails if there is no memory, so that a
// pointer that has become something else does no harm. The result is used if the list is the same after reading the
// texts as before.
func variables() (list []string, whole bool) {
	known := map[uintptr]string{} // from earlier tries, because each text takes a call
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

// pointersNow returns C's list of pointers to variables. ok is false if the list went away while it was read.
func pointersNow() (list []uintptr, ok bool) {
	at := uintptr(C.hr_environ())
	if at == 0 {
		return nil, true
	}
	var page [pageBytes]byte
	for len(list) < mostVariables {
		// This reads up to the end of a page, because the next page may not exist.
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

// textAt returns a text up to its NUL.
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

// own copies memory of this process within a page; it returns false if there is none.
func own(to []byte, from uintptr) bool {
	here := []unix.Iovec{{Base: &to[0], Len: uint64(len(to))}}
	there := []unix.RemoteIovec{{Base: from, Len: len(to)}}
	n, err := unix.ProcessVMReadv(os.Getpid(), here, there, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		// A sandbox may lack this call. What is read here was C's a moment ago.
		return copy(to, unsafe.Slice((*byte)(pointer(from)), len(to))) == len(to)
	}
	return err == nil && n == len(to)
}

// pointer turns an address of C's memory into a pointer.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
