package fault

import (
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"
)

// Kind groups errors by what a caller would do about them. kinds.json has the list, and its numbers
// are those of the C ABI; generate.py writes kinds.go from it.
type Kind uint8

type description struct {
	name   string
	family Family
}

// Family returns the word that begins the sentence of an error of this kind.
func (k Kind) Family() Family { return kinds[k].family }

// String returns the kind's name in the list.
func (k Kind) String() string { return kinds[k].name }

// Kinds returns all kinds, by number.
func Kinds() []Kind {
	found := make([]Kind, 0, len(kinds))
	for k := range Kind(255) {
		if _, known := kinds[k]; known {
			found = append(found, k)
		}
	}
	return found
}

// Kinded is an error that knows its kind. Every type of error of this program is one, and so are the
// errors that New makes.
type Kinded interface {
	error
	FaultKind() Kind
}

// Located is an error that knows where something is wrong.
type Located interface {
	error
	FaultPlace() Place
}

type plain struct {
	kind Kind
	text string
}

func (e *plain) Error() string   { return e.text }
func (e *plain) FaultKind() Kind { return e.kind }

// New makes an error that has a kind and a text, for errors.Is to compare with.
func New(kind Kind, text string) error { return &plain{kind, text} }

// Recover, when deferred, turns a panic into the function's error. A goroutine whose caller does not recover needs it:
// its panic would end the process that loaded this library, for example a training.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = New(KindInternal, fmt.Sprintf("panic: %v; please report this with: %s", p, debug.Stack()))
	}
}

// KindOf returns the kind of a chain of errors. The outermost error that has a kind decides, because it knows what was
// being done. But "the system refused" and "we are wrong" say so little that any other kind further inside is
// preferred. If none of our packages made an error of the chain, an errno in it decides. Otherwise the kind is
// internal, because it is up to us to explain it.
func KindOf(err error) Kind {
	found := KindInternal
	var system syscall.Errno
	if errors.As(err, &system) {
		found = KindIO
	}
	walk(err, func(e error) bool {
		kinded, ok := e.(Kinded)
		if !ok {
			return true
		}
		kind := kinded.FaultKind()
		if kind == KindInternal || kind == 0 {
			return true
		}
		found = kind
		return kind == KindIO
	})
	return found
}

// PlaceOf puts together what the errors of a chain know about the place, the outermost first: a decoder counts from the
// record's first byte, and the loader around it from the file's.
func PlaceOf(err error) Place {
	found := Place{Record: None, Offset: None}
	walk(err, func(e error) bool {
		located, ok := e.(Located)
		if !ok {
			return true
		}
		place := located.FaultPlace()
		if found.File == "" {
			found.File = place.File
		}
		if found.Record == None {
			found.Record = place.Record
		}
		if found.Key == "" {
			found.Key = place.Key
		}
		if found.Offset == None {
			found.Offset = place.Offset
		}
		return true
	})
	return found
}

// walk visits an error and those that it wraps, from the outermost on, until visit returns false.
func walk(err error, visit func(error) bool) bool {
	if err == nil {
		return true
	}
	if !visit(err) {
		return false
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if !walk(inner, visit) {
				return false
			}
		}
	}
	return true
}
