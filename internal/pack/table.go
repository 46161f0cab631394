package pack

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
)

// tableFile is a list of files as rows of typed cells: CSV, JSON lines or Parquet.
// A cell is an int64, a float64, a string, bytes or a catalog.Array, as its column's type says.
type tableFile interface {
	columns() []catalog.Field
	next(cells []any) (more bool, err error) // fills one cell for each column, with the types of columns
	place() (line, offset int64)             // of the row read last; 0 and -1 in Parquet
	close()
}

// table is a list of files: a column of paths, perhaps one of labels and one of keys; every further column becomes a
// field. It is read twice: once to learn classes and keys and to refuse what is wrong before any image is read, and
// once to pack.
// The list is opened twice, and may have changed in between, so everything that the first pass decided is checked again
// row by row.
type table struct {
	file   string
	root   string
	rows   int64
	open   func() (tableFile, error)
	below  string    // root as an absolute path
	inside bool      // all files must lie below root
	rowsOf tableFile // of the present pass

	cols                   []catalog.Field
	pathAt, labelAt, keyAt int // column numbers, -1 if absent
	kept                   []int
	names                  []string // names of classes
	number                 map[string]int64
	at                     int64
	cells                  []any
}

// openTable opens a list of files, wherever the files are.
func openTable(c *PackConfig) (*table, error) {
	return (&table{file: c.Source, root: c.Root, pathAt: -1, labelAt: -1, keyAt: -1}).begin(c)
}

// begin chooses the columns and makes the first pass.
// So the first error of the whole list is reported before any image is read.
func (t *table) begin(c *PackConfig) (*table, error) {
	// Relative paths begin at the list, wherever the program runs.
	if t.root == "" {
		t.root = filepath.Dir(c.Source)
	}
	t.open = func() (tableFile, error) { return openCSV(c.Source) }
	switch strings.ToLower(filepath.Ext(c.Source)) {
	case ".parquet":
		t.open = func() (tableFile, error) { return openParquet(c.Source) }
	case ".jsonl", ".ndjson":
		t.open = func() (tableFile, error) { return openJSONLines(c.Source) }
	}
	var err error
	if t.below, err = filepath.Abs(t.root); err != nil {
		return nil, catalog.IOError(t.root, "cannot make it an absolute path", err)
	}
	// The whole table is read before the first image, so that a mistake in its last row does not cost hours.
	first, err := t.open()
	if err != nil {
		return nil, err
	}
	defer first.close()
	t.rowsOf = first
	if err := t.chooseColumns(first.columns(), c); err != nil {
		return nil, err
	}
	if err := t.survey(first); err != nil {
		return nil, err
	}
	// This comes after the survey, which read the first one to its end.
	if t.rowsOf, err = t.open(); err != nil {
		return nil, err
	}
	return t, nil
}

// These are the columns of paths and labels if no others are named. metadataPath is that of metadata.csv and
// metadata.jsonl in Hugging Face's ImageFolder (datasets/packaged_modules/folder_based_builder).
const usualPath, metadataPath, usualLabel = "path", "file_name", "label"

// chooseColumns finds path, label and key by name; the other columns become fields.
// Case matters, as in every column name.
func (t *table) chooseColumns(cols []catalog.Field, c *PackConfig) error {
	t.cols, t.cells = cols, make([]any, len(cols))
	pathName, labelName := c.PathColumn, c.LabelColumn
	if pathName == "" {
		pathName = usualPath
		has := func(name string) bool {
			return slices.ContainsFunc(cols, func(f catalog.Field) bool { return f.Name == name })
		}
		if !has(usualPath) && has(metadataPath) {
			pathName = metadataPath
		}
	}
	if labelName == "" {
		labelName = usualLabel
	}
	wide := false // the labels are whole numbers that are too large, and so became text
	for i, col := range cols {
		switch col.Name {
		case pathName:
			t.pathAt = i
		case labelName:
			t.labelAt = i
			f, ok := t.rowsOf.(interface{ tooWide(column int) bool })
			// As text each number would become a class.
			wide = ok && f.tooWide(i)
		case "key":
			t.keyAt = i
		default:
			t.kept = append(t.kept, i)
		}
	}
	switch {
	case t.pathAt < 0:
		return t.wrong(-1, "there is no column %q (found %s); path_column names another", pathName, columnNames(cols))
	case cols[t.pathAt].Type != catalog.Str:
		return t.wrong(-1, "the column %q is of type %s (expected text, for paths)", pathName, cols[t.pathAt].Type)
	// Without a column of the usual name the samples have no labels, as in test sets. If the user names another column, it
	// has to be there.
	case labelName != usualLabel && t.labelAt < 0:
		return t.wrong(-1, "there is no column %q (found %s)", labelName, columnNames(cols))
	case wide:
		return t.wrong(-1, "the column %q has whole numbers beyond %d", labelName, int64(math.MaxInt64))
	case t.labelAt >= 0 && cols[t.labelAt].Type != catalog.Int && cols[t.labelAt].Type != catalog.Str:
		return t.wrong(-1, "the column %q is of type %s (expected whole numbers or names)", labelName, cols[t.labelAt].Type)
	case t.keyAt >= 0 && cols[t.keyAt].Type != catalog.Str:
		return t.wrong(-1, "the column \"key\" is of type %s (expected text)", cols[t.keyAt].Type)
	}
	return nil
}

// warnings warns of missing labels, because labels under another name would be missed silently.
// A list without labels is right for a test set, and a mistake in most other cases.
func (t *table) warnings() []string {
	if t.labelAt >= 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: there is no column %q, so every label is -1 (found %s); label_column of headrace.pack names one", t.file, usualLabel, columnNames(t.cols))}
}

// columnNames quotes the names, because a blank in a header is easily overlooked.
func columnNames(cols []catalog.Field) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = strconv.Quote(c.Name)
	}
	return strings.Join(names, ", ")
}

// survey reads the table once for class names, duplicate keys and the number of rows.
// Only names of classes, and 128 bits for each key, stay in memory.
func (t *table) survey(f tableFile) error {
	keys, cols := newKeySet(), t.cols
	classes := map[string]bool{}
	for {
		more, err := f.next(t.cells)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		it := item{seq: t.rows}
		if err := t.fill(&it); err != nil {
			return err
		}
		// Values are checked here and not when the row is written, because hours may lie in between.
		for n, i := range t.kept {
			if err := cols[i].CheckValue(it.fields[n]); err != nil {
				return t.wrong(it.seq, "%v", err)
			}
		}
		if first, ok := keys.add(it.key, it.seq); !ok {
			line, offset := f.place()
			e := duplicate(it.key, "row "+strconv.FormatInt(first, 10), t.file, it.seq).(*catalog.Error)
			e.Offset, e.Text = offset, e.Text+inLine(line)+"; a column \"key\" gives keys of your own"
			return e
		}
		if name, ok := t.labelName(); ok {
			classes[name] = true
		}
		t.rows++
	}
	if t.rows == 0 {
		return catalog.NewError(fault.KindEmpty, t.file, "the list of files has no rows")
	}
	for name := range classes {
		t.names = append(t.names, name)
	}
	sort.Strings(t.names) // torchvision sorts folders likewise: a class's number depends only on the names
	t.number = make(map[string]int64, len(t.names))
	for i, name := range t.names {
		t.number[name] = int64(i)
	}
	return nil
}

// upKey replaces each ".." at the beginning of a relative path. A key names files wherever a sample is written again,
// and ".." would lead out of the folder there. If it were left out, "../a.jpg" and "a.jpg" would have one key.
const upKey = "@up"

// tableKey makes a key of a clean path.
// The key has slashes on every system and none in front, because it is a name and no path.
func tableKey(rel string) string {
	key := strings.TrimPrefix(formats.Key(filepath.ToSlash(rel)), "/")
	up := 0
	for strings.HasPrefix(key, "../") {
		key = key[len("../"):]
		up++
	}
	return strings.Repeat(upKey+"/", up) + key
}

// labelName returns the label of the row in cells if labels are names.
// It returns false if labels are numbers, which need no list of names.
func (t *table) labelName() (string, bool) {
	if t.labelAt < 0 {
		return "", false
	}
	name, ok := t.cells[t.labelAt].(string)
	return name, ok
}

// fill makes an item of the cells.
// Everything that may be wrong with a row is noticed here, in both passes.
func (t *table) fill(it *item) error {
	name, _ := t.cells[t.pathAt].(string)
	if name == "" || len(name) > formats.MaxNameBytes || strings.IndexByte(name, 0) >= 0 {
		return t.wrong(it.seq, "the path %.80q has not 1 to %d bytes without NUL", name, formats.MaxNameBytes)
	}
	if remote.IsURL(name) {
		e := t.wrong(it.seq, "the path %.80q is an address, and a list is of files on disk; "+
			"index or pack the address of the folder or of the containers that they lie in", remote.Display(name)).(*catalog.Error)
		e.Kind = fault.KindUnsupported
		return e
	}
	// "./a.jpg" and "a.jpg" are one file, so they must have one key.
	name = filepath.Clean(name)
	it.path, it.rel = name, name
	// An absolute path below the root gets the key of its relative form.
	if filepath.IsAbs(name) {
		if below, err := filepath.Rel(t.below, name); err == nil && filepath.IsLocal(below) {
			it.rel = below
		}
	} else {
		it.path = filepath.Join(t.root, name)
	}
	if t.inside && (!filepath.IsLocal(it.rel) || !utf8.ValidString(it.rel)) {
		return t.wrong(it.seq, "the path %.80q is not below the folder of the list, or no UTF-8; headrace.pack of the list itself takes it", name)
	}
	it.key = formats.TextName(tableKey(it.rel))
	if t.keyAt >= 0 {
		it.key, _ = t.cells[t.keyAt].(string)
	}
	if it.key == "" || len(it.key) > formats.MaxNameBytes || strings.IndexByte(it.key, 0) >= 0 || !utf8.ValidString(it.key) {
		return t.wrong(it.seq, "the key %.80q has not 1 to %d bytes of UTF-8 without NUL", it.key, formats.MaxNameBytes)
	}
	line, _ := t.rowsOf.place()
	it.from = row{t.file, it.seq, line}
	it.label, it.hasCls = catalog.NoLabel, t.labelAt >= 0
	if t.labelAt >= 0 {
		switch v := t.cells[t.labelAt].(type) {
		case int64:
			if v < catalog.NoLabel {
				return t.wrong(it.seq, "the label is %d (expected 0 or more, or -1 for none)", v)
			}
			it.label, it.hasCls = v, v != catalog.NoLabel
		case string:
			// Among names an empty cell is mostly a mistake. In a column of numbers, -1 means that there is no label.
			if v == "" {
				return t.wrong(it.seq, "the label is empty")
			}
			if !utf8.ValidString(v) || len(v) > formats.MaxNameBytes {
				return t.wrong(it.seq, "the label %.80q has not 1 to %d bytes of UTF-8", v, formats.MaxNameBytes)
			}
			number, known := t.number[v]
			if !known && t.number != nil { // the first pass has no numbers yet
				return t.wrong(it.seq, "the label is %.80q, which was not there when the list of files was first read: the list changed meanwhile", v)
			}
			it.label = number
		}
	}
	for _, i := range t.kept {
		// The values are the reader's own copies, valid as long as they are kept.
		it.fields = append(it.fields, t.cells[i])
	}
	return nil
}

// next is the second pass. The first one counted the rows, so a list that became shorter is noticed.
func (t *table) next(it *item) (bool, error) {
	if t.at == t.rows {
		return false, nil
	}
	more, err := t.rowsOf.next(t.cells)
	if err == nil && !more {
		err = t.wrong(t.at, "the list of files became shorter while it was read")
	}
	if err != nil {
		return false, err
	}
	*it = item{seq: t.at}
	t.at++
	return true, t.fill(it)
}

// total returns the number of rows from the first pass.
func (t *table) total() int64      { return t.rows }
func (t *table) classes() []string { return t.names }
func (t *table) close()            { t.rowsOf.close() }
func (t *table) fields() []catalog.Field {
	fields := make([]catalog.Field, 0, len(t.kept))
	for _, i := range t.kept {
		fields = append(fields, t.cols[i])
	}
	return slices.Clip(fields)
}

// wrong makes an error about a row of the manifest, or about all of it if row is -1.
// The kind is that of a bad file; a caller that knows better replaces it.
func (t *table) wrong(row int64, format string, a ...any) error {
	e := catalog.NewError(fault.KindBadFile, t.file, format, a...)
	if e.Record = row; row >= 0 {
		// The place is that of the row read last, for which fill was called.
		line, offset := t.rowsOf.place()
		e.Offset, e.Text = offset, e.Text+inLine(line)
	}
	return e
}

// inLine says in which line an editor finds a row of a CSV.
func inLine(line int64) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(", in line %d", line)
}

// missing returns the value of an empty cell: an empty text, NaN for a float. A missing whole number has none, because
// no number means "missing".
// All readers of lists use it, so that CSV, JSON and Parquet agree.
func missing(f catalog.Field) (any, bool) {
	switch f.Type {
	case catalog.Str:
		return "", true
	case catalog.Bytes:
		return []byte{}, true
	case catalog.Float:
		return math.NaN(), true
	case catalog.ArrayType:
		return catalog.Array{DType: f.DType, Shape: []int64{0}}, true
	}
	return nil, false
}
