package fault

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestASentenceHasItsKnownPartsInAFixedOrder(t *testing.T) {
	all := Place{File: "d/shard-00001.tar", Record: 5, Key: "cat/5", Offset: 512}
	for want, got := range map[string]string{
		"d/shard-00001.tar: record 5 (cat/5) at byte 512: bad: it ends here (expected 9, found 3)": Sentence(all, Bad, Differs("it ends here", 9, 3)),
		"d/shard-00001.tar: record 5: x":            Sentence(Place{File: all.File, Record: 5, Offset: None}, Unnamed, "x"),
		"d/shard-00001.tar: at byte 0: internal: x": Sentence(Place{File: all.File, Record: None}, Internal, "x"),
		"d/shard-00001.tar: x":                      Sentence(Place{File: all.File, Record: None, Offset: None}, Unnamed, "x"),
		"record 0 (k): unsupported: x":              Sentence(Place{Key: "k", Offset: None}, Unsupported, "x"),
		"k: x":                                      Sentence(Place{Key: "k", Record: None, Offset: None}, Unnamed, "x"),
		"x":                                         Sentence(Place{Record: None, Offset: None}, Unnamed, "x"),
		`mode is "a b" (expected one of "exact")`:     Argument("mode", "a b", `one of "exact"`),
		"batch_size is 0 (expected at least 1)":       Argument("batch_size", 0, "at least 1"),
		"the CRC-32C differs (expected a, found <3>)": Differs("the CRC-32C differs", "a", "<3>"),
	} {
		assert.Equal(t, want, got)
	}
}

func TestASentenceIsOneLineOfUTF8WhateverBytesANameHas(t *testing.T) {
	for name, want := range map[string]string{
		"a\nb":                 `a\nb`,
		"\r\t\x1b[31m\x7f":     `\r\t\x1b[31m\x7f`,
		"a\u0085\u2028\u2029":  `a\u0085\u2028\u2029`,
		"it's \"ü\" \\n 雪":     "it's \"ü\" \\n 雪", // no character that breaks a line
		"\xff\xfe \xc3 \uFFFD": `\xff\xfe \xc3 ` + "\uFFFD",
	} {
		assert.Equal(t, want+": record 1 ("+want+"): "+want, Sentence(Place{File: name, Record: 1, Key: name, Offset: None}, Unnamed, name))
		assert.Equal(t, want, Line(Line(name)), "escaping a second time changes nothing")
	}
}
