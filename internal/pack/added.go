package pack

import (
	"os"
	"path/filepath"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// Bounds of the look for new files, which opening must not wait for: on a disk a thousand folders take a millisecond or two,
// and what a slow file system does not answer in that time is not asked.
const (
	mostFoldersLooked = 1000
	longestLook       = 20 * time.Millisecond
)

// NoteAdded has a folder that is opened by its index warn of an image that came to a class since, which the index does not
// have. It goes by the times of the class folders, and lists those that are younger than the index; not folders in these.
func NoteAdded(d *catalog.Dataset, indexDir string, err error) (*catalog.Dataset, error) {
	if err != nil || d.Kind() != catalog.Indexed || d.Away() {
		return d, err
	}
	if indexDir == "" {
		indexDir = d.Root()
	}
	if path := firstAdded(d, indexDir); path != "" {
		d.Warn(formats.TextName(path) + " is not in the index of its folder, which is older; headrace index takes what is new")
	}
	return d, nil
}

// firstAdded is the path of such an image, empty where none was found. Of what cannot be read nothing is said: the files of
// the index may still be.
func firstAdded(d *catalog.Dataset, indexDir string) string {
	root, begin := d.Root(), time.Now()
	written, err := os.Stat(filepath.Join(indexDir, catalog.ManifestName))
	if err != nil || hasList(root) { // the images of a list are those that it names, in its order
		return ""
	}
	folders := foldersIn(root)
	for _, folder := range folders[:min(len(folders), mostFoldersLooked)] {
		dir := filepath.Join(root, folder)
		info, err := os.Stat(dir)
		if time.Since(begin) > longestLook {
			break
		}
		if err != nil || !info.ModTime().After(written.ModTime()) {
			continue
		}
		if path := firstAddedIn(d, folder, begin.Add(longestLook)); path != "" {
			return path
		}
	}
	return ""
}

// firstAddedIn looks into one class folder, some entries at a time: os.ReadDir would read and sort all of a large one.
func firstAddedIn(d *catalog.Dataset, folder string, end time.Time) string {
	dir := filepath.Join(d.Root(), folder)
	f, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	for time.Now().Before(end) {
		entries, err := f.ReadDir(64)
		for _, e := range entries {
			if !formats.HasImageExtension(e.Name()) || formats.IsDir(dir, e) {
				continue
			}
			if _, found, err := d.Find(folder + "/" + e.Name()); err == nil && !found {
				return filepath.Join(dir, e.Name())
			}
		}
		if err != nil { // io.EOF behind the last
			break
		}
	}
	return ""
}
