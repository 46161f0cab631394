package main

/*
#include "headrace.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
)

// A code is one of enum hr_code: the number of a fault.Kind, or an answer that is no error.
type code int32

const (
	codeOK          code = C.HR_OK
	codeEnd         code = C.HR_END
	codeTimeout     code = C.HR_TIMEOUT
	codeShortBuffer code = C.HR_SHORT_BUFFER
)

// A failure is an hr_error before it is copied out.
type failure struct {
	code           code
	osError        int32
	record, offset int64
	file, text     string
}

// notice is an answer that is no error, with its sentence.
type notice struct {
	code code
	text string
}

func (e *notice) Error() string { return e.text }

// argument is a refusal of what the caller asked for; package fault's Argument makes the text.
func argument(text string) error { return fault.New(fault.KindArgument, text) }

func badHandle(h int64) error {
	return fault.New(fault.KindBadHandle, fmt.Sprintf("%#x is no open handle of this kind: it was closed, or never was one", h))
}

func batchHandle(h int64) error {
	return fault.New(fault.KindBadHandle, fmt.Sprintf("%#x is a batch's handle (expected a dataset's, a loader's, a writer's, a job's, a decoder's or a work's): hr_release gives a batch back", h))
}

// classify returns what the caller of the ABI is told of an error.
func classify(err error) failure {
	var (
		noticed *notice
		system  syscall.Errno
		scarce  *headroom.Error
	)
	if errors.As(err, &noticed) {
		return failure{code: noticed.code, record: fault.None, offset: fault.None, text: fault.Line(noticed.text)}
	}
	place := fault.PlaceOf(err)
	f := failure{code: code(fault.KindOf(err)), record: place.Record, offset: place.Offset, file: place.File}
	if errors.As(err, &system) {
		f.osError = int32(system)
	}
	f.text = fault.Line(sentence(err, f))
	if f.code == code(fault.KindMemory) && !errors.As(err, &scarce) {
		f.text += headroom.Room()
	}
	return f
}

// sentence returns the error's own text if its type makes one in the form of package fault. An
// error that none of our packages made gets its sentence here.
func sentence(err error, f failure) string {
	if f.code == code(fault.KindInternal) && !strings.Contains(err.Error(), string(fault.Internal)+": ") {
		nowhere := fault.Place{Record: fault.None, Offset: fault.None}
		return fault.Sentence(nowhere, fault.Internal, err.Error()+"; please report this")
	}
	return err.Error()
}

// planError is for transforms and orders that are impossible: whatever is wrong with them is wrong
// with the caller's configuration.
func planError(err error) error {
	if err == nil || classify(err).code != code(fault.KindInternal) {
		return err
	}
	// A mistake of the library itself is not the caller's, but only errors without a type get here.
	return argument(err.Error())
}
