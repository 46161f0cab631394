package formats

import (
	"fmt"
	"slices"
	"strings"
)

// ListNames is ListFolder for names with slashes below a root, as a store of objects lists them. A store has no
// folders, so a class exists if something lies below it. A name that ends with a slash stands for a folder.
func ListNames(root string, names []string, allowEmpty bool, more []string) (*Listing, error) {
	l := &Listing{Root: root, more: more}
	folders := map[string]map[string][]string{} // files by class and directory
	for _, name := range names {
		class, rest, below := strings.Cut(name, "/")
		// A file outside any folder has no class; torchvision ignores it as well.
		if !below || class == "" {
			continue
		}
		if len(name) > MaxNameBytes {
			return nil, fmt.Errorf("%w: a name below %s has %d bytes (expected at most %d)", ErrLimit, root, len(name), MaxNameBytes)
		}
		if folders[class] == nil {
			folders[class] = map[string][]string{}
		}
		if at := strings.LastIndexByte(name, '/'); rest != "" && IsImage(name[at+1:], more) {
			folders[class][name[:at]] = append(folders[class][name[:at]], name[at+1:])
		}
	}
	for class := range folders {
		l.Classes = append(l.Classes, class)
	}
	if len(l.Classes) == 0 {
		return nil, noClass(root)
	}
	sortNames(l.Classes)
	var missing []string
	for label, class := range l.Classes {
		var dirs []directory
		for path, files := range folders[class] {
			dirs = append(dirs, directory{path: path, files: imagesOf(files, more)})
		}
		slices.SortFunc(dirs, func(a, b directory) int { return compareNames(a.path, b.path) })
		for _, d := range dirs {
			l.add(label, d)
		}
		if len(dirs) == 0 {
			missing = append(missing, class)
		}
	}
	return l, l.lacking(missing, allowEmpty)
}
