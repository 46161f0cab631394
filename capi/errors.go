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

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/pipeline"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
	"github.com/headrace/headrace/pinned"
)

// A code is one of enum hr_code.
type code int32

const (
	codeOK           code = C.HR_OK
	codeEnd          code = C.HR_END
	codeTimeout      code = C.HR_TIMEOUT
	codeShortBuffer  code = C.HR_SHORT_BUFFER
	codeBadHandle    code = C.HR_BAD_HANDLE
	codeArgument     code = C.HR_ARGUMENT
	codeBadFile      code = C.HR_BAD_FILE
	codeBadImage     code = C.HR_BAD_IMAGE
	codeTruncated    code = C.HR_TRUNCATED
	codeChecksum     code = C.HR_CHECKSUM
	codeUnsupported  code = C.HR_UNSUPPORTED
	codeLimit        code = C.HR_LIMIT
	codeIO           code = C.HR_IO
	codeMemory       code = C.HR_MEMORY
	codeDuplicateKey code = C.HR_DUPLICATE_KEY
	codeEmpty        code = C.HR_EMPTY
	codeClosed       code = C.HR_CLOSED
	codeInternal     code = C.HR_INTERNAL
)

// A failure is an hr_error before it is copied out.
type failure struct {
	code           code
	osError        int32
	record, offset int64
	file, text     string
}

// coded is an error that arises in this package, where the code is known.
type coded struct {
	code code
	text string
}

func (e *coded) Error() string { return e.text }

// argument is a refusal of what the caller asked for; package fault's Argument makes the text.
func argument(text string) error { return &coded{codeArgument, text} }

func badHandle(h int64) error {
	return &coded{codeBadHandle, fmt.Sprintf("%#x is no open handle of this kind: it was closed, or never was one", h)}
}

func batchHandle(h int64) error {
	return &coded{codeBadHandle, fmt.Sprintf("%#x is a batch's handle (expected a dataset's, a loader's, a writer's or a job's): hr_release gives a batch back", h)}
}

// classify finds what happened, and where, by the typed errors of the packages below. One chain may
// hold several of them: the innermost knows best what happened, the outermost where. An error that
// none of them made is ours to explain: HR_INTERNAL.
func classify(err error) failure {
	f := failure{code: codeInternal, record: -1, offset: -1, text: err.Error()}
	var (
		own     *coded
		index   *catalog.Error
		file    *mmap.Error
		pixels  *native.Error
		missing *pinned.MemoryError
		sample  *pipeline.SampleError
		system  syscall.Errno
		scarce  *headroom.Error
	)
	// First the weakest: whatever follows knows more, and overrides it.
	if errors.As(err, &system) {
		f.code, f.osError = codeIO, int32(system)
	}
	if errors.As(err, &file) {
		f.file, f.offset = file.Path, file.Offset
		f.code = fileCode(file)
	}
	if errors.As(err, &pixels) {
		f.code, f.offset = pixelCodes[pixels.Code], pixels.Offset
	}
	// ENOMEM is an errno below, but a caller frees memory for it, and looks for no file.
	if errors.As(err, &missing) {
		f.code = codeMemory
	}
	if errors.Is(err, pipeline.ErrClosed) || errors.Is(err, pinned.ErrClosed) {
		f.code = codeClosed
	}
	if errors.Is(err, pipeline.ErrFull) {
		f.code = codeLimit
	}
	if errors.As(err, &index) {
		f.file, f.record = index.File, index.Record
		if index.Offset >= 0 {
			f.offset = index.Offset
		}
		if f.code == codeInternal || index.Kind != catalog.KindIO {
			f.code = indexCodes[index.Kind]
		}
	}
	// Of a sample the pipeline knows the place best: the decoder counts from the record's first byte.
	if errors.As(err, &sample) {
		f.file, f.record, f.offset = sample.File, sample.Record, sample.Offset
		if f.code == codeInternal || sample.Code == catalog.KindMemory {
			f.code = indexCodes[sample.Code]
		}
	}
	if errors.As(err, &scarce) {
		if f.code = codeLimit; scarce.Space {
			f.code = codeMemory
		}
	}
	if errors.As(err, &own) {
		f.code = own.code
	}
	f.text = fault.Line(sentence(err, f))
	if f.code == codeMemory && scarce == nil {
		f.text += headroom.Room()
	}
	return f
}

// sentence is the error's own where its type makes one in the form of package fault. What a decoder
// said without a file, and what none of our packages made, get theirs here.
func sentence(err error, f failure) string {
	nowhere := fault.Place{Record: fault.None, Offset: fault.None}
	if e, ok := err.(*native.Error); ok {
		nowhere.Offset = e.Offset
		return fault.Sentence(nowhere, pixelFamilies[e.Code], e.Text)
	}
	if f.code == codeInternal && !strings.Contains(err.Error(), string(fault.Internal)+": ") {
		return fault.Sentence(nowhere, fault.Internal, err.Error()+"; please report this")
	}
	return err.Error()
}

// pixelFamilies are those of the kernel's codes; a caller's argument and short memory have none.
var pixelFamilies = map[native.Code]fault.Family{
	native.Bad: fault.Bad, native.Truncated: fault.Bad, native.Checksum: fault.Bad,
	native.Unsupported: fault.Unsupported, native.Limit: fault.Unsupported, native.Internal: fault.Internal,
}

// indexCodes has every kind: one that were missing would be HR_OK to the caller.
var indexCodes = map[catalog.ErrorKind]code{
	catalog.KindInternal: codeInternal, catalog.KindArgument: codeArgument,
	catalog.KindBadFile: codeBadFile, catalog.KindTruncated: codeTruncated,
	catalog.KindChecksum: codeChecksum, catalog.KindUnsupported: codeUnsupported,
	catalog.KindLimit: codeLimit, catalog.KindIO: codeIO, catalog.KindEmpty: codeEmpty,
	catalog.KindDuplicateKey: codeDuplicateKey, catalog.KindBadImage: codeBadImage,
	catalog.KindMemory: codeMemory,
}

// pixelCodes are the codes of the kernel; a bad record is a bad image here, for files have a code of
// their own.
var pixelCodes = map[native.Code]code{
	native.Bad: codeBadImage, native.Truncated: codeTruncated, native.Checksum: codeChecksum,
	native.Unsupported: codeUnsupported, native.Limit: codeLimit, native.Memory: codeMemory,
	native.Argument: codeArgument, native.Internal: codeInternal,
}

// fileCode is for errors of package mmap; what it did not name itself is the system's errno.
func fileCode(err error) code {
	for _, known := range []struct {
		is   error
		code code
	}{
		{mmap.ErrTruncated, codeTruncated}, {mmap.ErrBounds, codeBadFile}, {mmap.ErrStale, codeBadFile},
		{mmap.ErrNotRegular, codeBadFile}, {mmap.ErrTooLarge, codeLimit}, {mmap.ErrMemory, codeMemory},
		{mmap.ErrClosed, codeClosed}, {mmap.ErrNoPopulate, codeUnsupported},
	} {
		if errors.Is(err, known.is) {
			return known.code
		}
	}
	return codeIO
}

// planError is for transforms and orders that cannot be: whatever is wrong with them, the caller's
// configuration is.
func planError(err error) error {
	if err == nil || classify(err).code != codeInternal {
		return err
	}
	// A mistake of the library's own is not the caller's: only errors without a type come by here.
	return argument(err.Error())
}
