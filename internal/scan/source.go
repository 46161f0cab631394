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

// Open opens a packed dataset, an index, an image folder, or containers: a file, a folder of files, a
// pattern with wildcards or braces.
func Open(source string, o Options) (*catalog.Dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if remote.IsURL(source) {
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

// openURL opens what lies in a store of objects, with its index: nothing there is walked.
// Containers without an index are walked by headrace index and pack alone (OpenAway), for in a store a walk fetches megabytes
// of each.
func openURL(source string, o Options) (*catalog.Dataset, error) {
	d, err := catalog.Open(source, o.Options)
	if err == nil && o.Given() {
		d.Release()
		return nil, NoContainer(remote.Display(source), d.Kind(), "")
	}
	return d, err
}

// OpenFiles opens containers in the order given; patterns are expanded.
// A single source may be anything that Open takes.
func OpenFiles(sources []string, o Options) (*catalog.Dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, "", "the list of containers is empty")
	}
	if len(sources) == 1 {
		return Open(sources[0], o)
	}
	var files []string
	named := true
	for _, source := range sources {
		if remote.IsURL(source) {
			return nil, catalog.NewError(fault.KindUnsupported, remote.Display(source), "several containers in a store of objects are not one dataset "+
				"before they have an index; make one with: headrace index \"%s\" --out INDEX", quotedAll(sources))
		}
		found, all, err := expand(source)
		if err != nil {
			return nil, err
		}
		files, named = append(files, found...), named && all
	}
	return openFiles("", files, named, o)
}

// quotedAll are several sources as a command takes them.
// At most eight, for a sentence.
func quotedAll(sources []string) string {
	var shown []string
	for _, source := range sources[:min(len(sources), 8)] {
		shown = append(shown, remote.Display(source))
	}
	return strings.Join(shown, `" "`)
}

// openFolder leaves a folder to package catalog, unless that finds no image where containers lie.
// So a folder with an index, or of class folders, is never looked through for containers.
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
	// Only where no class folder has an image: else a folder that lacks one is an error, and not a reason to look for
	// containers.
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
	// Which rows of a saved dataset are meant, if not all.
	if _, o.rows, wrong = savedFiles(source); wrong != nil {
		return nil, wrong
	}
	return openFiles(source, files, false, o)
}

// hasImages is true of an image folder of which a class is empty: what else lies there is not meant.
func hasImages(source string) bool {
	d, err := catalog.Open(source, catalog.Options{AllowEmpty: true})
	if err == nil {
		d.Release()
	}
	return err == nil
}

// NoContainer is the error of arguments for containers that were given with a dataset that is not made of containers, or
// that has its index already. If it is a folder with one folder for each split, the error names the folder that was meant.
func NoContainer(source string, kind catalog.Kind, split string) error {
	meant := ""
	if folder := filepath.Join(source, split); kind == catalog.Listed && filepath.IsLocal(split) {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			meant = fmt.Sprintf("; the folder %s may be opened by itself", folder)
		}
	}
	return catalog.NewError(fault.KindArgument, source, "format, image, label, fields, classes and split are for containers without an index; this dataset is %s%s", kind, meant)
}

// containersIn are the files of a folder that are containers by their content, sorted by name; of a dataset
// of Hugging Face that was saved there, those that it names.
// Known layouts come first, since they say what belongs to the dataset; then every file is looked at, a read of its
// first bytes each.
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
	// beside are refused kinds that may lie beside containers. unclear are files that are blank or cannot be read, and count
	// where a container has the same ending.
	var files, beside, unclear []string
	for _, e := range entries {
		// Of a million loose images none is opened.
		if e.IsDir() || e.Name()[0] == '.' || formats.HasImageExtension(e.Name()) || isDerived(dir, e.Name()) || isSummary(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		// Of Hugging Face's ImageFolder: a list of the images beside it.
		if e.Name() == "metadata.parquet" && !HasImages(path) {
			continue
		}
		// streaming keeps a compressed shard beside what it became, where it is asked to.
		if raw := withoutWhole(path); raw != path && isFile(raw) {
			continue
		}
		switch kind, err := kindOf(path, nil); {
		case errors.Is(err, mmap.ErrNotRegular):
		case err != nil || kind.blank:
			unclear = append(unclear, path)
		case kind.name == "":
		case kind.beside:
			beside = append(beside, path)
		default:
			files = append(files, path)
		}
	}
	// A database alone is what the folder is of, and its refusal says why it is not read.
	if files == nil {
		files = beside
	}
	known := endingsOf(files)
	for _, path := range unclear {
		if known[filepath.Ext(path)] {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files, nil
}

// endingsOf are those of containers. A file without bytes that has one is one more of them, and is to be an error; so is
// one that cannot be opened or read, for its samples would be missing in silence. Programs leave other empty files beside
// what they have written.
func endingsOf(containers []string) map[string]bool {
	known := map[string]bool{}
	for _, file := range containers {
		if ending := filepath.Ext(file); ending != "" {
			known[ending] = true
		}
	}
	return known
}

// withoutWhole is the path of a shard of MDS without the ending of what it is compressed by.
// ".mds.zstd" is the raw shard's name with an ending behind it, so both are one shard.
func withoutWhole(path string) string {
	ending := filepath.Ext(path)
	if raw := strings.TrimSuffix(path, ending); formats.WholeEndings[ending] != 0 && filepath.Ext(raw) == ".mds" {
		return raw
	}
	return path
}

// isFile is true of a regular file. Whether it can be read is found when it is opened.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// foldersOfContainers are the folders directly below dir that hold containers.
// Folders further down are not looked at.
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

// openSplitFolder opens one of the folders below a source, each of which holds containers. With a single one that is no
// split, as "data", it goes on inside of it.
// Inside of the split's folder split= has done its part, so it is taken off the options.
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

// arePartitions: Hive, Spark, DuckDB and pandas write a column that a table is partitioned by into the names of folders.
// Each is called COLUMN=VALUE. One folder that is not shows that the others are no partitions either.
func arePartitions(folders []string) bool {
	return !slices.ContainsFunc(folders, func(name string) bool { return !strings.Contains(name, "=") })
}

// aloneWith is true of the one folder of the data that is no split itself, as repositories of Hugging Face have it:
// what it holds may be of several.
func aloneWith(splits []string, asked string) bool {
	return len(splits) == 1 && asked != splits[0] && (asked == "" || !splitName.MatchString(splits[0]))
}

// SeveralSplits is the error where one of them has to be chosen, and none that there is was.
// Both sentences list the splits, so that the next attempt can name one.
func SeveralSplits(source, asked string, splits []string) error {
	if asked != "" {
		return catalog.NewError(fault.KindArgument, source, "%s", fault.Argument("split", asked, fmt.Sprintf("one of %q", splits)))
	}
	return catalog.NewError(fault.KindArgument, source, "there are several splits: %q; split= chooses one", splits)
}

// splitName finds the word that tells one split's files from another's: train-00000-of-00010.
var splitName = regexp.MustCompile(`(?i)(?:^|[-_.])(train|training|val|valid|validation|dev|test)(?:[-_.0-9]|$)`)

// chooseSplit keeps the files of one split. Files that were listed by name are all meant.
// It is by names alone, before any file is opened.
func chooseSplit(source string, files []string, named bool, o *Options) ([]string, error) {
	if named && o.Split == "" {
		return files, nil
	}
	by := splitsOf(files)
	splits := slices.Sorted(maps.Keys(by))
	switch {
	// Several splits in one folder are a mistake to train on, so one has to be chosen.
	case o.Split != "" && by[o.Split] == nil, o.Split == "" && len(splits) > 1:
		return nil, SeveralSplits(source, o.Split, splits)
	case o.Split != "":
		return by[o.Split], nil
	}
	return files, nil
}

// splitInside takes the split that no file has in its name for a database of an LMDB or a folder of an archive. It is
// false where the files are no such, and of archives whose names tell other splits apart.
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

// splitsOf are the splits that names of files tell apart, with the files of each; "" is of those that say none.
// The base name alone is asked, for a folder called "train" may hold the files of all splits.
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

// openFiles finds the one kind that all files are of, and scans them.
func openFiles(source string, files []string, named bool, o Options) (*catalog.Dataset, error) {
	if o.Root != "" {
		return nil, catalog.NewError(fault.KindArgument, source, "root is for an index of containers, and these are containers themselves")
	}
	// First by the names of files. Only where these do not tell the split may it be one inside of the files (splitInside).
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
