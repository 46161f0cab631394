package pack

import (
	"os"
	"path/filepath"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// These limit the search for new files, because opening must not wait for it. On a disk a thousand folders take a
// millisecond or two. On a slow file system the search stops when the time is over.
const (
	mostFoldersLooked = 1000
	longestLook       = 20 * time.Millisecond
)

// NoteAdded warns if a folder that is opened by its index has a newer image in a class, which the index does not have.
// It lists only the class folders that are younger than the index, and not folders inside them.
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

// firstAdded returns the path of such an image, empty if none was found. It does not report what cannot be read,
// because the files of the index may still be readable.
func firstAdded(d *catalog.Dataset, indexDir string) string {
	root, begin := d.Root(), time.Now()
	written, err := os.Stat(filepath.Join(indexDir, catalog.ManifestName))
	if err != nil || hasList(root) { // a list names its images itself, in its own order
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

// firstAddedIn searches one class folder, a few entries at a time. os.ReadDir would read and sort all of a large
// folder.
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
		if err != nil { // io.EOF after the last entry
			break
		}
	}
	return ""
}
