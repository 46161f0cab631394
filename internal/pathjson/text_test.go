package pathjson

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestAPathOfAnyBytesIsTheSameAfterJSONAndBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"\xff", "\xfe", "\x80", "\xc3", "\xa9", "é", "/", "a", "\"", "\\", "\\udcff", "\n", "<", "\U0001F600", "\xed\xb3\xbf", "\uFFFD", "\x00"}
	for range 20_000 {
		path := ""
		for range r.IntN(8) {
			path += pieces[r.IntN(len(pieces))]
		}
		text, err := json.Marshal(Text(path))
		require.NoError(t, err)
		require.True(t, utf8.Valid(text))
		var back Text
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, path, string(back))
	}
}

func TestAPathIsReadAsPythonWritesIt(t *testing.T) {
	for text, want := range map[string]string{
		`"a/b.jpg"`:                   "a/b.jpg",
		`"\u00e9t\u00e9"`:             "été",
		`"\udcff\udcfe.jpg"`:          "\xff\xfe.jpg", // os.fsdecode(b"\xff\xfe.jpg")
		`"\uDCC3\uDCA9"`:              "é",            // two bytes that os.fsencode makes one character of
		`"\ud83d\ude00\udcff"`:        "\U0001F600\xff",
		`"\"\\\/\b\f\n\r\t\\udcff\""`: "\"\\/\b\f\n\r\t\\udcff\"",
		`null`:                        "",
	} {
		var p Text
		require.NoError(t, json.Unmarshal([]byte(text), &p), text)
		require.Equal(t, want, string(p), text)
	}
}

func TestALoneSurrogateThatStandsForNoByteIsRefused(t *testing.T) {
	// Surrogates whose low byte is a slash, a NUL or a dot, and single halves of surrogate pairs.
	for _, text := range []string{`"\udc2f"`, `"\udc00"`, `"a\udc2e"`, `"\udc7f"`, `"\udd00"`, `"\ud83d"`, `"\ud83d\n\ude00"`, `"\udcff\ud800"`, `"\ud800\ud800"`} {
		var p Text
		var wrong *SurrogateError
		require.ErrorAs(t, json.Unmarshal([]byte(text), &p), &wrong, text)
		require.Empty(t, p)
	}
	var wrong *json.UnmarshalTypeError
	require.ErrorAs(t, json.Unmarshal([]byte(`3`), new(Text)), &wrong)
}

// FuzzText: all JSON is read, as encoding/json reads it where that loses nothing, and what was read
// is written back the same.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a"`, `"\udcff"`, `"\ud83d\ude00"`, `"\\\u0041"`, `"\ud83d\udcff"`, `null`, `[`, `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p Text
		var plain string
		plainErr := json.Unmarshal(raw, &plain)
		err := json.Unmarshal(raw, &p)
		var lone *SurrogateError
		switch {
		case plainErr != nil:
			require.Error(t, err)
			return
		case err != nil:
			require.ErrorAs(t, err, &lone)
			return
		case utf8.ValidString(string(p)) && utf8.Valid(raw) && !strings.Contains(strings.ToLower(string(raw)), `\udc`):
			require.Equal(t, plain, string(p))
		}
		text, err := json.Marshal(p)
		require.NoError(t, err)
		var back Text
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, p, back)
	})
}
