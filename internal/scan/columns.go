package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// cell is one named value of a sample: a number, or bytes somewhere in the container.
// Which of its members count depends on the kind. An offset is one in the container, or in the block.
type cell struct {
	name   string
	kind   cellKind
	offset int64 // of bytes and text
	length int64
	number float64         // of a float, and of an integer the nearest
	int    int64           // of an integer
	data   []byte          // the bytes, where they were at hand and may be needed
	block  *formats.Block  // that the bytes lie in; nil: in the container
	dtype  string          // of an array, by NumPy's name
	shape  []int64         // of an array
	raw    catalog.RawSize // of an image that is pixels
	held   bool            // an array that lies nowhere: data is it
	json   bool            // text that is a JSON value
	gaps   bool            // a list of which some number is null
	holds  string          // what it is instead of an image's bytes, for a sentence; "" where its kind says enough
}

// setUnsigned makes a number of the cell; beyond 2^63 only a float has room for it.
// An index has no type for unsigned numbers of 64 bits.
func (c *cell) setUnsigned(v uint64) {
	if c.kind, c.number = floatCell, float64(v); v <= math.MaxInt64 {
		c.kind, c.int = intCell, int64(v)
	}
}

// cellKind is what a cell's value is, of which a column has one.
type cellKind uint8

// The zero value is bytes: a value of which a container says no more.
const (
	bytesCell cellKind = iota
	textCell
	intCell
	floatCell
	listCell  // of several numbers
	arrayCell // the same, where their bytes are those of an array
)

// content says what a cell holds that is no image.
// It stands in an error behind "the column holds".
func (c *cell) content() string {
	switch {
	case c.holds != "":
		return c.holds
	case c.kind == listCell:
		return "lists, objects or what is no value here"
	case c.kind == arrayCell:
		return "arrays of " + c.dtype
	}
	return "numbers"
}

// The columns that are taken without a word: WebDataset's and Hugging Face's, and those that slim and
// TFDS write into tf.train.Example.
// Their order decides nothing: two of them in one sample are an error (choice.find).
var (
	imageNames = []string{"image", "img", "jpg", "jpeg", "png", "ppm", "webp", "image/encoded"}
	labelNames = []string{"label", "cls", "class", "target", "image/class/label"}
)

// choice is a column that was named by the user, or is found among the usual names.
// It holds for a whole container, whose samples may each have another one of the alternatives.
type choice struct {
	names []string
	given bool
}

// choose takes a word of the user's, which may hold alternatives as WebDataset writes them ("jpg;png").
// It never fails: a name that no sample has is found out when all were read (chooseColumns).
func choose(asked string, usual []string) choice {
	if asked == "" {
		return choice{usual, false}
	}
	return choice{strings.Split(asked, ";"), true}
}

// find is the place of the column in a sample's cells, -1 where it has none. Of alternatives that the user
// named the first counts; of usual names there may be one alone.
// Cells are few, so a map would cost more than it saves.
func (c *choice) find(cells []cell, what string) (int, error) {
	found := -1
	for _, name := range c.names {
		for i := range cells {
			if cells[i].name != name {
				continue
			}
			// The user's alternatives are an order: "jpg;png" takes the first that a sample has.
			if c.given {
				return i, nil
			}
			if found >= 0 {
				return -1, fmt.Errorf("%w: %s and %s may both be the %s; %s= says which (the sample has %s)",
					formats.ErrUnsupported, cells[found].name, name, what, what, cellNames(cells))
			}
			found = i
		}
	}
	return found, nil
}

// cellNames are sorted, so that a sentence does not depend on how members stand in their archive.
func cellNames(cells []cell) string {
	names := make([]string, len(cells))
	for i := range cells {
		names[i] = cells[i].name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// label is what a sample says of its class: a number, a text, or neither.
// text is kept beside a number because a column may turn out to have names as well, among which "007" is one and not
// the number 7.
type label struct {
	kind     labelKind
	number   int64
	fraction float64
	text     string // of a number that was a word also, where it was written otherwise than we would
	word     bool   // a text, or the number that a text says
}

// said is a label's text.
// A number that was no word is written in the shortest form that is read as the same number.
func (l *label) said() string {
	switch {
	case l.text != "" || l.kind == textLabel:
		return l.text
	case l.kind == fractionLabel:
		return strconv.FormatFloat(l.fraction, 'g', -1, 64)
	}
	return strconv.FormatInt(l.number, 10)
}

// labelKind is what a sample says of its class, if it says anything.
type labelKind uint8

const (
	noLabel labelKind = iota
	intLabel
	textLabel
	fractionLabel
	listLabel
)

// maxLabelBytes bounds the text of a label, maxJSONBytes an object that one is looked for in.
// A label is a word; what is longer is a caption, and would be a class for each sample.
const (
	maxLabelBytes = formats.MaxNameBytes
	maxJSONBytes  = 1 << 20
)

// numberLabel keeps whole numbers, those written as floats too; a fraction is no class. NumPy and pandas write NaN where
// a number is missing.
// A whole float is taken as a class, because programs write classes as floats where a column may have one type alone.
func numberLabel(v float64) label {
	if math.IsNaN(v) {
		return label{}
	}
	// From 2^53 on a float64 has neighbours further apart than 1, and would be another class than was meant.
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return label{kind: intLabel, number: int64(v)}
	}
	return label{kind: fractionLabel, fraction: v}
}

// wordLabel is the label that a text is: a number where it says one, none where it is empty.
func wordLabel(text string) (label, error) {
	// Programs write a line's end behind a class, and those of C a NUL.
	text = strings.Trim(text, " \t\r\n\x00")
	if text == "" {
		return label{}, nil
	}
	// Texts in quotes of JSON do not come here: there "7" is a name (valueLabel).
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return worded(label{kind: intLabel, number: v}, text), nil
	}
	// What ParseFloat takes beside decimal numbers (0x1p-2, 1_000, inf) no writer of labels means.
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !strings.ContainsAny(text, "xXpP_") {
		return worded(numberLabel(v), text), nil
	}
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return label{}, fmt.Errorf("%w: the label %.40q is neither a number nor UTF-8", formats.ErrBad, text)
	}
	return label{kind: textLabel, text: text, word: true}, nil
}

// worded is a number that a text says, and may be that text yet: a name of a class, beside other texts.
func worded(l label, text string) label {
	l.word = true
	if l.said() != text {
		l.text = strings.Clone(text)
	}
	return l
}

// jsonLabel is the label inside a JSON object: the member of that path, or of the usual names, where it
// has just one of them. list is the label where that is an array or an object.
// JSON that lacks the member is no label. JSON that is no object is an error where somebody asked for a member of it.
func jsonLabel(data []byte, path string) (l label, name string, list json.RawMessage, err error) {
	var object map[string]json.RawMessage
	// NaN is tried second, for nearly all JSON has none.
	if err := unmarshal(data, &object); err != nil {
		if path == "" {
			return label{}, "", nil, nil // some other JSON, which nobody asked for a label
		}
		return label{}, "", nil, fmt.Errorf("%w: no JSON object: %v", formats.ErrBad, err)
	}
	names := labelNames
	// A path has its dots as they were given: json.a.b is the member b of a, unless there is one called "a.b".
	if path != "" {
		names = []string{path}
	}
	for _, candidate := range names {
		raw, ok := object[candidate]
		if !ok {
			continue
		}
		// Two usual names: which of them is meant is for the user to say.
		if name != "" {
			return label{}, "", nil, fmt.Errorf("%w: json.%s and json.%s may both be the label; label= says which", formats.ErrUnsupported, name, candidate)
		}
		// An error of this member alone: others of the object may be anything.
		if l, err = valueLabel(raw); err != nil {
			return label{}, "", nil, err
		}
		if name = candidate; l.kind == listLabel {
			list = raw
		}
	}
	// A member whose name has the dot goes before, as a column's does.
	// Deeper at most as often as the path has dots.
	if first, rest, nested := strings.Cut(path, "."); name == "" && nested {
		if raw, ok := object[first]; ok {
			return jsonLabel(raw, rest)
		}
	}
	return l, name, list, nil
}

// unmarshal reads JSON as Python's json writes it.
// Go's library follows RFC 8259, which has no NaN; Python's writes NaN, Infinity and -Infinity unless allow_nan=False.
func unmarshal(data []byte, to any) error {
	err := json.Unmarshal(data, to)
	if err != nil {
		err = json.Unmarshal(withoutNaN(data), to)
	}
	return err
}

// withoutNaN is JSON with null in the place of NaN and the infinities, which Python's json writes though JSON has none.
// In texts the words stay. Of a longer word that begins so, such as NaNs, null and the rest of it is left, which is no JSON
// either.
func withoutNaN(data []byte) []byte {
	made := make([]byte, 0, len(data))
	for inText := false; len(data) > 0; {
		switch {
		// An escaped quote ends no text.
		case data[0] == '\\' && inText && len(data) > 1:
			made, data = append(made, data[:2]...), data[2:]
			continue
		case data[0] == '"':
			inText = !inText
		case !inText:
			token := 0
			for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(data, []byte(word)) {
					token = len(word)
				}
			}
			if token > 0 {
				made, data = append(made, "null"...), data[token:]
				continue
			}
		}
		made, data = append(made, data[0]), data[1:]
	}
	return made
}

// valueLabel is the label that a JSON value is. Unlike the word of a text file a text in quotes stays one, of digits too.
func valueLabel(raw json.RawMessage) (label, error) {
	var value any
	if err := unmarshal(raw, &value); err != nil {
		return label{}, fmt.Errorf("%w: the label %.40s: %v", formats.ErrBad, raw, err)
	}
	switch v := value.(type) {
	case nil:
		return label{}, nil
	// Python's True and False, which it counts as 1 and 0.
	case bool:
		if v {
			return label{kind: intLabel, number: 1}, nil
		}
		return label{kind: intLabel}, nil
	case float64:
		// JSON's numbers are read as float64, which rounds identifiers beyond 2^53.
		if exact, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return label{kind: intLabel, number: exact}, nil
		}
		return numberLabel(v), nil
	case string:
		if len(v) > maxLabelBytes || strings.IndexByte(v, 0) >= 0 {
			return label{}, fmt.Errorf("%w: a label of %d bytes (expected at most %d, without NUL)", formats.ErrLimit, len(v), maxLabelBytes)
		}
		if v == "" {
			return label{}, nil
		}
		return label{kind: textLabel, text: v, word: true}, nil
	}
	return label{kind: listLabel}, nil
}
