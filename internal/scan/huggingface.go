package scan

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

const (
	savedState    = "state.json"        // what Dataset.save_to_disk writes beside its data
	savedInfo     = "dataset_info.json" // and what a folder of Hugging Face's cache has, too
	maxSavedState = 16 << 20
)

// savedFiles are the files of a folder that Dataset.save_to_disk wrote, in the order of its rows; found is
// false for any other folder.
func savedFiles(dir string) (files []string, found bool, err error) {
	path := filepath.Join(dir, savedState)
	f, err := mmap.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, catalog.IOError(path, "cannot open it", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSavedState))
	if err != nil {
		return nil, false, catalog.IOError(path, "cannot read it", err)
	}
	type name struct {
		Filename string `json:"filename"`
	}
	var state struct {
		Data    *[]name `json:"_data_files"`
		Indices []name  `json:"_indices_data_files"` // of versions before 2.8
	}
	if json.Unmarshal(text, &state) != nil || state.Data == nil {
		return nil, false, nil // a state of something else
	}
	if len(state.Indices) > 0 {
		return nil, true, catalog.NewError(fault.KindUnsupported, path, "the dataset is a selection by a table of indices; Dataset.flatten_indices and save_to_disk write its rows themselves")
	}
	if len(*state.Data) == 0 {
		return nil, true, catalog.NewError(fault.KindEmpty, path, "the dataset has no data file")
	}
	for _, n := range *state.Data {
		if n.Filename == "" || !filepath.IsLocal(n.Filename) || filepath.Base(n.Filename) != n.Filename {
			return nil, true, catalog.NewError(fault.KindBadFile, path, "a data file called %.80q (expected the name of a file beside it)", n.Filename)
		}
		files = append(files, filepath.Join(dir, n.Filename))
	}
	return files, true, nil
}

// isDerived is true of what Dataset.map and its like keep beside the data that they were made from.
func isDerived(dir, name string) bool {
	if !strings.HasPrefix(name, "cache-") || !strings.HasSuffix(name, ".arrow") {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, savedInfo))
	return err == nil
}
