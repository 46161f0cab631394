package scan

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

// Open opens a packed dataset, an index, an image folder, or containers: a file, a folder of files, or a pattern with
// wildcards or braces.
func Open(source string, o Options) (*catalog.Dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if remote.IsURL(source) {
		if addresses := apart(source); len(addresses) > 1 {
			return nil, severalAway(addresses, addresses[0])
		}
		return openURL(source, o)
	}
	info, err := os.Stat(source)
	if err == nil && info.IsDir() || o.IndexDir != "" {
		return openFolder(source, o)
	}
	files, named, err := expand(source)
	if err != nil {
		return nil, err
	}
	return openFiles(source, files, named, o)
}

// openURL opens a dataset in a store by its index. It walks no containers.
// Only headrace index and pack walk containers in a store (OpenAway), because a walk fetches megabytes of each.
func openURL(source string, o Options) (*catalog.Dataset, error) {
	d, err := catalog.Open(source, o.Options)
	if err == nil && o.Given() {
		d.Release()
		return nil, NoContainer(remote.Display(source), d.Kind(), "")
	}
	return d, err
}

// openFolder leaves a folder to package catalog. Only if that finds no images does it look for containers.
// So a folder with an index or with class folders is never searched for containers.
func openFolder(source string, o Options) (*catalog.Dataset, error) {
	snapshot, err := HubSnapshot(source)
	if err != nil {
		return nil, err
	}
	if snapshot != "" {
		source = snapshot
	}
	d, err := catalog.Open(source, o.Options)
	if err == nil {
		if o.Given() {
			d.Release()
			return nil, NoContainer(source, d.Kind(), o.Split)
		}
		return d, nil
	}
	// Containers are looked for only if no class folder has an image. Otherwise a class without images is an error, and no
	// reason to look for containers.
	if o.IndexDir != "" || fault.KindOf(err) != fault.KindEmpty || hasImages(source) {
		return nil, err
	}
	files, wrong := containersIn(source)
	if wrong != nil {
		return nil, wrong
	}
	if len(files) == 0 {
		if splits := foldersOfContainers(source); len(splits) > 0 {
			return openSplitFolder(source, splits, o)
		}
		return nil, err
	}
	// For a saved dataset, o.rows says which rows are meant, if not all.
	if _, o.rows, wrong = savedFiles(source); wrong != nil {
		return nil, wrong
	}
	return openFiles(source, files, false, o)
}

// hasImages is true for an image folder in which only some class is empty; then other files there are not meant.
func hasImages(source string) bool {
	d, err := catalog.Open(source, catalog.Options{AllowEmpty: true})
	if err == nil {
		d.Release()
	}
	return err == nil
}

// NoContainer makes the error of arguments for containers with a dataset that is not made of containers or has an
// index.
// If the source is a folder with one folder for each split, the error names the folder that was meant.
func NoContainer(source string, kind catalog.Kind, split string) error {
	meant := ""
	if folder := filepath.Join(source, split); kind == catalog.Listed && filepath.IsLocal(split) {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			meant = fmt.Sprintf("; the folder %s may be opened by itself", folder)
		}
	}
	return catalog.NewError(fault.KindArgument, source, "format, image, label, fields, classes and split are for containers without an index; this dataset is %s%s", described(kind), meant)
}

// described says what a dataset is in words that a user knows who never read its kind.
func described(kind catalog.Kind) string {
	switch kind {
	case catalog.Listed:
		return "a folder of images"
	case catalog.Indexed:
		return "a folder of images with an index"
	case catalog.Concatenated:
		return "several datasets, joined"
	case catalog.Contained:
		return "an index of containers"
	case catalog.Arrays:
		return "arrays of pixels"
	default:
		return kind.String()
	}
}

// containersIn returns the files of a folder that are containers by their content, sorted by name. If Hugging Face
// saved a dataset there, it returns the files that its state names.
// Known layouts come first, because they say what belongs to the dataset. Otherwise the first bytes of every file are
// read.
func containersIn(dir string) ([]string, error) {
	if files, _, err := savedFiles(dir); files != nil || err != nil {
		return files, err
	}
	if files, err := newLitFolder().chunks(strings.TrimSuffix(dir, "/") + "/"); files != nil || err != nil {
		return files, err
	}
	if files, err := mergedShards(dir); files != nil || err != nil {
		return files, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, catalog.FormatError(dir, err)
	}
	// beside has files of refused kinds that may lie beside containers. unclear has files that are empty, cannot be read
	// or are of no known kind; they count as containers if a container is called like them.
	var files, beside, unclear []string
	for _, e := range entries {
		// Images are skipped by their names, so that a million loose images are not opened.
		if e.IsDir() || e.Name()[0] == '.' || formats.HasImageExtension(e.Name()) || isDerived(dir, e.Name()) || isSummary(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		// In Hugging Face's ImageFolder this is a list of the images beside it.
		if e.Name() == "metadata.parquet" && !HasImages(path, false) {
			continue
		}
		// streaming can keep a compressed shard beside its raw file.
		if raw := withoutWhole(path); raw != path && isFile(raw) {
			continue
		}
		switch kind, err := kindOf(path, nil); {
		case errors.Is(err, mmap.ErrNotRegular):
		case err != nil || kind.name == "":
			unclear = append(unclear, path)
		case kind.beside:
			beside = append(beside, path)
		default:
			files = append(files, path)
		}
	}
	// If such a file is alone, it is what the folder is about, and its refusal says why it is not read.
	if files == nil {
		files = beside
	}
	known := likesOf(files)
	for _, path := range unclear {
		if known.has(path) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files, nil
}

// likes has how containers are called: their extensions, and their names with every number replaced.
type likes map[string]bool

// digits finds what differs between the names of shards, as in train-00000-of-00010.
var digits = regexp.MustCompile(`[0-9]+`)

// likesOf returns how containers are called. An empty file that is called like one is taken for a damaged container, so
// that it gives an error. So are a file that cannot be opened or read and one of no known kind, such as a page that says
// that the download was refused, because their samples would be missing silently. Programs leave other files beside
// their output.
func likesOf(containers []string) likes {
	known := likes{}
	for _, file := range containers {
		if ending := filepath.Ext(file); ending != "" {
			known[ending] = true
		}
		known[numbered(file)] = true
	}
	return known
}

// has is true for a file that is called like a container.
func (l likes) has(file string) bool {
	// LMDB keeps its locks of readers in a file of this name beside data.mdb (lmdb.h, MDB_NOSUBDIR).
	return filepath.Base(file) != "lock.mdb" && (l[filepath.Ext(file)] || l[numbered(file)])
}

// numbered is the name of a file with "#" for each number.
func numbered(file string) string { return digits.ReplaceAllString(filepath.Base(file), "#") }

// withoutWhole removes the extension of a codec from the path of an MDS shard.
// "x.mds.zstd" is the raw shard "x.mds" compressed, so both are one shard.
func withoutWhole(path string) string {
	ending := filepath.Ext(path)
	if raw := strings.TrimSuffix(path, ending); formats.WholeEndings[ending] != 0 && filepath.Ext(raw) == ".mds" {
		return raw
	}
	return path
}

// isFile is true for a regular file. Opening it shows whether it can be read.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// foldersOfContainers returns the folders directly below dir that hold containers.
// It does not look at folders further down.
func foldersOfContainers(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var found []string
	for _, e := range entries {
		if files, err := containersIn(filepath.Join(dir, e.Name())); err == nil && len(files) > 0 {
			found = append(found, e.Name())
		}
	}
	return found
}

// openSplitFolder opens one of the folders below a source that hold containers. If there is only one and it is no
// split, such as "data", it looks for splits inside it.
// Inside the split's own folder the option split= is removed, because it was used up.
func openSplitFolder(source string, splits []string, o Options) (*catalog.Dataset, error) {
	if aloneWith(splits, o.Split) {
		return openFolder(filepath.Join(source, splits[0]), o)
	}
	switch {
	case o.Split == "" && arePartitions(splits):
		return nil, catalog.NewError(fault.KindUnsupported, source, "the folders %q are partitions by a column that is in none of their files; write the table without partitions, or list the files, which have no such column", splits)
	case o.Split == "" || !slices.Contains(splits, o.Split):
		return nil, SeveralSplits(source, o.Split, splits)
	}
	split := o.Split
	o.Split = ""
	return openFolder(filepath.Join(source, split), o)
}

// arePartitions is true if all folders are named COLUMN=VALUE. Hive, Spark, DuckDB and pandas name the folders like
// that when they partition a table by a column. If one folder has another name, the others are no partitions either.
func arePartitions(folders []string) bool {
	return !slices.ContainsFunc(folders, func(name string) bool { return !strings.Contains(name, "=") })
}

// aloneWith is true for a single folder of data that is no split itself, as in repositories of Hugging Face: its files
// may belong to several splits.
func aloneWith(splits []string, asked string) bool {
	return len(splits) == 1 && asked != splits[0] && (asked == "" || !splitName.MatchString(splits[0]))
}

// SeveralSplits makes the error if a split has to be chosen and no existing one was.
// Both texts list the splits, so that the user can name one.
func SeveralSplits(source, asked string, splits []string) error {
	if asked != "" {
		return catalog.NewError(fault.KindArgument, source, "%s", fault.Argument("split", asked, fmt.Sprintf("one of %q", splits)))
	}
	return catalog.NewError(fault.KindArgument, source, "there are several splits: %q; split= chooses one", splits)
}

// splitName finds the word in a file's name that says its split, as in train-00000-of-00010.
var splitName = regexp.MustCompile(`(?i)(?:^|[-_.])(train|training|val|valid|validation|dev|test)(?:[-_.0-9]|$)`)

// chooseSplit keeps the files of one split. If the user listed the files by name, all are meant.
// It uses only the names, before any file is opened.
func chooseSplit(source string, files []string, named bool, o *Options) ([]string, error) {
	if named && o.Split == "" {
		return files, nil
	}
	by := splitsOf(files)
	splits := slices.Sorted(maps.Keys(by))
	switch {
	// Training on several splits of one folder is a mistake, so one has to be chosen.
	case o.Split != "" && by[o.Split] == nil, o.Split == "" && len(splits) > 1:
		return nil, SeveralSplits(source, o.Split, splits)
	case o.Split != "":
		return by[o.Split], nil
	}
	return files, nil
}

// splitInside takes a split that no file's name has for a database of an LMDB or a folder in an archive. It returns
// false if the files are neither, and for archives whose names show other splits.
func (o *Options) splitInside(files []string, kindOf func(i int) string) bool {
	if o.Split == "" || len(files) == 0 {
		return false
	}
	first := kindOf(0)
	for i := range files {
		if kindOf(i) != first {
			return false
		}
	}
	switch {
	case first == "lmdb":
		o.database = o.Split
	case (first == "tar" || first == "zip") && len(splitsOf(files)) == 1:
		o.within = o.Split
	default:
		return false
	}
	return true
}

// splitsOf returns the splits that the files' names show, with the files of each; "" has the files without one.
// It uses only the base name, because a folder called "train" may hold the files of all splits.
func splitsOf(files []string) map[string][]string {
	by := make(map[string][]string)
	for _, file := range files {
		name := ""
		if found := splitName.FindStringSubmatch(filepath.Base(file)); found != nil {
			name = strings.ToLower(found[1])
		}
		by[name] = append(by[name], file)
	}
	return by
}

// openFiles finds the kind of the files, which has to be the same for all, and scans them.
func openFiles(source string, files []string, named bool, o Options) (*catalog.Dataset, error) {
	if o.Root != "" {
		return nil, catalog.NewError(fault.KindArgument, source, "root is for an index of containers, and these are containers themselves")
	}
	// A split is first looked for in the files' names. Only if no name has it may it be inside the files (splitInside).
	chosen, err := chooseSplit(source, files, named, &o)
	switch {
	case err == nil:
		files = chosen
	case !o.splitInside(files, func(i int) string { found, _ := kindOf(files[i], nil); return found.name }):
		return nil, err
	}
	o.lit = newLitFolder()
	first, err := oneKind(files, &o, func(i int) (kind, error) { return kindOf(files[i], o.lit) })
	if err != nil {
		return nil, err
	}
	return scanOrKept(files, first.name, o)
}
