// Package fault writes the sentence of an error, so that all errors have one form, whichever part of
// the program found what is wrong:
//
//	FILE: record N (KEY) at byte OFFSET: FAMILY: WHAT (expected E, found F): REASON
//
// Each part is there only if it is known. FILE comes first, as in a compiler's message, so that a script can cut it
// off. WHAT is one clause without a final period. REASON is what the operating system or a library said. Records count
// from 0, like the indices of a dataset.
//
// FAMILY says who has to act: "bad" (the bytes are wrong), "unsupported" (the bytes are right, but another version or a
// higher limit is needed to read them), "internal" (this program is wrong). A sentence without a family is about the
// caller's argument, which it names, or about the system, whose reason it ends with.
//
// What an argument has to be is said in the same brackets: "batch_size is 0 (expected at least 1)". No sentence names a
// package or a function, because its reader does not have our source open.
//
// A sentence is one line of UTF-8, whatever a name contains: control characters, and bytes that are not UTF-8, are
// escaped as in Go and Python.
//
// The kinds are in kinds.json. catalog, mmap, pipeline and capi decide which kind a failure has.
package fault

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Family says who has to act; see the package's documentation.
type Family string

// The families. Unnamed is for arguments and for what the operating system refused.
const (
	Unnamed     Family = ""
	Bad         Family = "bad"
	Unsupported Family = "unsupported"
	Internal    Family = "internal"
)

// Place says where something is wrong. Unknown parts are None in Record and Offset, and "" in File and Key.
type Place struct {
	File   string // shard, index, manifest or image
	Record int64  // sample number in the dataset
	Key    string // of that sample
	Offset int64  // byte offset in File
}

// None is a Record or Offset that is not known or does not apply.
const None = -1

// String returns the part of the sentence before the first clause; "" for a Place without parts.
func (p Place) String() string {
	var s strings.Builder
	if p.Record >= 0 {
		fmt.Fprintf(&s, "record %d", p.Record)
		if p.Key != "" {
			fmt.Fprintf(&s, " (%s)", p.Key)
		}
	} else if p.Key != "" {
		s.WriteString(p.Key)
	}
	if p.Offset >= 0 {
		if s.Len() > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(&s, "at byte %d", p.Offset)
	}
	switch {
	case p.File == "":
		return s.String()
	case s.Len() == 0:
		return p.File
	}
	return p.File + ": " + s.String()
}

// Sentence puts the parts together.
func Sentence(p Place, family Family, clause string) string {
	parts := make([]string, 0, 3)
	for _, part := range []string{p.String(), string(family), clause} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return Line(strings.Join(parts, ": "))
}

// Line returns text with its control characters escaped. A name may contain a newline, which would make one error look
// like two in a log, or a terminal's escape sequence. Bytes that are not UTF-8 are escaped as well, because they would
// all look alike once the text is decoded. Everything else stays.
func Line(text string) string {
	if strings.IndexFunc(text, breaks) < 0 && utf8.ValidString(text) {
		return text
	}
	var s strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&s, `\x%02x`, text[0])
		case breaks(r):
			s.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			s.WriteString(text[:size])
		}
		text = text[size:]
	}
	return s.String()
}

// breaks is true for Unicode's control characters and its two line separators.
func breaks(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// Differs returns the clause about two things that should be equal.
func Differs(what string, expected, found any) string {
	return fmt.Sprintf("%s (expected %v, found %v)", what, expected, found)
}

// Argument returns the clause about an impossible argument. Texts are quoted, so that an empty one and one with spaces
// can be seen.
func Argument(name string, value any, expected string) string {
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%.80q", text)
	}
	return fmt.Sprintf("%s is %v (expected %s)", name, value, expected)
}
