package pack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
)

// item is one sample before its file is read.
// next fills it, so a source holds no items.
type item struct {
	seq    int64
	key    string
	path   string  // of the file, or of the container; empty for the Writer's samples
	shard  uint32  // number of the container
	inside *extent // where it is in the container; nil for a file of its own
	away   *ahead  // for a file in a store of objects
	rel    string  // path below the folder, for an index in place
	data   []byte  // for the Writer's samples
	label  int64
	hasCls bool // the label was given, so the shard has it too
	fields []any
	from   row // the place in a manifest
}

// row is the place in a manifest that names a sample.
// It has both numbers, because a program counts rows and an editor lines.
type row struct {
	manifest     string // empty for samples of folders and writers
	number, line int64  // row from 0, and line of a CSV from 1; the line is 0 in Parquet
}

// String returns the place as errors show it, with the line if there is one.
func (r row) String() string {
	if r.line == 0 {
		return fmt.Sprintf("row %d of %s", r.number, r.manifest)
	}
	return fmt.Sprintf("row %d, line %d of %s", r.number, r.line, r.manifest)
}

// source yields samples in the order of the dataset. One goroutine uses it at a time.
// A source is read once. Its classes and fields are known from its opening on.
type source interface {
	next(*item) (more bool, err error)
	total() int64 // -1 if unknown
	classes() []string
	fields() []catalog.Field
	close()
}

// folder is a class folder.
// A label is the place of its class among the sorted names, as in torchvision's ImageFolder.
type folder struct {
	list    *formats.Listing
	at      int64
	ignored string // a warning about a list in it, or empty
}

// openFolder lists a class folder. more has extensions that a user adds to those of images.
func openFolder(path string, allowEmpty bool, more []string) (*folder, error) {
	list, err := formats.ListFolder(path, allowEmpty, more)
	if err != nil {
		if packed := packedAlready(path); packed != nil {
			return nil, packed
		}
		return nil, catalog.FormatError(path, err)
	}
	f := &folder{list: list}
	// This check comes before any work, because a duplicate that is found after hours of packing would waste them.
	if err := f.checkKeys(); err != nil {
		return nil, err
	}
	return f, nil
}

// packedAlready refuses a packed dataset, or one of its files, as a source. It returns nil for anything else, for which
// the error of the system or of the listing is enough.
// It is called after a listing failed, because a packed dataset has no class folders.
func packedAlready(path string) error {
	dir, what := path, "is a packed dataset already"
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		dir = filepath.Dir(path)
		what = "is a file of the packed dataset " + dir
	}
	m, err := catalog.ReadManifest(filepath.Join(dir, catalog.ManifestName))
	if err != nil || m.Kind != catalog.Packed.String() {
		return nil
	}
	return catalog.NewError(fault.KindArgument, path, "%s (expected a folder of class folders)", what)
}

// checkKeys checks one folder at a time: the list is sorted, so the files of a folder follow each other.
func (f *folder) checkKeys() error {
	dir, keys := "", map[string]string{}
	for i := range f.list.Len() {
		path := f.list.Path(i)
		slash := strings.LastIndexByte(path, '/')
		// Keys can be equal only inside a folder, so only one folder's keys are held at a time.
		if path[:slash] != dir {
			dir = path[:slash]
			clear(keys)
		}
		key := formats.SampleKey(path)
		if len(key) > formats.MaxNameBytes { // escapes can triple a name's length
			return &catalog.Error{Kind: fault.KindLimit, File: f.list.Root + "/" + path, Record: i, Offset: -1,
				Text: fmt.Sprintf("the key has %d bytes (expected at most %d)", len(key), formats.MaxNameBytes)}
		}
		if first, ok := keys[key]; ok {
			return duplicate(key, filepath.Join(f.list.Root, first), filepath.Join(f.list.Root, path), i)
		}
		keys[key] = path
	}
	return nil
}

// checkPaths refuses paths that are not UTF-8, because the index of a folder holds paths as text. A packed dataset has
// its own shards' paths instead.
// Names on Linux are bytes; most are UTF-8.
func (f *folder) checkPaths() error {
	for i := range f.list.Len() {
		if path := f.list.Path(i); !utf8.ValidString(path) {
			return &catalog.Error{Kind: fault.KindUnsupported, File: f.list.Root + "/" + path, Record: i, Key: formats.SampleKey(path), Offset: -1,
				Text: "the name is no UTF-8, so the index of a folder cannot hold it; packing can"}
		}
	}
	return nil
}

// duplicate names both samples, because only a person can decide which one to rename.
// Both paths are complete, because they may be in different folders.
func duplicate(key, first, second string, record int64) error {
	e := catalog.NewError(fault.KindDuplicateKey, second, "two samples of one key, %s has it already", first)
	e.Record, e.Key = record, key
	return e
}

// next reads nothing, because the list was made when the folder was opened.
func (f *folder) next(it *item) (bool, error) {
	if f.at == f.list.Len() {
		return false, nil
	}
	rel := f.list.Path(f.at)
	*it = item{
		seq: f.at, key: formats.SampleKey(rel), rel: rel, path: f.list.Root + "/" + rel,
		label: f.list.Label(f.at), hasCls: true,
	}
	f.at++
	return true, nil
}

// warnings returns what is to be said about the folder that is no error.
func (f *folder) warnings() []string {
	if f.ignored == "" {
		return nil
	}
	return []string{f.ignored}
}

func (f *folder) total() int64            { return f.list.Len() }
func (f *folder) classes() []string       { return f.list.ClassNames() }
func (f *folder) fields() []catalog.Field { return nil }
func (f *folder) close()                  {}

// isList says whether a Parquet file is a list of files and not a dataset of images. Its columns show which, unless the
// caller gave words that only lists or only containers have.
func (c *PackConfig) isList(container bool) bool {
	if c.PathColumn != "" || c.LabelColumn != "" && !container && scan.HasColumn(c.Source, usualPath) {
		return true
	}
	// A list is one file. A pattern that ends with .parquet stands for containers.
	if _, err := os.Lstat(c.Source); err != nil && scan.IsPattern(c.Source) {
		return false
	}
	return !scan.HasImages(c.Source, container)
}

// openSource distinguishes manifests, folders and containers.
// It looks at the extension first, because listed files need not be images, and a table may hold images.
func openSource(ctx context.Context, c *PackConfig) (source, error) {
	kind := strings.ToLower(filepath.Ext(c.Source))
	if remote.IsURL(c.Source) {
		kind = "" // a list of files is itself a file on disk
	}
	options := c.scanOptions(c.Storage)
	if kind == ".csv" || kind == ".jsonl" || kind == ".ndjson" || kind == ".parquet" && c.isList(options.Given()) {
		if options.Given() {
			return nil, noListWords(c.Source, options)
		}
		return openTable(c)
	}
	found, err := c.findList(c.Source)
	if err != nil {
		return nil, err
	}
	if found.List != "" {
		if err := noListWords(found.List, c.scanOptions(c.Storage)); err != nil {
			return nil, err
		}
		return openListIn(found.List, c.PathColumn, c.LabelColumn)
	}
	return found.noteIgnored(openFolderOr(ctx, found.Dir, c.AllowEmpty, &c.ContainerOptions, c.Storage, false))
}

// openFolderOr opens a folder of class folders, or another source in place.
// The most certain sign comes first: options that the caller gave, an address, a folder, a file.
func openFolderOr(ctx context.Context, path string, allowEmpty bool, o *ContainerOptions, storage remote.Storage, stored bool) (source, error) {
	path = remote.Normal(path)
	options := o.scanOptions(storage)
	if o.Array != nil && stored {
		return nil, catalog.NewError(fault.KindArgument, path, "an array of pixels needs no index, because its file says where the images are")
	}
	if o.Array != nil || o.Located != nil {
		return openContainers(ctx, path, o, storage, stored)
	}
	if remote.IsURL(path) && o.Containers == nil {
		if !options.Given() && o.Root == "" {
			if f, err := openFolderAway(ctx, path, allowEmpty, o.Extensions, storage); f != nil || err != nil {
				return f, err
			}
		}
		return openContainers(ctx, path, o, storage, stored)
	}
	// A packed dataset or its shard goes this way, too, and openFolder refuses it with a clear error.
	info, err := os.Stat(path)
	if o.Containers == nil && (err == nil && info.IsDir() || packedAlready(path) != nil) {
		f, err := openFolder(path, allowEmpty, o.Extensions)
		if err == nil && options.Given() {
			return nil, scan.NoContainer(path, catalog.Listed, options.Split)
		}
		if err == nil && o.Root != "" {
			return nil, catalog.NewError(fault.KindArgument, path, "root is for an index of containers, and this is a folder of images")
		}
		// If a folder cannot be listed, it is not searched for containers.
		if err == nil || fault.KindOf(err) != fault.KindEmpty {
			return f, err
		}
		// There is no class folder with images, so containers may lie there.
		s, other := openContainers(ctx, path, o, storage, stored)
		if other != nil && fault.KindOf(other) != fault.KindEmpty {
			return nil, other
		}
		if s == nil {
			return nil, err
		}
		return s, nil
	}
	s, err := openContainers(ctx, path, o, storage, stored)
	if err != nil || s != nil {
		return s, err
	}
	return openFolder(path, allowEmpty, o.Extensions)
}
