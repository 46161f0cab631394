package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
	"github.com/headrace/headrace/pinned"
)

func TestAnErrorOfALowerPackageGetsItsCodeAndKeepsFileAndOffset(t *testing.T) {
	indexed := func(kind fault.Kind, err error) error {
		return &catalog.Error{Kind: kind, File: "a.tar", Record: 7, Offset: 512, Text: "x", Err: err}
	}
	file := func(err error) error {
		return &mmap.Error{Op: "read", Path: "a.tar", Offset: 512, Expected: 9, Found: 3, Err: err}
	}
	for _, c := range []struct {
		err  error
		want code
	}{
		{indexed(fault.KindBadFile, nil), code(fault.KindBadFile)},
		{indexed(fault.KindChecksum, nil), code(fault.KindChecksum)},
		{indexed(fault.KindEmpty, nil), code(fault.KindEmpty)},
		{indexed(fault.KindDuplicateKey, nil), code(fault.KindDuplicateKey)},
		{indexed(fault.KindIO, syscall.EACCES), code(fault.KindIO)},
		{indexed(fault.KindIO, file(mmap.ErrTruncated)), code(fault.KindTruncated)},
		{file(mmap.ErrTruncated), code(fault.KindTruncated)},
		{file(mmap.ErrStale), code(fault.KindBadFile)},
		{file(mmap.ErrTooLarge), code(fault.KindLimit)},
		{file(mmap.ErrMemory), code(fault.KindMemory)},
		{file(syscall.EIO), code(fault.KindIO)},
	} {
		for _, err := range []error{c.err, fmt.Errorf("sample 7: %w", c.err)} {
			f := classify(err)
			assert.Equal(t, c.want, f.code, "%v", err)
			assert.Equal(t, "a.tar", f.file)
			assert.EqualValues(t, 512, f.offset)
			assert.Equal(t, err.Error(), f.text)
		}
	}
}

func TestEveryErrorCodeOfNativeHasACodeInTheABI(t *testing.T) {
	for c := native.Bad; c <= native.Internal; c++ {
		f := classify(&native.Error{Code: c, Offset: 33, Text: "x"})
		assert.NotZero(t, f.code, "%v", c)
		assert.EqualValues(t, 33, f.offset)
	}
	assert.Equal(t, code(fault.KindBadImage), classify(&native.Error{Code: native.Bad}).code)
}

func TestEveryKindOfErrorHasACodeInTheABI(t *testing.T) {
	kinds := fault.Kinds()
	assert.Greater(t, len(kinds), 10)
	for _, kind := range kinds {
		err := &catalog.Error{Kind: kind, Record: -1, Offset: -1, Text: "x"}
		assert.Equal(t, code(kind), classify(err).code, "%v", kind)
	}
}

func TestADecodersErrorGetsItsFamilyAndAnUnknownErrorIsInternal(t *testing.T) {
	assert.Equal(t, "at byte 9: bad: x", classify(&native.Error{Code: native.Truncated, Offset: 9, Text: "x"}).text)
	assert.Equal(t, "unsupported: x", classify(&native.Error{Code: native.Limit, Offset: -1, Text: "x"}).text)
	assert.Equal(t, "x", classify(&native.Error{Code: native.Argument, Offset: -1, Text: "x"}).text)
	assert.Equal(t, "internal: odd; please report this", classify(errors.New("odd")).text)
}

func TestTheErrorOfAMissingFileHasItsErrno(t *testing.T) {
	err := catalog.IOError("gone", "cannot open", &fs.PathError{Op: "open", Path: "gone", Err: syscall.ENOENT})
	f := classify(err)
	assert.Equal(t, code(fault.KindIO), f.code)
	assert.EqualValues(t, syscall.ENOENT, f.osError)
}

func TestAMemoryErrorIsNotAnErrorOfTheOperatingSystem(t *testing.T) {
	f := classify(&pinned.MemoryError{Needed: 10, Available: -1, Err: syscall.ENOMEM})
	assert.Equal(t, code(fault.KindMemory), f.code)
	assert.Contains(t, f.text, "10 bytes")
}

func TestAnErrorOfNoKnownTypeIsInternal(t *testing.T) {
	assert.Equal(t, code(fault.KindInternal), classify(errors.New("odd")).code)
}
