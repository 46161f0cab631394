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

// maxMDSIndex limits an index, which has some hundred bytes for each shard.
const (
	mdsIndexName = "index.json"
	maxMDSIndex  = 64 << 20
)

// mergedShards returns the shards that a merged index.json of MDS names, in its order, if any is in a folder below
// (streaming/base/util.py, merge_index). If all are beside it, it returns none, because they are found without it. If a
// shard may be stored both compressed and raw, it returns the file that exists.
// It uses nothing else of the index. Shards without an index are read as well.
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
	if json.Unmarshal(text, &index) != nil { // another program's file
		return nil, nil
	}
	// A listing of this folder would not find shards in folders below. If there are none, it finds all shards.
	below := false
	// The raw file is preferred, because its samples are read without decompressing the shard.
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
