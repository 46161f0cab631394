package formats

import (
	"strings"
	"unicode/utf8"
)

// SampleKey returns the name of the sample in a file, for datasets in place and packed ones alike: the path without its
// last extension, as text.
func SampleKey(path string) string { return TextName(Key(path)) }

// TextName makes text of a name, which in the file system is bytes. A byte that is not UTF-8 becomes %XX. A per cent
// sign that could be read as such an escape, because 25 or 80 to FF follows it, becomes %25. Every other one is
// unchanged, so that "100%" and "a%20b" keep their names. Two names never give one text.
func TextName(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, "%") {
		return name
	}
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		// A replacement character that is part of the name itself has three bytes.
		if r == utf8.RuneError && n == 1 || readsAsEscape(name) {
			writeEscape(&b, name[0])
		} else {
			b.WriteString(name[:n])
		}
		name = name[n:]
	}
	return b.String()
}

// readsAsEscape is true for a text that begins like TextName's output for a byte.
func readsAsEscape(s string) bool {
	if len(s) < 3 || s[0] != '%' {
		return false
	}
	return s[1:3] == "25" || strings.IndexByte("89ABCDEF", s[1]) >= 0 && strings.IndexByte(upperDigits, s[2]) >= 0
}

const upperDigits = "0123456789ABCDEF"

// writeEscape writes %XX for a byte.
func writeEscape(b *strings.Builder, c byte) {
	b.Write([]byte{'%', upperDigits[c>>4], upperDigits[c&15]})
}
