package pack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
	"github.com/headrace/headrace/mmap"
)

// The names of the lists of Hugging Face's ImageFolder (datasets/packaged_modules/folder_based_builder). Of several in a
// folder the first counts.
var listNames = []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"}

// FindList finds the list of the images of a folder that lies in it, as Hugging Face's ImageFolder has it: the folder, or that
// of one of its splits, and the list there. There is no list where the folder has an index, and where it has several class
// folders, whose names are the labels then.
func FindList(folder, split string) (dir, list string, err error) {
	if remote.IsURL(folder) {
		return folder, "", nil
	}
	found, folders, indexed := lookIn(folder)
	if indexed {
		return folder, "", nil
	}
	// One folder is where the images lie that the list names, as "images/1.jpg".
	if found != "" && len(folders) <= 1 {
		return folder, found, nil
	}
	if found != "" || len(folders) < 2 || slices.ContainsFunc(folders, func(name string) bool { return !hasList(filepath.Join(folder, name)) }) {
		return folder, "", nil
	}
	// Each has a list of its own, so that they are no classes.
	if !slices.Contains(folders, split) {
		return folder, "", scan.SeveralSplits(folder, split, folders)
	}
	dir = filepath.Join(folder, split)
	found, _, indexed = lookIn(dir)
	if indexed {
		found = ""
	}
	return dir, found, nil
}

// hasList is a look at the names of lists alone, for a folder of classes may have a million images.
func hasList(dir string) bool {
	return slices.ContainsFunc(listNames, func(name string) bool { return listsImages(filepath.Join(dir, name)) })
}

// lookIn finds the list in a folder and the folders below it, and says whether it has an index.
func lookIn(dir string) (list string, folders []string, indexed bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, false // which whoever opens the folder says
	}
	for _, e := range entries {
		indexed = indexed || e.Name() == catalog.ManifestName
		if e.IsDir() && e.Name()[0] != '.' {
			folders = append(folders, e.Name())
		}
	}
	for _, name := range listNames {
		has := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
		if path := filepath.Join(dir, name); has && listsImages(path) {
			return path, folders, indexed
		}
	}
	return "", folders, indexed
}

// listsImages is true of a list with the column of paths that Hugging Face's have. Of others in a folder, such as what
// somebody notes of its tars, nothing is known.
func listsImages(file string) bool {
	switch filepath.Ext(file) {
	case ".parquet":
		if scan.HasImages(file) {
			return false
		}
		list, err := openParquet(file)
		if err != nil {
			return false
		}
		defer list.close()
		return slices.ContainsFunc(list.columns(), func(f catalog.Field) bool { return f.Name == metadataPath })
	case ".jsonl":
		f, err := mmap.OpenRegular(file)
		if err != nil {
			return false
		}
		list := &jsonLines{file: file, f: f, at: make(map[string]int)}
		defer list.close()
		if list.rewind() != nil || list.object(list.column) != nil {
			return false
		}
		_, has := list.at[metadataPath]
		return has
	}
	f, err := mmap.OpenRegular(file)
	if err != nil {
		return false
	}
	list := &csvFile{file: file, f: f}
	defer list.close()
	header, err := list.rewind()
	return err == nil && slices.Contains(header, metadataPath)
}

// findList finds the list in a folder that is a source; there is none where others are given in its place.
func (o *ContainerOptions) findList(folder string) (dir, list string, err error) {
	if o.Containers != nil || o.Array != nil || o.Located != nil || o.Root != "" {
		return folder, "", nil
	}
	if dir, list, err = FindList(folder, o.Split); dir != folder {
		o.Split = ""
	}
	return dir, list, err
}

// openListIn opens such a list. Its files lie below the folder.
func openListIn(list string) (*table, error) {
	t := &table{file: list, pathAt: -1, labelAt: -1, keyAt: -1, inside: true}
	return t.begin(&PackConfig{Source: list})
}

// OpenList makes a dataset of the images that the list in a folder names, in its order.
func OpenList(folder, list string) (*catalog.Dataset, error) {
	t, err := openListIn(list)
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
