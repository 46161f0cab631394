package formats

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// nameOf is the inverse of TextName.
func nameOf(text string) string {
	var name strings.Builder
	for len(text) > 0 {
		if text[0] == '%' && len(text) > 2 {
			c, err := strconv.ParseUint(text[1:3], 16, 8)
			if err == nil && (c >= 0x80 || c == '%') && text[1:3] == strings.ToUpper(text[1:3]) {
				name.WriteByte(byte(c))
				text = text[3:]
				continue
			}
		}
		name.WriteByte(text[0])
		text = text[1:]
	}
	return name.String()
}

func TestTextNameEscapesBytesThatAreNotUTF8AndTextThatLooksEscaped(t *testing.T) {
	for name, want := range map[string]string{
		"c/é 雪\U0001F600": "c/é 雪\U0001F600",
		"\xff\xfe":        "%FF%FE",
		"%FF%FE":          "%25FF%25FE",
		"%25FF":           "%2525FF",
		"é\xe9é":          "é%E9é",
		"\xed\xb3\xbf":    "%ED%B3%BF", // a surrogate encoded as UTF-8 is not valid UTF-8, in Python neither
		// Text that is not an escape stays: web addresses, percentages, lower case.
		"a%20b%2Fc": "a%20b%2Fc",
		"100% %":    "100% %",
		"%ff%e":     "%ff%e",
		"%7F%80":    "%7F%2580",
		"%%FF%":     "%%25FF%",
		"%F\xff":    "%F%FF",
		"%\xff":     "%%FF",
		"%2\xff25":  "%2%FF25",
	} {
		require.Equal(t, want, TextName(name))
		require.Equal(t, name, nameOf(want))
	}
}

func TestDifferentNamesHaveDifferentTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	pieces := []string{"\xff", "\xe9", "\xc3", "\xa9", "%", "%", "%25", "F", "2", "5", "8", "f", "é", "/"}
	seen := map[string]string{}
	for range 30_000 {
		name := ""
		for range r.IntN(7) {
			name += pieces[r.IntN(len(pieces))]
		}
		text := TextName(name)
		require.True(t, utf8.ValidString(text))
		require.Equal(t, name, nameOf(text))
		if other, ok := seen[text]; ok {
			require.Equal(t, other, name, "two names make the text %q", text)
		}
		seen[text] = name
	}
	require.Greater(t, len(seen), 10_000)
}

// FuzzTextName: every name can be recovered from its text.
func FuzzTextName(f *testing.F) {
	for _, s := range []string{"a", "\xff", "%FF", "%25", "%%25\xff", "%2", "é\x80%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		text := TextName(name)
		if !utf8.ValidString(text) || nameOf(text) != name {
			t.Fatalf("%q makes %q, which makes %q", name, text, nameOf(text))
		}
		if utf8.ValidString(name) && !strings.Contains(name, "%") && text != name {
			t.Fatalf("%q makes %q", name, text)
		}
	})
}
