package scan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

// These are names of files that datasets writes beside its data (datasets/config.py).
const (
	savedStateName = "state.json"        // written by Dataset.save_to_disk beside its data
	savedInfo      = "dataset_info.json" // a folder of Hugging Face's cache has this one, too
	maxSavedState  = 16 << 20
)

// savedState is what Dataset.save_to_disk writes about its folder.
// Other members of the file, such as fingerprints and formats, are of use only to the library itself.
type savedState struct {
	Data    *[]savedFile `json:"_data_files"`
	Indices []savedFile  `json:"_indices_data_files"` // written by versions that saved a selection as a selection
}

// savedFile is a file in the folder of the state.
type savedFile struct {
	Name string `json:"filename"`
}

// savedFiles returns the data files of a folder that Dataset.save_to_disk wrote, in the order of the rows. If the
// dataset was a selection, indices are the tables of row numbers beside them; if all rows are meant there are none. For
// any other folder both are empty.
// The order is that of the state and not of the names: these have five digits, and sort differently from file 100,000
// on.
func savedFiles(dir string) (data, indices []string, err error) {
	path := filepath.Join(dir, savedStateName)
	f, err := mmap.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, catalog.IOError(path, "cannot open it", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSavedState))
	if err != nil {
		return nil, nil, catalog.IOError(path, "cannot read it", err)
	}
	return savedBy(path, text, func(name string) string { return filepath.Join(dir, name) })
}

// savedBy is savedFiles for the text of a state. path is for errors.
// The text may come from a disk or a store; join makes the path or address of a name.
func savedBy(path string, text []byte, join func(name string) string) (data, indices []string, err error) {
	var state savedState
	// Many programs write a file of that name.
	if json.Unmarshal(text, &state) != nil || state.Data == nil {
		return nil, nil, nil // the state is another program's
	}
	if len(*state.Data) == 0 {
		return nil, nil, catalog.NewError(fault.KindEmpty, path, "the dataset has no data file")
	}
	if data, err = savedNames(path, *state.Data, join); err == nil {
		indices, err = savedNames(path, state.Indices, join)
	}
	return data, indices, err
}

// savedNames returns the files of a list in a state, in its order.
func savedNames(path string, list []savedFile, join func(name string) string) (files []string, err error) {
	for _, n := range list {
		// These names are opened, so none may lead out of the folder; IsLocal refuses those that do. Names in folders below
		// are refused as well, because datasets writes none.
		if n.Name == "" || !filepath.IsLocal(n.Name) || filepath.Base(n.Name) != n.Name {
			return nil, catalog.NewError(fault.KindBadFile, path, "a data file called %.80q (expected the name of a file beside it)", n.Name)
		}
		files = append(files, join(n.Name))
	}
	return files, nil
}

// selectRows reduces a table to the rows whose numbers are in tables of one column, in their order.
// datasets keeps a selection (select, shuffle, filter) as a table of numbers beside the data. There is never a
// selection of a selection, because it combines them.
func selectRows(t *catalog.Table, files []string, a *awayFiles) error {
	read := rowsOfFile
	if a != nil {
		read = a.rowsOf
	}
	// The numbers of several tables form one list, in the order of the state.
	var rows []int64
	for _, file := range files {
		more, err := read(file, int64(len(t.Shard)))
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	if len(rows) == 0 {
		return catalog.NewError(fault.KindEmpty, remote.Display(files[0]), "the selection has no row")
	}
	pickRows(t, rows)
	return nil
}

// pickRows reduces a table to these rows, in this order, in every column.
// Fields and labels were made of all rows before, so that the classes are those of the whole dataset.
func pickRows(t *catalog.Table, rows []int64) {
	t.Shard, t.Offset, t.Length, t.Label = pick(t.Shard, rows), pick(t.Offset, rows), pick(t.Length, rows), pick(t.Label, rows)
	t.Blocks, t.Raw, t.Frames = pick(t.Blocks, rows), pick(t.Raw, rows), pick(t.Frames, rows)
	for i := range t.Fields {
		t.Ints[i], t.Numbers[i], t.Extents[i] = pick(t.Ints[i], rows), pick(t.Numbers[i], rows), pick(t.Extents[i], rows)
		t.Texts[i], t.FieldBlocks[i] = pickNames(t.Texts[i], rows), pick(t.FieldBlocks[i], rows)
	}
	for i := range t.Shards {
		t.Shards[i].Rows = 0
	}
	for _, shard := range t.Shard {
		t.Shards[shard].Rows++
	}
	// The keys come last, because only the remaining rows need to have unique ones.
	keys := pickNames(&t.Keys, rows) // a row may occur twice
	t.Keys = formats.Names{}
	uniqueKeys(t, keys)
}

// pick returns the values of some rows; nil for a missing column.
// The values are copied, because a row may be picked twice.
func pick[T any](values []T, rows []int64) []T {
	if values == nil {
		return nil
	}
	picked := make([]T, len(rows))
	for i, row := range rows {
		picked[i] = values[row]
	}
	return picked
}

// pickNames is pick for texts, which are stored one behind the other, and so are copied.
func pickNames(names *formats.Names, rows []int64) *formats.Names {
	if names == nil {
		return nil
	}
	picked := new(formats.Names)
	for _, row := range rows {
		picked.Append(string(names.Bytes(row)))
	}
	return picked
}

// rowsOfFile reads the numbers of a table on disk. most is the number of rows of the data.
func rowsOfFile(file string, most int64) ([]int64, error) {
	f, err := mmap.OpenRegular(file)
	if err != nil {
		return nil, catalog.IOError(file, "cannot open it", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, catalog.IOError(file, "cannot look at it", err)
	}
	rows, err := readRowNumbers(f, info.Size(), most)
	if err != nil {
		return nil, catalog.FormatError(file, err)
	}
	return rows, nil
}

// readRowNumbers reads a table of one column of numbers below most.
// datasets writes uint64 (Dataset.select in arrow_dataset.py). Any numeric column is accepted, because each value is
// checked.
func readRowNumbers(f io.ReaderAt, size, most int64) (rows []int64, err error) {
	a, err := formats.NewArrow(formats.NewWindow(f), size, blocks.MostBytes)
	if err != nil {
		return nil, err
	}
	if len(a.Leaves) != 1 || a.Leaves[0].Kind != formats.IntLeaf && a.Leaves[0].Kind != formats.FloatLeaf {
		return nil, fmt.Errorf("%w: a table of %d columns (expected one of row numbers)", formats.ErrBad, len(a.Leaves))
	}
	var value [1]formats.Value
	for {
		at, err := a.Next(value[:])
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		// A valid row number is exact as a float, and is whole. The condition is negated so that it refuses NaN as well.
		if n := value[0].Float; value[0].Null || !(n >= 0 && n < float64(most) && n == math.Trunc(n)) {
			return nil, &formats.WalkError{Offset: at, Err: fmt.Errorf("%w: row %v of %d is selected, by number %d of the table",
				formats.ErrBad, n, most, len(rows))}
		}
		rows = append(rows, int64(value[0].Float))
	}
}

// HubSnapshot returns the folder with the files of a repository in huggingface_hub's cache, or an empty text for any
// other folder. "blobs" has the files by their hashes, without names and splits; "snapshots" has links to them
// (huggingface_hub/file_download.py, "cache structure").
func HubSnapshot(dir string) (string, error) {
	for _, name := range []string{"blobs", "snapshots", "refs"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return "", nil
		}
	}
	snapshots := filepath.Join(dir, "snapshots")
	entries, err := os.ReadDir(snapshots)
	if err != nil {
		return "", catalog.FormatError(snapshots, err)
	}
	var names []string
	for _, e := range entries {
		if e.Name()[0] != '.' {
			names = append(names, e.Name())
		}
	}
	main, err := os.ReadFile(filepath.Join(dir, "refs", "main"))
	switch state := strings.TrimSpace(string(main)); {
	case err == nil && slices.Contains(names, state):
		return filepath.Join(snapshots, state), nil
	case len(names) == 0:
		return "", catalog.NewError(fault.KindEmpty, snapshots, "there is no state of the repository; download it first")
	// Another state has other samples. The download of the main one may have been interrupted.
	case err == nil:
		return "", catalog.NewError(fault.KindArgument, snapshots, "the main state is %.80q, which is not there (found %q); download it, or open the folder of another", state, names)
	case len(names) > 1:
		return "", catalog.NewError(fault.KindArgument, snapshots, "there are several states of the repository, none of them the main one: %q; open the folder of one", names)
	}
	return filepath.Join(snapshots, names[0]), nil
}

// isDerived is true for a file that Dataset.map and the like keep beside the data that it was made from.
// It has the same rows as another file of the folder, which would then be in the dataset twice.
func isDerived(dir, name string) bool {
	if !derivedName(name) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, savedInfo))
	return err == nil
}

// isSummary is true for the copies of footers that Spark, Dask and fastparquet write beside the files of a table.
// They have a schema but no rows.
func isSummary(name string) bool { return name == "_metadata" || name == "_common_metadata" }

// derivedName is true for cache-FINGERPRINT.arrow (datasets/arrow_dataset.py, _get_cache_file_path). Such a file is
// ignored only beside a dataset_info.json, which the library writes as well.
func derivedName(name string) bool {
	return strings.HasPrefix(name, "cache-") && strings.HasSuffix(name, ".arrow")
}
