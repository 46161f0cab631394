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

// csvFile is a CSV manifest with a header line. A column of whole numbers is int, a column of numbers float, any other
// text; opening reads the file once to find out.
// The library reads RFC 4180, with quoted line breaks; only the types are decided here.
type csvFile struct {
	file string
	f    *os.File
	r    *csv.Reader
	cols []catalog.Field
	row  int64
	line int64 // line at which the row read last begins
	at   int64
	mark int64  // size of the byte order mark
	wide []bool // columns of whole numbers that exceed an int64
}

// openCSV reads the file once for the types of its columns.
// The rows are read a second time later and not kept in memory, because a list may have a hundred million.
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
	// This comes before the rows: their numbers may have commas, and the error would then be about those.
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

// rewind goes back to the beginning and returns the header line.
// The second pass must begin exactly like the first, with mark and header.
func (c *csvFile) rewind() ([]string, error) {
	if _, err := c.f.Seek(0, io.SeekStart); err != nil {
		return nil, catalog.IOError(c.file, "cannot read the list of files", err)
	}
	// The buffer is large, because rows are short and the file is read twice.
	b := bufio.NewReaderSize(c.f, 1<<18)
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" { // spreadsheets write a byte order mark
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

// read returns the cells of the next line. The library checks that all lines have the same number.
// The cells are valid until the next call, because of ReuseRecord.
func (c *csvFile) read() ([]string, error) {
	c.at = c.r.InputOffset() + c.mark // the reader began after the mark
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
		// The library's own text would begin with its name for the line.
		e := catalog.NewError(fault.KindBadFile, c.file, "line %d: %v", p.Line, p.Err)
		e.Offset = c.at
		return nil, e
	}
	return nil, catalog.IOError(c.file, "cannot read the list of files", err)
}

// infer decides the types. A column with an empty cell cannot be int, which has no value for "missing", but it can be
// float, which has NaN. Whole numbers beyond an int64 are identifiers, of which a float would keep only the first 16
// digits. They stay text, unless other cells show that the column has measured values.
// It keeps no cell, only what the cells exclude for their column.
func (c *csvFile) infer(header []string) error {
	// For each column: whether a cell is no int64, no float, or a float but no whole number.
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
			// Cells before the first that is no int64 are int64 and so floats too; they need no second check.
			if notInt[i] && !notFloat[i] && cell != "" {
				_, err := strconv.ParseFloat(cell, 64)
				notFloat[i] = err != nil
				_, err = strconv.ParseInt(cell, 10, 64)
				// A number out of range is still whole; a syntax error means a point or an exponent.
				c.wide[i] = c.wide[i] || errors.Is(err, strconv.ErrRange)
				measured[i] = measured[i] || errors.Is(err, strconv.ErrSyntax)
			}
		}
	}
	for i, name := range header {
		f := catalog.Field{Name: name, Type: catalog.Str}
		// wide matters only for a column of labels. As a field such a column is text, and none of its digits is lost.
		c.wide[i] = c.wide[i] && !notFloat[i] && !measured[i]
		switch {
		case name == "key" || name == "path": // these are names, even if they are all digits
		case rows > 0 && !notInt[i]:
			f.Type = catalog.Int
		case rows > 0 && !notFloat[i] && !c.wide[i]:
			f.Type = catalog.Float
		}
		c.cols = append(c.cols, f)
	}
	return nil
}

// otherSeparator finds another separator in a header that is one column: spreadsheets write semicolons in countries
// where the comma is part of numbers.
// Only commas are read: guessing between separators would misread texts with commas.
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

// wrongSeparator makes the error of such a header.
func wrongSeparator(file string, header []string, separator string) error {
	return catalog.NewError(fault.KindBadFile, file, "the header line is one column, %.80q; columns are separated by commas, here it seems by %q",
		header[0], separator)
}

// place says where the row read last begins: the line for an editor, the byte for a program.
func (c *csvFile) place() (line, offset int64) { return c.line, c.at }

func (c *csvFile) columns() []catalog.Field { return c.cols }
func (c *csvFile) tooWide(column int) bool  { return c.wide[column] }
func (c *csvFile) close()                   { c.f.Close() }

// next turns a line into cells of the columns' types. The file may have changed since the first pass, so every cell is
// checked against the type that was decided then.
func (c *csvFile) next(cells []any) (bool, error) {
	record, err := c.read()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i, cell := range record {
		// The library holds all lines to the length of the first one, which may have changed since the first pass.
		if i >= len(cells) {
			break // the file changed between the passes; the row count will show it
		}
		if cells[i], err = c.cell(i, cell); err != nil {
			return false, &catalog.Error{Kind: fault.KindBadFile, File: c.file, Record: c.row, Offset: c.at, Text: fmt.Sprintf("line %d: a cell changed its type while the list of files was read", c.line)}
		}
	}
	c.row++
	return true, nil
}

// cell converts one cell to the column's type.
// infer used the same parsers, so a failure means that the file changed.
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
	return strings.Clone(cell), nil // otherwise a cell would keep the whole line in memory
}
