// Package pathjson carries file paths through JSON unchanged, although JSON's strings are Unicode and a path may be any
// bytes. A byte that is not UTF-8 becomes one escape \udc80 to \udcff, as in a str of Python (surrogateescape, PEP
// 383): json.dumps writes such escapes, and json.loads reads them. encoding/json would turn all of them into U+FFFD,
// and several paths into one.
//
// No other lone surrogate stands for anything, so no escape can be a slash, a dot or a NUL.
package pathjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a path that JSON carries; it holds the bytes of the path itself.
type Text string

// MarshalJSON writes a string of JSON.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	out := []byte{'"'}
	for rest := []byte(t); len(rest) > 0; {
		n := 0 // bytes of UTF-8 at the beginning of rest
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

// UnmarshalJSON reads a value that is already valid JSON.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if len(raw) < 2 || raw[0] != '"' {
		return json.Unmarshal(raw, (*string)(t)) // null, or not a string
	}
	content := raw[1 : len(raw)-1]
	if bytes.IndexByte(content, '\\') < 0 && utf8.Valid(content) {
		*t = Text(content) // most paths are like this
		return nil
	}
	path, begin := make([]byte, 0, len(content)), 0
	flush := func(end int) error { // the text before a byte that is not UTF-8 is ordinary JSON
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

// SurrogateError reports half a character of UTF-16 that stands for no byte.
type SurrogateError struct{ Escape string }

func (e *SurrogateError) Error() string {
	return fmt.Sprintf("a name has a lone %s, which stands for no byte (expected \\udc80 to \\udcff)", e.Escape)
}

const escapeBytes = len(`\u0000`)

// escaped returns the code unit of the escape \uXXXX at the beginning of s, if there is one.
func escaped(s []byte) (rune, bool) {
	if len(s) < escapeBytes || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(s[2:escapeBytes]), 16, 16)
	return rune(unit), err == nil
}

// paired reports whether a surrogate and the escape at the beginning of s form one character.
func paired(first rune, s []byte) bool {
	second, ok := escaped(s)
	return ok && utf16.DecodeRune(first, second) != utf8.RuneError
}
