package scan

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
)

// OpenFiles opens containers in the given order; patterns are expanded.
// A single source may be anything that Open accepts.
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
	files, named, err := expandEach(sources)
	if err != nil {
		return nil, err
	}
	return openFiles("", files, named, o)
}

// oneOfSeveral returns the file itself, or the containers of a folder that is one of several sources. named is false for
// a folder.
func oneOfSeveral(source string) (files []string, named bool, err error) {
	if info, err := os.Stat(source); err != nil || !info.IsDir() {
		return []string{source}, true, nil // if it is wrong, opening it gives the error
	}
	source = cmp.Or(strings.TrimRight(source, "/"), "/")
	if _, err := os.Lstat(filepath.Join(source, catalog.ManifestName)); err == nil {
		return nil, false, ownDataset(source)
	}
	if files, err = containersIn(source); err != nil {
		return nil, false, err
	}
	if len(files) == 0 {
		return nil, false, catalog.NewError(fault.KindEmpty, source, "there is no container that is known (%q)", Formats)
	}
	if _, rows, err := savedFiles(source); rows != nil || err != nil {
		return nil, false, cmp.Or(err, selectionAmongOthers(source))
	}
	return files, false, nil
}

// ownDataset makes the error of several sources of which one has a manifest: its shards are no containers.
func ownDataset(source string) error {
	return catalog.NewError(fault.KindArgument, remote.Display(source), "there is a %s in it, so it is a dataset or an index of its own and not one of several containers; Dataset.concat joins datasets", catalog.ManifestName)
}

// selectionAmongOthers makes the error of several sources of which one has row numbers: they count from the first file
// of that dataset, and would be wrong behind the files of another one.
func selectionAmongOthers(source string) error {
	return catalog.NewError(fault.KindUnsupported, remote.Display(source), "a selection of rows was saved with this dataset, so it cannot be opened together with other sources; index it alone, and join the datasets with Dataset.concat")
}

// severalAway makes the error of several sources of which one or more are addresses. Opening them walks nothing, like
// opening a single address (openURL), so it says how to make their index.
func severalAway(sources []string, first string) error {
	if slices.ContainsFunc(sources, func(source string) bool { return !remote.IsURL(source) }) {
		return mixedSources(first)
	}
	// A command line has room for some addresses, a list in Python for any number.
	const most = 8
	command := `headrace.index(LIST, "INDEX"), with this list`
	if len(sources) <= most {
		var shown []string
		for _, source := range sources {
			shown = append(shown, remote.Display(source))
		}
		command = `headrace index "` + strings.Join(shown, `" "`) + `" --out INDEX`
	}
	return catalog.NewError(fault.KindUnsupported, remote.Display(first), "several containers in a store of objects are not one dataset "+
		"before they have an index; make one with: %s", command)
}

// mixedSources makes the error of sources in files and in a store: an index has one root.
func mixedSources(source string) error {
	return catalog.NewError(fault.KindArgument, remote.Display(source), "containers in files and in a store of objects are not one dataset; index them apart and concatenate them")
}
