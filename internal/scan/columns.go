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
// The kind decides which members are used. An offset counts from the beginning of the container, or of the block.
type cell struct {
	name   string
	kind   cellKind
	offset int64 // of bytes and text
	length int64
	number float64         // of a float; of an integer, the nearest float
	int    int64           // of an integer
	data   []byte          // the bytes, if they were in memory and may be needed
	block  *formats.Block  // the block that the bytes lie in; nil: directly in the container
	dtype  string          // of an array, as NumPy calls it
	shape  []int64         // of an array
	raw    catalog.RawSize // of an image that is stored as pixels
	held   bool            // an array without a place in the file; data has its bytes
	json   bool            // text that is a JSON value
	gaps   bool            // a list in which some number is null
	holds  string          // what the cell holds instead of an image, for an error; "" if the kind says enough
	why    string          // why a listCell cannot be a field, as "is a pickle"; "" if it is a list
}

// setUnsigned makes the cell a number; above 2^63 it becomes a float.
// An index has no type for unsigned numbers of 64 bits.
func (c *cell) setUnsigned(v uint64) {
	if c.kind, c.number = floatCell, float64(v); v <= math.MaxInt64 {
		c.kind, c.int = intCell, int64(v)
	}
}

// cellKind is the kind of a cell's value. All values of a column have the same kind.
type cellKind uint8

// The zero value means bytes: a value about which the container says nothing more.
const (
	bytesCell cellKind = iota
	textCell
	intCell
	floatCell
	listCell  // of several numbers
	arrayCell // the same, if its bytes are those of an array
)

// content says what a cell holds that is no image.
// In an error it follows "the column holds".
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

// These names of columns are used if the user names none: WebDataset's and Hugging Face's, and those that slim and TFDS
// write into tf.train.Example.
// Their order has no meaning: two of them in one sample are an error (choice.find).
var (
	imageNames = []string{"image", "img", "jpg", "jpeg", "png", "ppm", "webp", "image/encoded"}
	labelNames = []string{"label", "cls", "class", "target", "image/class/label"}
)

// choice is a column that the user named, or one with a usual name.
// It applies to a whole container. Each sample may have a different one of the alternatives.
type choice struct {
	names []string
	given bool
}

// choose makes a choice of the user's name for a column, which may hold alternatives as WebDataset writes them
// ("jpg;png").
// It never fails. Only when all samples are read is it known that no sample has such a column (chooseColumns).
func choose(asked string, usual []string) choice {
	if asked == "" {
		return choice{usual, false}
	}
	return choice{strings.Split(asked, ";"), true}
}

// find returns the place of the column in a sample's cells, -1 if there is none. The first of the user's alternatives
// that the sample has is used; of the usual names a sample may have only one.
// There are few cells, so a map would cost more than it saves.
func (c *choice) find(cells []cell, what string) (int, error) {
	found := -1
	for _, name := range c.names {
		for i := range cells {
			if cells[i].name != name {
				continue
			}
			// The user's alternatives have an order: "jpg;png" means the first one that a sample has.
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

// cellNames sorts the names, so that an error does not depend on the order of members in an archive.
func cellNames(cells []cell) string {
	names := make([]string, len(cells))
	for i := range cells {
		names[i] = cells[i].name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// label is what a sample says about its class: a number, a text, or nothing.
// A number keeps its text as well. If the column turns out to have names too, then "007" is a name and not the number
// 7.
type label struct {
	kind     labelKind
	number   int64
	fraction float64
	text     string // of a number that was text as well, if we would write that number differently
	word     bool   // a text, or a number that was written as text
}

// said returns a label's text.
// A number without a text is written in the shortest form that is read as the same number.
func (l *label) said() string {
	switch {
	case l.text != "" || l.kind == textLabel:
		return l.text
	case l.kind == fractionLabel:
		return strconv.FormatFloat(l.fraction, 'g', -1, 64)
	}
	return strconv.FormatInt(l.number, 10)
}

// labelKind is the kind of what a sample says about its class.
type labelKind uint8

const (
	noLabel labelKind = iota
	intLabel
	textLabel
	fractionLabel
	listLabel
)

// maxLabelBytes limits the text of a label, maxJSONBytes a JSON object in which a label is looked for.
// A label is a word. A longer text is a caption, and would make each sample a class of its own.
const (
	maxLabelBytes = formats.MaxNameBytes
	maxJSONBytes  = 1 << 20
)

// numberLabel makes a label of a float. A fraction is no class. NumPy and pandas write NaN if a number is missing.
// A whole float is a class, because programs write classes as floats in a column that can have only one type.
func numberLabel(v float64) label {
	if math.IsNaN(v) {
		return label{}
	}
	// From 2^53 on neighbouring float64 values are more than 1 apart, so the class might not be the one that was meant.
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return label{kind: intLabel, number: int64(v)}
	}
	return label{kind: fractionLabel, fraction: v}
}

// wordLabel makes a label of a text: a number if the text is one, none if it is empty.
func wordLabel(text string) (label, error) {
	// Programs write a line end behind a class, and C programs a NUL.
	text = strings.Trim(text, " \t\r\n\x00")
	if text == "" {
		return label{}, nil
	}
	// Quoted texts of JSON do not come here; there "7" is a name (valueLabel).
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return worded(label{kind: intLabel, number: v}, text), nil
	}
	// ParseFloat also accepts forms that no writer of labels means (0x1p-2, 1_000, inf).
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !strings.ContainsAny(text, "xXpP_") {
		return worded(numberLabel(v), text), nil
	}
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return label{}, fmt.Errorf("%w: the label %.40q is neither a number nor UTF-8", formats.ErrBad, text)
	}
	return label{kind: textLabel, text: text, word: true}, nil
}

// worded marks a number that was written as text. It may still turn out to be a class name, if other labels are names.
func worded(l label, text string) label {
	l.word = true
	if l.said() != text {
		l.text = strings.Clone(text)
	}
	return l
}

// jsonLabel finds the label inside a JSON object: the member with that path, or the one with a usual name. If the label
// is an array or an object, list has it.
// JSON without the member has no label. JSON that is no object is an error only if a member of it was asked for.
func jsonLabel(data []byte, path string) (l label, name string, list json.RawMessage, err error) {
	var object map[string]json.RawMessage
	// unmarshal tries without NaN first, because nearly all JSON has none.
	if err := unmarshal(data, &object); err != nil {
		if path == "" {
			return label{}, "", nil, nil // this JSON was not meant to hold a label
		}
		return label{}, "", nil, fmt.Errorf("%w: no JSON object: %v", formats.ErrBad, err)
	}
	names := labelNames
	// A path keeps its dots: json.a.b is the member b of a, unless there is a member called "a.b".
	if path != "" {
		names = []string{path}
	}
	for _, candidate := range names {
		raw, ok := object[candidate]
		if !ok {
			continue
		}
		// With two usual names only the user can say which one is meant.
		if name != "" {
			return label{}, "", nil, fmt.Errorf("%w: json.%s and json.%s may both be the label; label= says which", formats.ErrUnsupported, name, candidate)
		}
		// Only this member is decoded, because other members of the object may be anything.
		if l, err = valueLabel(raw); err != nil {
			return label{}, "", nil, err
		}
		if name = candidate; l.kind == listLabel {
			list = raw
		}
	}
	// A member whose name contains the dot takes precedence, as with columns.
	// The recursion is at most as deep as the path has dots.
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

// withoutNaN replaces NaN and the infinities in JSON by null. Python's json writes them though JSON has no such words.
// Inside texts they stay. A longer word, such as NaNs, becomes null and a rest, which is invalid JSON as before.
func withoutNaN(data []byte) []byte {
	made := make([]byte, 0, len(data))
	for inText := false; len(data) > 0; {
		switch {
		// An escaped quote does not end a text.
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

// valueLabel makes a label of a JSON value. Unlike in a text file, digits in quotes stay a text.
func valueLabel(raw json.RawMessage) (label, error) {
	var value any
	if err := unmarshal(raw, &value); err != nil {
		return label{}, fmt.Errorf("%w: the label %.40s: %v", formats.ErrBad, raw, err)
	}
	switch v := value.(type) {
	case nil:
		return label{}, nil
	// These are Python's True and False, which Python counts as 1 and 0.
	case bool:
		if v {
			return label{kind: intLabel, number: 1}, nil
		}
		return label{kind: intLabel}, nil
	case float64:
		// JSON's numbers are read as float64, which would round identifiers above 2^53.
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
