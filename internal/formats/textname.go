package formats

import (
	"strings"
	"unicode/utf8"
)

// SampleKey names the sample in a file, in place and packed alike: the path without its last
// extension, as text.
func SampleKey(path string) string { return TextName(Key(path)) }

// TextName makes text of a name, which the file system has as bytes. A byte that is no UTF-8 becomes
// %XX. A per cent sign that would read as such an escape, for 25 or 80 to FF stand behind it, becomes
// %25; every other one stands for itself, so that "100%" and "a%20b" keep their names. Two names never
// make one text.
func TextName(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, "%") {
		return name
	}
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		// A replacement character that stands in the name as such has three bytes.
		if r == utf8.RuneError && n == 1 || readsAsEscape(name) {
			writeEscape(&b, name[0])
		} else {
			b.WriteString(name[:n])
		}
		name = name[n:]
	}
	return b.String()
}

// readsAsEscape is true of a text that begins with what TextName writes for a byte.
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
