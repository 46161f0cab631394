// Package fault writes the sentence of an error, so that all errors have one form, whichever part of
// the program found what is wrong:
//
//	FILE: record N (KEY) at byte OFFSET: FAMILY: WHAT (expected E, found F): REASON
//
// Each part stands there only where it is known. FILE comes first, as in a compiler's message, so
// that it can be cut off by a script; WHAT is one clause without a final period; REASON is what the
// operating system or a library said. Records count from 0, as indices of a dataset do.
//
// FAMILY says who has to act: "bad" (the bytes are wrong), "unsupported" (the bytes are right, and
// not read: another version or a higher limit would), "internal" (this program is wrong). A
// sentence without one is about the caller's argument, which it names, or about the system, whose
// reason it ends with.
//
// What an argument has to be is said in the same brackets: "batch_size is 0 (expected at least 1)".
// No sentence names a package or a function: its reader does not have our source open.
//
// A sentence is one line of UTF-8 whatever is in a name: control characters, and bytes that are
// no UTF-8, stand as Go and Python write them.
//
// The kinds are in kinds.json. Which of them a failure is, catalog, mmap, pipeline and capi say.
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

// Place says where something is wrong. None stands in Record and Offset where there is nothing to
// say, the empty string in File and Key.
type Place struct {
	File   string // shard, index, manifest or image
	Record int64  // sample number in the dataset
	Key    string // of that sample
	Offset int64  // byte offset in File
}

// None is the Record or Offset that is not known or does not apply.
const None = -1

// String is the part of the sentence before the first clause, empty for a Place without parts.
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

// Line is text with its control characters escaped: a name may have a newline in it, with which
// one error looked like two in a log, or a terminal's escape sequence. So are bytes that are no
// UTF-8, which would all look alike to whoever decodes the text. All else stays.
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

// breaks is true of Unicode's control characters and of its two separators of lines.
func breaks(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// Differs is the clause of two things that ought to be equal.
func Differs(what string, expected, found any) string {
	return fmt.Sprintf("%s (expected %v, found %v)", what, expected, found)
}

// Argument is the clause of an argument that cannot be. Texts are quoted, so that an empty one and
// one with spaces can be seen.
func Argument(name string, value any, expected string) string {
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%.80q", text)
	}
	return fmt.Sprintf("%s is %v (expected %s)", name, value, expected)
}
