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

// listNames are the names of the lists of Hugging Face's ImageFolder (datasets/packaged_modules/folder_based_builder).
// If a folder has several, the first in this order counts.
var listNames = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// Beside is the result of FindList: the folder to open, which may be that of a split or a snapshot, the rest of split=,
// and the list, which is empty if there is none. Ignored is a list beside several folders.
type Beside struct {
	Dir, Split, List, Ignored string
}

// Warning says that a list is ignored because the folders are the classes; empty if no list lies beside them.
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

// FindList finds a list of images in a folder, as Hugging Face's ImageFolder has it: in the folder itself, or in that
// of one of its splits. It finds no list if the folder has several class folders, whose names are then the labels.
// byIndex is true if a folder with an index is opened by that; to make an index or to pack, the list is used.
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
	// A single folder may hold the images that the list names, as "images/1.jpg".
	if len(folders) <= 1 {
		found.List, err = listIn(found.Dir)
		// Or it is the only split, and the list lies in it.
		if err != nil || found.List != "" || len(folders) == 0 || !hasList(filepath.Join(found.Dir, folders[0])) {
			return found, err
		}
		if split != "" && split != folders[0] {
			return found, scan.SeveralSplits(folder, split, folders)
		}
		return found.within(folders[0], byIndex)
	}
	// A list that cannot be read is not needed, because the folders are the classes.
	if list, err := listIn(found.Dir); err == nil {
		found.Ignored = list
	}
	if found.Ignored != "" || slices.ContainsFunc(folders, func(name string) bool { return !hasList(filepath.Join(found.Dir, name)) }) {
		return found, nil
	}
	// Each folder has its own list, so the folders are no classes.
	if !slices.Contains(folders, split) {
		return found, severalLists(scan.SeveralSplits(folder, split, folders))
	}
	return found.within(split, byIndex)
}

// within returns what is found in the folder of a split.
func (b Beside) within(split string, byIndex bool) (found Beside, err error) {
	found = Beside{Dir: filepath.Join(b.Dir, split)}
	if !hasIndex(found.Dir, byIndex) {
		found.List, err = listIn(found.Dir)
	}
	return found, err
}

// severalLists adds what else such folders may be: classes in each of which somebody keeps a list.
func severalLists(err error) error {
	if e := (*catalog.Error)(nil); errors.As(err, &e) {
		e.Text += "; each has a list of images (metadata.csv, .jsonl or .parquet) of its own, so that they are no classes, unless the lists get other names"
	}
	return err
}

// hasIndex is true for a folder that is opened by its index, whatever list it has: a packed dataset, and with byIndex a
// folder with an index of its files. Without byIndex that index is made anew, because its list may have changed.
func hasIndex(dir string, byIndex bool) bool {
	if !byIndex {
		return packedAlready(dir) != nil
	}
	_, err := os.Lstat(filepath.Join(dir, catalog.ManifestName))
	return err == nil
}

// foldersIn returns the folders in a folder, and links to folders, as formats.ListFolder does for classes. It uses only
// the files' names, because there may be a million.
func foldersIn(dir string) (folders []string) {
	entries, _ := os.ReadDir(dir) // opening the folder reports the error
	for _, e := range entries {
		if e.Name()[0] != '.' && formats.IsDir(dir, e) {
			folders = append(folders, e.Name())
		}
	}
	return folders
}

// hasList is true for a folder with a list, even if the list cannot be read.
func hasList(dir string) bool {
	list, err := listIn(dir)
	return list != "" || err != nil
}

// listIn finds the list in a folder. A list that cannot be read is an error: without it the samples would have other
// labels, and nobody would notice.
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

// listsImages is true for a list with Hugging Face's column of paths. Another file of that name may be anything, such
// as somebody's notes about tars.
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

// passEmpty ignores a file without bytes, because it has no rows to lose.
func passEmpty(err error) error {
	if fault.KindOf(err) == fault.KindEmpty {
		return nil
	}
	return err
}

// parquetListsImages is listsImages for Parquet.
func parquetListsImages(file string) (bool, error) {
	if scan.HasImages(file, false) {
		return false, nil
	}
	list, err := openParquet(file)
	if fault.KindOf(err) == fault.KindUnsupported && !scan.HasColumn(file, metadataPath) {
		return false, nil // the table is something else
	}
	if err != nil {
		return false, err
	}
	defer list.close()
	return slices.ContainsFunc(list.columns(), func(f catalog.Field) bool { return f.Name == metadataPath }), nil
}

// findList finds the list in a source folder, and the folder itself. There is no list if other sources are given
// instead.
func (o *ContainerOptions) findList(folder string) (Beside, error) {
	if o.Containers != nil || o.Array != nil || o.Located != nil || o.Root != "" {
		return Beside{Dir: folder, Split: o.Split}, nil
	}
	found, err := FindList(folder, o.Split, false)
	o.Split = found.Split
	return found, err
}

// noteIgnored makes a folder's source warn that a list in it is ignored.
func (b *Beside) noteIgnored(s source, err error) (source, error) {
	if f, ok := s.(*folder); ok && err == nil {
		f.ignored = b.Warning(f.classes())
	}
	return s, err
}

// openListIn opens such a list; its files lie below its folder. The paths are in the column by which the list was
// found, unless another one is named.
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
