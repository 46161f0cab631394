package pack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
	"github.com/headrace/headrace/mmap"
)

// The names of the lists of Hugging Face's ImageFolder (datasets/packaged_modules/folder_based_builder). Of several in a
// folder the first counts.
var listNames = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// Beside is what FindList found: the folder to open, which may be that of a split or of a snapshot, what is left to do of
// split=, and the list, which is empty where there is none. Ignored is a list beside several folders.
type Beside struct {
	Dir, Split, List, Ignored string
}

// Warning is what is to be said where the folders have become the classes; empty where no list lies beside them.
func (b *Beside) Warning(classes []string) string {
	if b.Ignored == "" {
		return ""
	}
	shown, more := classes, ""
	if len(classes) > mostClassesShown {
		shown, more = classes[:mostClassesShown], fmt.Sprintf(" and %d more", len(classes)-mostClassesShown)
	}
	return fmt.Sprintf("%s is ignored, because the classes are the folders beside it: %s%s; headrace pack %s takes it", b.Ignored, strings.Join(shown, ", "), more, b.Ignored)
}

const mostClassesShown = 8

// FindList finds the list of the images of a folder that lies in it, as Hugging Face's ImageFolder has it: the folder, or that
// of one of its splits, and the list there. There is no list where the folder has several class folders, whose names are the
// labels then. byIndex is of who opens a folder by its index where it has one; who makes an index or packs goes by the list.
func FindList(folder, split string, byIndex bool) (Beside, error) {
	found := Beside{Dir: folder, Split: split}
	if remote.IsURL(folder) {
		return found, nil
	}
	snapshot, err := scan.HubSnapshot(folder)
	if err != nil {
		return found, err
	}
	if snapshot != "" {
		found.Dir = snapshot
	}
	if hasIndex(found.Dir, byIndex) {
		return found, nil
	}
	folders := foldersIn(found.Dir)
	// One folder is where the images lie that the list names, as "images/1.jpg".
	if len(folders) <= 1 {
		found.List, err = listIn(found.Dir)
		// Or that of the only split, in which the list lies, too.
		if err != nil || found.List != "" || len(folders) == 0 || !hasList(filepath.Join(found.Dir, folders[0])) {
			return found, err
		}
		if split != "" && split != folders[0] {
			return found, scan.SeveralSplits(folder, split, folders)
		}
		return found.within(folders[0], byIndex)
	}
	// What cannot be read is no list of anything, and the classes do without it.
	if list, err := listIn(found.Dir); err == nil {
		found.Ignored = list
	}
	if found.Ignored != "" || slices.ContainsFunc(folders, func(name string) bool { return !hasList(filepath.Join(found.Dir, name)) }) {
		return found, nil
	}
	// Each has a list of its own, so that they are no classes.
	if !slices.Contains(folders, split) {
		return found, severalLists(scan.SeveralSplits(folder, split, folders))
	}
	return found.within(split, byIndex)
}

// within is what is found in the folder of a split.
func (b Beside) within(split string, byIndex bool) (found Beside, err error) {
	found = Beside{Dir: filepath.Join(b.Dir, split)}
	if !hasIndex(found.Dir, byIndex) {
		found.List, err = listIn(found.Dir)
	}
	return found, err
}

// severalLists says what else such folders may be: classes, in each of which somebody keeps a list.
func severalLists(err error) error {
	if e := (*catalog.Error)(nil); errors.As(err, &e) {
		e.Text += "; each has a list of images (metadata.csv, .jsonl or .parquet) of its own, so that they are no classes, unless the lists get other names"
	}
	return err
}

// hasIndex is true of a folder that is opened by its index, whatever list it has: a packed dataset, and with byIndex one
// with an index of its files. Such an index is made anew, and its list may have changed since.
func hasIndex(dir string, byIndex bool) bool {
	if !byIndex {
		return packedAlready(dir) != nil
	}
	_, err := os.Lstat(filepath.Join(dir, catalog.ManifestName))
	return err == nil
}

// foldersIn are the folders in a folder, links to such among them, as formats.ListFolder has classes. It looks at the
// names of files alone, for there may be a million.
func foldersIn(dir string) (folders []string) {
	entries, _ := os.ReadDir(dir) // of an error whoever opens the folder says
	for _, e := range entries {
		if e.Name()[0] != '.' && formats.IsDir(dir, e) {
			folders = append(folders, e.Name())
		}
	}
	return folders
}

// hasList is true of a folder with a list, also of one that cannot be read.
func hasList(dir string) bool {
	list, err := listIn(dir)
	return list != "" || err != nil
}

// listIn finds the list in a folder. One that cannot be read is an error: without it the samples would have other labels,
// and nobody would know.
func listIn(dir string) (string, error) {
	for _, name := range listNames {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			if _, broken := os.Lstat(path); err == nil || broken != nil {
				continue
			}
			return "", catalog.IOError(path, "cannot open the list of files", err)
		}
		if lists, err := listsImages(path); lists || err != nil {
			return path, err
		}
	}
	return "", nil
}

// listsImages is true of a list with the column of paths that Hugging Face's have. Of others in a folder, such as what
// somebody notes of its tars, nothing is known.
func listsImages(file string) (bool, error) {
	switch filepath.Ext(file) {
	case ".parquet":
		return parquetListsImages(file)
	case ".jsonl":
		f, err := mmap.OpenRegular(file)
		if err != nil {
			return false, catalog.IOError(file, "cannot open the list of files", err)
		}
		list := &jsonLines{file: file, f: f, at: make(map[string]int)}
		defer list.close()
		if err := list.rewind(); err != nil {
			return false, err
		}
		if err := list.object(list.column); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		_, has := list.at[metadataPath]
		return has, nil
	}
	f, err := mmap.OpenRegular(file)
	if err != nil {
		return false, catalog.IOError(file, "cannot open the list of files", err)
	}
	list := &csvFile{file: file, f: f}
	defer list.close()
	header, err := list.rewind()
	if err != nil {
		return false, passEmpty(err)
	}
	if separator, other := otherSeparator(header); other && slices.Contains(strings.Split(header[0], separator), metadataPath) {
		return false, wrongSeparator(file, header, separator)
	}
	return slices.Contains(header, metadataPath), nil
}

// passEmpty takes a file without bytes for none: it has no rows to lose.
func passEmpty(err error) error {
	if fault.KindOf(err) == fault.KindEmpty {
		return nil
	}
	return err
}

// parquetListsImages is listsImages of Parquet.
func parquetListsImages(file string) (bool, error) {
	if scan.HasImages(file) {
		return false, nil
	}
	list, err := openParquet(file)
	if fault.KindOf(err) == fault.KindUnsupported && !scan.HasColumn(file, metadataPath) {
		return false, nil // a table of something else
	}
	if err != nil {
		return false, err
	}
	defer list.close()
	return slices.ContainsFunc(list.columns(), func(f catalog.Field) bool { return f.Name == metadataPath }), nil
}

// findList finds the list in a folder that is a source, and the folder itself; there is none where others are given in its
// place.
func (o *ContainerOptions) findList(folder string) (Beside, error) {
	if o.Containers != nil || o.Array != nil || o.Located != nil || o.Root != "" {
		return Beside{Dir: folder, Split: o.Split}, nil
	}
	found, err := FindList(folder, o.Split, false)
	o.Split = found.Split
	return found, err
}

// noteIgnored has a folder's source say that a list in it is ignored.
func (b *Beside) noteIgnored(s source, err error) (source, error) {
	if f, ok := s.(*folder); ok && err == nil {
		f.ignored = b.Warning(f.classes())
	}
	return s, err
}

// openListIn opens such a list, whose files lie below its folder. Its paths are in the column by which it was found, unless
// another is named.
func openListIn(list, pathColumn, labelColumn string) (*table, error) {
	if pathColumn == "" {
		pathColumn = metadataPath
	}
	t := &table{file: list, pathAt: -1, labelAt: -1, keyAt: -1, inside: true}
	return t.begin(&PackConfig{Source: list, PathColumn: pathColumn, LabelColumn: labelColumn})
}

// OpenList makes a dataset of the images that the list in a folder names, in its order.
func OpenList(folder, list string) (*catalog.Dataset, error) {
	t, err := openListIn(list, "", "")
	if err != nil {
		return nil, err
	}
	defer t.close()
	l := catalog.NewList(t.fields())
	l.Warnings = t.warnings()
	for {
		var it item
		more, err := t.next(&it)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := l.Append(filepath.ToSlash(it.rel), it.key, it.label, it.fields); err != nil {
			return nil, err
		}
	}
	l.Classes = t.classes()
	return catalog.FromList(strings.TrimSuffix(folder, "/"), l)
}

// noListWords refuses arguments that are for containers.
func noListWords(list string, o scan.Options) error {
	if !o.Given() {
		return nil
	}
	return catalog.NewError(fault.KindArgument, list, "format, image, label, fields, classes and split are for containers; this is a list of files")
}
