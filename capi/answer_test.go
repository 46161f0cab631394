package main

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/headrace/headrace/internal/fault"
)

func TestAPanicInAnExportedFunctionReturnsACodeAndDoesNotEndTheProcess(t *testing.T) {
	for _, work := range []func() error{
		func() error { panic("odd") },
		func() error { return []error{}[len(os.Args)] },
		func() error { var nobody *loader; return nobody.close() },
	} {
		assert.EqualValues(t, code(fault.KindInternal), answer(nil, work))
	}
}

func TestAnExportedFunctionReturnsTheCodeOfItsError(t *testing.T) {
	assert.EqualValues(t, 0, answer(nil, func() error { return nil }))
	assert.EqualValues(t, code(fault.KindArgument), answer(nil, func() error { return argument("x is 3") }))
	assert.EqualValues(t, codeTimeout, answer(nil, func() error { return timedOut }))
	assert.EqualValues(t, code(fault.KindInternal), answer(nil, func() error { return errors.New("odd") }))
}

func TestATextForCIsCutBetweenCharactersAndHasNoNUL(t *testing.T) {
	assert.Equal(t, `\x00a\x00: no such argument`, fitting("\x00a\x00: no such argument", 1023))
	assert.Equal(t, "añ", fitting("añb", 3))
	assert.Equal(t, "a", fitting("añb", 2))
	assert.Equal(t, `\x00`, fitting("\x00\x00", 4))
	assert.Empty(t, fitting("ñ", 1))
	assert.Empty(t, fitting("", 4))
}
