// Package pathjson carries file paths through JSON unchanged, though JSON's strings are Unicode
// and a path is any bytes. A byte that is not UTF-8 becomes the escape \udc80 to \udcff, one by
// one, as Python has it in a str (surrogateescape, PEP 383): json.dumps writes it so, and
// json.loads reads it. encoding/json alone would make U+FFFD of all of them, and one path of
// several.
//
// No other lone surrogate stands for anything, so that no escape can be a slash, a dot or a NUL.
package pathjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a path where JSON carries it: the bytes of the path itself.
type Text string

// MarshalJSON writes a string of JSON.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	out := []byte{'"'}
	for rest := []byte(t); len(rest) > 0; {
		n := 0 // bytes of UTF-8 that rest begins with
		for n < len(rest) {
			if r, size := utf8.DecodeRune(rest[n:]); r != utf8.RuneError || size > 1 {
				n += size
				continue
			}
			break
		}
		part, err := json.Marshal(string(rest[:n]))
		if err != nil {
			return nil, err
		}
		out = append(out, part[1:len(part)-1]...)
		if n < len(rest) {
			out = fmt.Appendf(out, `\udc%02x`, rest[n])
			n++
		}
		rest = rest[n:]
	}
	return append(out, '"'), nil
}

// UnmarshalJSON reads what is a value of JSON already.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if len(raw) < 2 || raw[0] != '"' {
		return json.Unmarshal(raw, (*string)(t)) // null, or not a string
	}
	content := raw[1 : len(raw)-1]
	if bytes.IndexByte(content, '\\') < 0 && utf8.Valid(content) {
		*t = Text(content) // of a million paths most are such
		return nil
	}
	path, begin := make([]byte, 0, len(content)), 0
	flush := func(end int) error { // what stands before a byte that is no UTF-8 is ordinary JSON
		var part string
		err := json.Unmarshal(fmt.Appendf(nil, `"%s"`, content[begin:end]), &part)
		path = append(path, part...)
		return err
	}
	for at := 0; at < len(content); {
		if content[at] != '\\' {
			at++
			continue
		}
		unit, ok := escaped(content[at:])
		switch {
		case !ok:
			at += len(`\n`)
		case !utf16.IsSurrogate(unit):
			at += escapeBytes
		case paired(unit, content[at+escapeBytes:]):
			at += 2 * escapeBytes
		case unit < 0xDC80 || unit > 0xDCFF:
			return &SurrogateError{string(content[at : at+escapeBytes])}
		default:
			if err := flush(at); err != nil {
				return err
			}
			path = append(path, byte(unit))
			at += escapeBytes
			begin = at
		}
	}
	if err := flush(len(content)); err != nil {
		return err
	}
	*t = Text(path)
	return nil
}

// SurrogateError is half a character of UTF-16 that stands for no byte.
type SurrogateError struct{ Escape string }

func (e *SurrogateError) Error() string {
	return fmt.Sprintf("a name has a lone %s, which stands for no byte (expected \\udc80 to \\udcff)", e.Escape)
}

const escapeBytes = len(`\u0000`)

// escaped is the code unit of the escape \uXXXX that s begins with, if it does.
func escaped(s []byte) (rune, bool) {
	if len(s) < escapeBytes || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(s[2:escapeBytes]), 16, 16)
	return rune(unit), err == nil
}

// paired reports whether a surrogate and the escape that s begins with are one character.
func paired(first rune, s []byte) bool {
	second, ok := escaped(s)
	return ok && utf16.DecodeRune(first, second) != utf8.RuneError
}
