package pack

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// csvFile is a CSV manifest with a header line. A column whose cells are all whole numbers is
// int, all numbers float, else text; opening reads the file once to find out.
// The library reads RFC 4180, quoted line breaks included; what is decided here is types.
type csvFile struct {
	file string
	f    *os.File
	r    *csv.Reader
	cols []catalog.Field
	row  int64
	line int64 // where the row read last begins
	at   int64
	mark int64  // bytes of the byte order mark
	wide []bool // columns of whole numbers that an int64 does not hold
}

// openCSV reads the file once for the types of its columns.
// The rows are read once more behind that and not kept in memory, for a list may have a hundred million.
func openCSV(file string) (_ tableFile, err error) {
	c := &csvFile{file: file}
	if c.f, err = mmap.OpenRegular(file); err != nil {
		return nil, catalog.IOError(file, "cannot open the list of files", err)
	}
	defer func() {
		if err != nil {
			c.f.Close()
		}
	}()
	header, err := c.rewind()
	if err != nil {
		return nil, err
	}
	// Before the rows: their numbers may have commas, and the error would be about those.
	if separator, found := otherSeparator(header); found {
		return nil, wrongSeparator(file, header, separator)
	}
	if err := c.infer(header); err != nil {
		return nil, err
	}
	if err := catalog.CheckFields(c.cols); err != nil {
		return nil, catalog.NewError(fault.KindBadFile, file, "the header line: %v", err)
	}
	if _, err := c.rewind(); err != nil {
		return nil, err
	}
	return c, nil
}

// rewind begins anew and returns the header line.
// The second pass has to begin exactly as the first did, mark and header included.
func (c *csvFile) rewind() ([]string, error) {
	if _, err := c.f.Seek(0, io.SeekStart); err != nil {
		return nil, catalog.IOError(c.file, "cannot read the list of files", err)
	}
	// Rows are short and the file is read twice.
	b := bufio.NewReaderSize(c.f, 1<<18)
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" { // spreadsheets put a byte order mark
		c.mark = 3
		b.Discard(3)
	}
	c.r, c.row = csv.NewReader(b), 0
	c.r.ReuseRecord = true // cells that are kept are cloned
	header, err := c.read()
	if errors.Is(err, io.EOF) {
		return nil, catalog.NewError(fault.KindEmpty, c.file, "the list of files is empty")
	}
	return append([]string(nil), header...), err
}

// read is the next line as cells. The package checks that all lines have as many.
// The cells are valid until the next call, as ReuseRecord has it.
func (c *csvFile) read() ([]string, error) {
	c.at = c.r.InputOffset() + c.mark // the reader began behind the mark
	record, err := c.r.Read()
	if err == nil {
		line, _ := c.r.FieldPos(0)
		c.line = int64(line)
		return record, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, err
	}
	var p *csv.ParseError
	if errors.As(err, &p) {
		// The package's own sentence has its name for the line in front.
		e := catalog.NewError(fault.KindBadFile, c.file, "line %d: %v", p.Line, p.Err)
		e.Offset = c.at
		return nil, e
	}
	return nil, catalog.IOError(c.file, "cannot read the list of files", err)
}

// infer decides the types. An empty cell rules out int, which has no stand-in for nothing, but not
// float, which has NaN. Whole numbers beyond an int64 are identifiers, of which float would keep the
// first 16 digits: they stay text, unless other cells show that the column measures something.
// It keeps no cell, only what they rule out for their column.
func (c *csvFile) infer(header []string) error {
	// Of each column: a cell that is no int64, one that is no float, and one that is a float but no whole number.
	notInt, notFloat, measured := make([]bool, len(header)), make([]bool, len(header)), make([]bool, len(header))
	c.wide = make([]bool, len(header))
	rows := 0
	for ; ; rows++ {
		record, err := c.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i, cell := range record {
			if !notInt[i] {
				_, err := strconv.ParseInt(cell, 10, 64)
				notInt[i] = err != nil
			}
			// Cells before the first that is no int64 are floats as well, and need no second look.
			if notInt[i] && !notFloat[i] && cell != "" {
				_, err := strconv.ParseFloat(cell, 64)
				notFloat[i] = err != nil
				_, err = strconv.ParseInt(cell, 10, 64)
				// Out of range is a whole number all the same; a syntax error has a point or an exponent.
				c.wide[i] = c.wide[i] || errors.Is(err, strconv.ErrRange)
				measured[i] = measured[i] || errors.Is(err, strconv.ErrSyntax)
			}
		}
	}
	for i, name := range header {
		f := catalog.Field{Name: name, Type: catalog.Str}
		// wide says what is to be known of a column of labels only: as a field such a column is text, and no number of
		// it is lost.
		c.wide[i] = c.wide[i] && !notFloat[i] && !measured[i]
		switch {
		case name == "key" || name == "path": // names, also where they are all digits
		case rows > 0 && !notInt[i]:
			f.Type = catalog.Int
		case rows > 0 && !notFloat[i] && !c.wide[i]:
			f.Type = catalog.Float
		}
		c.cols = append(c.cols, f)
	}
	return nil
}

// otherSeparator is a hint for a header that is one column: spreadsheets of half the world write
// semicolons, for their comma is in numbers.
// Commas alone are read: to guess between several would make another table of a text with commas.
func otherSeparator(header []string) (string, bool) {
	if len(header) == 1 {
		for _, separator := range []string{";", "\t", "|"} {
			if strings.Contains(header[0], separator) {
				return separator, true
			}
		}
	}
	return "", false
}

// wrongSeparator is the error of such a header.
func wrongSeparator(file string, header []string, separator string) error {
	return catalog.NewError(fault.KindBadFile, file, "the header line is one column, %.80q; columns are separated by commas, here it seems by %q",
		header[0], separator)
}

// place is where the row begins that was read last: the line for an editor, the byte for a program.
func (c *csvFile) place() (line, offset int64) { return c.line, c.at }

func (c *csvFile) columns() []catalog.Field { return c.cols }
func (c *csvFile) tooWide(column int) bool  { return c.wide[column] }
func (c *csvFile) close()                   { c.f.Close() }

// next turns a line into cells of the columns' types. The second pass may meet another file than the
// first: what it decided on is held against every cell.
func (c *csvFile) next(cells []any) (bool, error) {
	record, err := c.read()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i, cell := range record {
		// The reader holds lines to the first one's number of cells, which may be another in the second pass.
		if i >= len(cells) {
			break // the file changed between two openings; the row count will tell
		}
		if cells[i], err = c.cell(i, cell); err != nil {
			return false, &catalog.Error{Kind: fault.KindBadFile, File: c.file, Record: c.row, Offset: c.at, Text: fmt.Sprintf("line %d: a cell changed its type while the list of files was read", c.line)}
		}
	}
	c.row++
	return true, nil
}

// cell is one value of the column's type.
// Both parsers are those that infer asked, so that what fails here is a changed file.
func (c *csvFile) cell(i int, cell string) (any, error) {
	switch c.cols[i].Type {
	case catalog.Int:
		return strconv.ParseInt(cell, 10, 64)
	case catalog.Float:
		if cell == "" {
			return math.NaN(), nil
		}
		return strconv.ParseFloat(cell, 64)
	}
	return strings.Clone(cell), nil // a part would keep the whole line in memory
}
