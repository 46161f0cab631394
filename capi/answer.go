package main

/*
#include "headrace.h"
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/pathjson"
)

// answer runs the work of one export and turns its result, or the panic that it ends in, into the
// code that C sees.
func answer(out *C.hr_error, work func() error) (result C.int32_t) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprintf("panic: %v; please report this with: %s", p, debug.Stack())
			result = write(out, failure{code: code(fault.KindInternal), record: -1, offset: -1, text: fault.Sentence(fault.Place{Record: -1, Offset: -1}, fault.Internal, text)})
		}
	}()
	if err := work(); err != nil {
		return write(out, classify(err))
	}
	return C.HR_OK
}

// answerWarning is answer for work that may succeed with a warning: on HR_OK the text of the
// caller's error is that warning, or empty.
func answerWarning(out *C.hr_error, work func() (string, error)) C.int32_t {
	var warning string
	result := answer(out, func() (err error) {
		warning, err = work()
		return err
	})
	if result == C.HR_OK {
		write(out, failure{code: codeOK, record: -1, offset: -1, text: warning})
	}
	return result
}

// write fills in the caller's error, if there is one, and returns the code in any case.
func write(out *C.hr_error, f failure) C.int32_t {
	if out != nil {
		out.code = C.int32_t(f.code)
		out.os_error = C.int32_t(f.osError)
		out.record = C.int64_t(f.record)
		out.offset = C.int64_t(f.offset)
		copyText(out.file[:], f.file)
		copyText(out.text[:], f.text)
	}
	return C.int32_t(f.code)
}

func copyText(destination []C.char, text string) {
	text = fitting(text, len(destination)-1)
	for i := range len(text) {
		destination[i] = C.char(text[i])
	}
	destination[len(text)] = 0
}

// fitting returns text as C can hold it. It is cut at the end, between characters and not inside
// one, because Python decodes it as UTF-8. A NUL, which C would take for the end, becomes its
// escape; a name from a file may have one anywhere.
func fitting(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", `\x00`)
	n := min(len(text), most)
	for n > 0 && n < len(text) && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}

// configuration reads a caller's JSON strictly: a misspelt argument must not silently become a
// default.
func configuration(text *C.char, length C.size_t, into any) error {
	if text == nil || length == 0 {
		return argument("the configuration is empty (expected a JSON object)")
	}
	// This is for the text and what is made of it: a list of numbers takes several times as much.
	if short := headroom.Memory(8 * int64(min(length, 1<<40))); short != nil {
		return short
	}
	return strictly(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length)), into)
}

// strictly is configuration for text that is known not to be empty.
func strictly(raw []byte, into any) error {
	// encoding/json would replace such bytes, and a path would become another one; package pathjson
	// escapes them.
	if !utf8.Valid(raw) {
		return argument("the configuration is no valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	// Unknown keys are refused, and so is anything behind the object, because no part of a caller's
	// text is meant to be ignored.
	if err := decoder.Decode(into); err != nil {
		return argument(jsonReason(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return argument("the configuration has more than one JSON value (expected one object)")
	}
	return nil
}

// jsonReason says in a caller's terms what encoding/json found: in arguments, not in fields and
// types of Go.
func jsonReason(err error) string {
	var wrong *json.UnmarshalTypeError
	var lone *pathjson.SurrogateError
	switch {
	case errors.As(err, &lone):
		return lone.Error()
	case errors.As(err, &wrong) && wrong.Field == "":
		return fault.Argument("the configuration", jsonName(wrong.Value), "a JSON object")
	case errors.As(err, &wrong):
		return wrong.Field + " is " + jsonName(wrong.Value) + " (expected " + expectedJSON(wrong.Type) + ")"
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, found := strings.CutPrefix(text, "unknown field "); found {
		return "there is no argument " + name
	}
	return "the configuration is no JSON: " + text
}

// jsonName makes "a number" of "number" and "2.5" of "number 2.5".
func jsonName(value string) string {
	switch value {
	case "array", "object":
		return "an " + value
	case "bool":
		return "true or false"
	}
	if number, found := strings.CutPrefix(value, "number "); found {
		return number
	}
	return "a " + value
}

// expectedJSON returns the type of an argument in words.
func expectedJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number of at most 64 bits"
	case reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number from 0 to 2^%d - 1", t.Bits())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// room refuses memory that holds only a part of an answer: half an image, with HR_OK, would be
// taken for a whole one.
func room(capacity, need int64) error {
	if capacity >= need {
		return nil
	}
	return &notice{codeShortBuffer, fmt.Sprintf("the answer needs %d bytes, the buffer has %d", need, capacity)}
}

// textAnswer copies JSON to the caller's buffer, whole or not at all.
func textAnswer(value any, buffer *C.char, capacity C.size_t, need *C.size_t) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return bytesAnswer(append(text, 0), unsafe.Pointer(buffer), capacity, need)
}

// bytesAnswer says how much is needed before it looks at the buffer, so a caller may ask without
// one.
func bytesAnswer(data []byte, buffer unsafe.Pointer, capacity C.size_t, need *C.size_t) error {
	if need != nil {
		*need = C.size_t(len(data))
	}
	if err := room(int64(capacity), int64(len(data))); err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(buffer), len(data)), data)
	return nil
}
