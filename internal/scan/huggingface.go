package scan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Names of files that datasets writes beside its data (datasets/config.py).
const (
	savedStateName = "state.json"        // what Dataset.save_to_disk writes beside its data
	savedInfo      = "dataset_info.json" // and what a folder of Hugging Face's cache has, too
	maxSavedState  = 16 << 20
)

// savedState is what Dataset.save_to_disk says of its folder.
// Other members of the file are of no use here: fingerprints and formats are the library's own.
type savedState struct {
	Data    *[]savedFile `json:"_data_files"`
	Indices []savedFile  `json:"_indices_data_files"` // of versions that saved a selection as one
}

// savedFile is a file that lies in the folder of the state.
type savedFile struct {
	Name string `json:"filename"`
}

// savedFiles are the data files of a folder that Dataset.save_to_disk wrote, in the order of its rows. indices are the
// tables of row numbers that it wrote beside them where the dataset was a selection; there are none where all rows are
// meant. In any other folder there are neither.
// The order is that of the state, not of the names: these have five digits, and sort otherwise from file 100,000 on.
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

// savedBy is savedFiles of the text of a state, whose path is for errors.
// The text may come from a disk or a store; join makes what is opened of a name.
func savedBy(path string, text []byte, join func(name string) string) (data, indices []string, err error) {
	var state savedState
	// Many programs write a state.json.
	if json.Unmarshal(text, &state) != nil || state.Data == nil {
		return nil, nil, nil // a state of something else
	}
	if len(*state.Data) == 0 {
		return nil, nil, catalog.NewError(fault.KindEmpty, path, "the dataset has no data file")
	}
	if data, err = savedNames(path, *state.Data, join); err == nil {
		indices, err = savedNames(path, state.Indices, join)
	}
	return data, indices, err
}

// savedNames are the files of a list in a state, in its order.
func savedNames(path string, list []savedFile, join func(name string) string) (files []string, err error) {
	for _, n := range list {
		// Names of a file are opened, so none may lead out of its folder. IsLocal refuses those that do; names of files in
		// folders below are refused as well, for datasets writes none.
		if n.Name == "" || !filepath.IsLocal(n.Name) || filepath.Base(n.Name) != n.Name {
			return nil, catalog.NewError(fault.KindBadFile, path, "a data file called %.80q (expected the name of a file beside it)", n.Name)
		}
		files = append(files, join(n.Name))
	}
	return files, nil
}

// selectRows makes a table of the rows whose numbers stand in tables of one column, in their order.
// datasets keeps a selection (select, shuffle, filter) as a table of numbers beside the data, one level only: it
// flattens them when it makes another.
func selectRows(t *catalog.Table, files []string, a *awayFiles) error {
	read := rowsOfFile
	if a != nil {
		read = a.rowsOf
	}
	// The numbers of several tables are one list, in the order of the state.
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

// pickRows leaves in a table these rows alone, in this order: whatever has an entry a row.
// Fields and labels were made for all rows before, so that classes are those of the whole dataset, and not of the selection.
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
	// Keys last: their uniqueness is of the rows that are left.
	keys := pickNames(&t.Keys, rows) // a row may be there twice
	t.Keys = formats.Names{}
	uniqueKeys(t, keys)
}

// pick is the values of some rows; nil of a column that there is not.
// They are copied, for a row may be picked twice.
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

// pickNames is pick of texts, which lie one behind the other and are copied.
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

// rowsOfFile reads the numbers of a table on disk. most is the number of rows that the data have.
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

// readRowNumbers reads a table of one column of numbers, each below most.
// datasets writes uint64 (Dataset.select in arrow_dataset.py); any column of numbers is taken, since the value is checked.
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
		// A number that can be a row is exact as a float. The condition is negated, so that NaN is refused as well.
		if n := value[0].Float; value[0].Null || !(n >= 0 && n < float64(most)) {
			return nil, &formats.WalkError{Offset: at, Err: fmt.Errorf("%w: row %v of %d is selected", formats.ErrBad, n, most)}
		}
		rows = append(rows, int64(value[0].Float))
	}
}

// HubSnapshot is the folder that a repository in huggingface_hub's cache stands for; empty of any other folder. Its "blobs"
// are the files by their hashes, in which splits and names are lost, and "snapshots" have links to them
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
	// Another state has other samples: a download of the main one was broken off, perhaps.
	case err == nil:
		return "", catalog.NewError(fault.KindArgument, snapshots, "the main state is %.80q, which is not there (found %q); download it, or open the folder of another", state, names)
	case len(names) > 1:
		return "", catalog.NewError(fault.KindArgument, snapshots, "there are several states of the repository, none of them the main one: %q; open the folder of one", names)
	}
	return filepath.Join(snapshots, names[0]), nil
}

// isDerived is true of what Dataset.map and its like keep beside the data that they were made from.
// They have the same rows as another file of the folder, and would be in the dataset a second time.
func isDerived(dir, name string) bool {
	if !derivedName(name) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, savedInfo))
	return err == nil
}

// isSummary is true of the copies of footers that Spark, Dask and fastparquet write beside the files of a table.
// They have a schema and no rows of their own.
func isSummary(name string) bool { return name == "_metadata" || name == "_common_metadata" }

// derivedName is true of cache-FINGERPRINT.arrow (datasets/arrow_dataset.py, _get_cache_file_path). Only beside a
// dataset_info.json, which the library writes as well, is such a name taken for its own.
func derivedName(name string) bool {
	return strings.HasPrefix(name, "cache-") && strings.HasSuffix(name, ".arrow")
}
