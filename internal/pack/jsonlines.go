package pack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// jsonLines is a list of files with an object on each line, such as the metadata.jsonl of Hugging Face's ImageFolder. A
// column of whole numbers and booleans is int, a column of numbers float, any other text; lists and objects are kept as
// JSON text. Opening reads the file once to find out.
// The format is JSON Lines (jsonlines.org): UTF-8, a value on each line, here always an object.
type jsonLines struct {
	file  string
	f     *os.File
	r     *bufio.Scanner
	cols  []catalog.Field
	at    map[string]int // from each column's name to its place in cols
	seen  []jsonColumn
	found []json.RawMessage // values of the row read last, by column; nil if it has none
	row   int64
	line  int64 // line of the row read last
	from  int64
	after int64 // offset of the following line
}

// jsonColumn is what the first pass learned about a column.
type jsonColumn struct {
	rows     int64 // number of rows that have it
	fraction bool
	text     bool
	wide     bool // it has whole numbers that exceed an int64
}

// A line is held in memory. A caption has some hundred bytes.
const (
	maxJSONLine    = 16 << 20
	maxJSONColumns = 1024 // as many as fields
)

// openJSONLines reads the file once for the columns and their types.
// A column may first appear in the last row.
func openJSONLines(file string) (_ tableFile, err error) {
	j := &jsonLines{file: file, at: make(map[string]int)}
	if j.f, err = mmap.OpenRegular(file); err != nil {
		return nil, catalog.IOError(file, "cannot open the list of files", err)
	}
	defer func() {
		if err != nil {
			j.f.Close()
		}
	}()
	if err := j.rewind(); err != nil {
		return nil, err
	}
	for {
		err := j.object(j.column)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for i, value := range j.found {
			j.seen[i].learn(value)
		}
		j.row++
	}
	if len(j.cols) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, file, "the list of files is empty")
	}
	for i := range j.cols {
		j.cols[i].Type = j.seen[i].typeOf(j.cols[i].Name, j.row)
	}
	if err := catalog.CheckFields(j.cols); err != nil {
		return nil, catalog.NewError(fault.KindBadFile, file, "the names of the members: %v", err)
	}
	return j, j.rewind()
}

// rewind goes back to the beginning. The scanner is made anew, because it keeps an error and its place.
func (j *jsonLines) rewind() error {
	if _, err := j.f.Seek(0, io.SeekStart); err != nil {
		return catalog.IOError(j.file, "cannot read the list of files", err)
	}
	j.r = bufio.NewScanner(j.f)
	j.r.Buffer(nil, maxJSONLine)
	j.r.Split(j.split)
	j.row, j.line, j.from, j.after = 0, 0, 0, 0
	return nil
}

// split is bufio.ScanLines and notes where the next line begins. A line may end with "\r\n", which is two bytes, and
// the last line may have no end. bufio.Scanner does not report its place.
func (j *jsonLines) split(data []byte, atEOF bool) (int, []byte, error) {
	advance, line, err := bufio.ScanLines(data, atEOF)
	j.after += int64(advance)
	return advance, line, err
}

// object reads the next line that is not blank into found; io.EOF after the last line. If two members have one name the
// last one counts, as in Python. column returns the column of a member.
// found is used again for each row, so a value must be copied to be kept.
func (j *jsonLines) object(column func(name string) (int, error)) error {
	for {
		from := j.after
		if !j.r.Scan() {
			return j.ended()
		}
		text := j.r.Bytes()
		j.line, j.from = j.line+1, from
		if from == 0 { // spreadsheets write a byte order mark
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		clear(j.found)
		err := eachMember(text, func(name string, value json.RawMessage) error {
			i, err := column(name)
			if err == nil {
				j.found[i] = value
			}
			return err
		})
		if err != nil {
			return j.wrong("%v", err)
		}
		return nil
	}
}

// wrong makes an error about the line read last.
// The offset of the line is for programs; an editor uses the line's number.
func (j *jsonLines) wrong(format string, a ...any) error {
	return &catalog.Error{Kind: fault.KindBadFile, File: j.file, Record: j.row, Offset: j.from, Text: fmt.Sprintf("line %d: ", j.line) + fmt.Sprintf(format, a...)}
}

// ended returns the error after the last line; io.EOF if there is none.
func (j *jsonLines) ended() error {
	switch err := j.r.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return &catalog.Error{Kind: fault.KindLimit, File: j.file, Record: j.row, Offset: j.after, Text: fmt.Sprintf("line %d has more than %d bytes", j.line+1, maxJSONLine)}
	case err != nil:
		return catalog.IOError(j.file, "cannot read the list of files", err)
	}
	return io.EOF
}

// eachMember goes through an object, in the order of its members.
// It reads tokens and no map, which would lose that order: it is the order of the columns.
func eachMember(text []byte, each func(name string, value json.RawMessage) error) error {
	// Otherwise the library would replace invalid UTF-8 by other characters.
	if !utf8.Valid(text) {
		return errors.New("it is no UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return fmt.Errorf("%.40q is no JSON object", text)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := each(name.(string), value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind the object")
	}
	return nil
}

// column returns the column of a member in the first pass, and adds a column for each new name.
// The second pass uses another function, which adds none.
func (j *jsonLines) column(name string) (int, error) {
	i, known := j.at[name]
	if !known {
		if len(j.cols) >= maxJSONColumns {
			return 0, fmt.Errorf("more than %d members, %.40q is one more", maxJSONColumns, name)
		}
		i = len(j.cols)
		j.at[name] = i
		j.cols, j.seen, j.found = append(j.cols, catalog.Field{Name: name}), append(j.seen, jsonColumn{}), append(j.found, nil)
	}
	return i, nil
}

// learn notes what a value shows about its column.
// The first character of a value shows its type (RFC 8259, 3).
func (c *jsonColumn) learn(value json.RawMessage) {
	if value == nil {
		return
	}
	switch value[0] {
	case 'n': // null counts like a missing member
		return
	case '"', '{', '[':
		c.text = true
	case 't', 'f':
	default:
		_, err := strconv.ParseInt(string(value), 10, 64)
		c.wide = c.wide || errors.Is(err, strconv.ErrRange)
		c.fraction = c.fraction || errors.Is(err, strconv.ErrSyntax)
	}
	c.rows++
}

// typeOf returns the type of a column; rows is the number of all rows. As in CSV, too large whole numbers are
// identifiers.
func (c *jsonColumn) typeOf(name string, rows int64) catalog.FieldType {
	switch {
	case c.text || c.rows == 0 || name == "key" || name == "path" || name == metadataPath || c.wide && !c.fraction:
		return catalog.Str
	case c.fraction || c.rows < rows:
		return catalog.Float
	}
	return catalog.Int
}

// tooWide excludes text: a column with one text is text, and its numbers stay as they are written.
func (j *jsonLines) tooWide(column int) bool {
	c := &j.seen[column]
	return c.wide && !c.fraction && !c.text
}

func (j *jsonLines) columns() []catalog.Field    { return j.cols }
func (j *jsonLines) place() (line, offset int64) { return j.line, j.from }
func (j *jsonLines) close()                      { j.f.Close() }

// next turns a line into cells of the columns' types.
// A missing member becomes an empty text or NaN. The first pass has made floats of whole numbers that are missing in
// places.
func (j *jsonLines) next(cells []any) (bool, error) {
	err := j.object(func(name string) (int, error) {
		i, known := j.at[name]
		if !known {
			return 0, fmt.Errorf("the member %.40q came while the list of files was read", name)
		}
		return i, nil
	})
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i, f := range j.cols {
		cells[i] = nil
		if j.found[i] != nil {
			if cells[i], err = jsonCell(f.Type, j.found[i]); err != nil {
				return false, j.wrong("%v", err)
			}
		}
		if cells[i] != nil {
			continue
		}
		var ok bool
		if cells[i], ok = missing(f); !ok {
			return false, j.wrong("the member %.40q is missing, which it was not when the list of files was read first", f.Name)
		}
	}
	j.row++
	return true, nil
}

// jsonCell converts a value to its column's type; nil if there is none.
// A value in a text column that is no string becomes JSON text without blanks, so that equal objects give equal texts.
func jsonCell(of catalog.FieldType, value json.RawMessage) (any, error) {
	text := string(value)
	switch {
	case text == "null":
		return nil, nil
	case of == catalog.Str && value[0] == '"':
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	case of == catalog.Str:
		var b bytes.Buffer
		err := json.Compact(&b, value)
		return b.String(), err
	case text == "true":
		text = "1"
	case text == "false":
		text = "0"
	}
	if of == catalog.Int {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err
	}
	n, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) && math.IsInf(n, 0) { // like Python
		err = nil
	}
	return n, err
}
