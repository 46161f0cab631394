package scan

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// An index has some hundred bytes for each shard.
const (
	mdsIndexName = "index.json"
	maxMDSIndex  = 64 << 20
)

// mergedShards are the shards that a merged index.json of MDS names in folders below its own, in its order
// (streaming/base/util.py, merge_index); none where it names those beside it alone, which are found without it. Of a shard
// that is kept both compressed and not, the file that is there.
// Nothing else of the file is believed, and shards without one are read as well.
func mergedShards(dir string) (files []string, err error) {
	path := filepath.Join(dir, mdsIndexName)
	f, err := mmap.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, catalog.IOError(path, "cannot open it", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMDSIndex))
	if err != nil {
		return nil, catalog.IOError(path, "cannot read it", err)
	}
	type part struct {
		Name string `json:"basename"`
	}
	var index struct {
		Shards []struct {
			Format string `json:"format"`
			Raw    part   `json:"raw_data"`
			Zip    *part  `json:"zip_data"`
		} `json:"shards"`
	}
	if json.Unmarshal(text, &index) != nil { // of something else
		return nil, nil
	}
	// Shards in folders below are what a listing of this one would not find. Where none is, a listing finds them all.
	below := false
	// The raw file is preferred, for a sample of it is read without decompressing the shard.
	for _, s := range index.Shards {
		name := s.Raw.Name
		if s.Zip != nil && !isFile(filepath.Join(dir, name)) {
			name = s.Zip.Name
		}
		switch {
		case s.Format != "mds":
			return nil, nil
		case !filepath.IsLocal(name):
			return nil, catalog.NewError(fault.KindBadFile, path, "a shard called %.80q (expected the name of a file below the folder)", name)
		}
		below = below || strings.Contains(name, "/")
		files = append(files, filepath.Join(dir, name))
	}
	if !below {
		return nil, nil
	}
	return files, nil
}
