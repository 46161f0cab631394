package formats

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/headrace/headrace/internal/processors"
)

// ImageExtensions are torchvision's IMG_EXTENSIONS, compared regardless of case. They choose files; what a file really
// is, its content decides later.
var ImageExtensions = []string{
	".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
}

// MaxNameBytes is the longest name (path inside a dataset) that is accepted.
const MaxNameBytes = 4096

// Listing is an image folder as torchvision.datasets.ImageFolder lists it: the same classes, the same files, the same
// order. All names are in one arena, because a million strings would take more memory than the names themselves.
type Listing struct {
	Root    string
	Classes []string

	more   []string // further extensions
	dirs   []string // below Root; the files of one directory are neighbours
	first  []int64  // number of the first file of each directory
	labels []int32  // class of each directory
	names  Names
}

// noClass makes the same error as torchvision, and says what is expected.
func noClass(root string) error {
	for _, name := range []string{"metadata.csv", "metadata.jsonl", "metadata.parquet"} {
		list := filepath.Join(root, name)
		if info, err := os.Stat(list); err == nil && info.Mode().IsRegular() {
			return fmt.Errorf("%w: couldn't find any class folder in %s; %s is a list of images, as Hugging Face's ImageFolder has it, which headrace.pack takes: headrace pack %s", ErrEmpty, root, name, list)
		}
	}
	return fmt.Errorf("%w: couldn't find any class folder in %s (images lie in a folder for each class, as %s; headrace.pack takes a list of files, too: CSV, JSON lines or Parquet)", ErrEmpty, root, strings.TrimSuffix(root, "/")+"/cat/1.jpg")
}

// ListImageFolder applies torchvision's rule: a class is a directory directly below root, or a link to one. Its files
// are those of an os.walk that follows links, with directories sorted by full path and names sorted inside each.
// A class without any image is an error unless allowEmpty.
//
// It differs where torchvision loses or repeats data. A directory that cannot be read is an error (os.walk skips it
// silently). A link to a directory that contains it, such as the root or a directory around the root, is not descended
// (os.walk repeats its files until the kernel's limit of 40 links). Such a link directly below the root stays a class
// without files, so that all classes have torchvision's numbers.
func ListImageFolder(root string, allowEmpty bool) (*Listing, error) {
	return ListFolder(root, allowEmpty, nil)
}

// ListFolder is ListImageFolder with further extensions, in lower case. A file with one of these is ignored beside a
// file of the same name whose extension is torchvision's.
func ListFolder(root string, allowEmpty bool, more []string) (*Listing, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	l := &Listing{Root: root, more: more}
	// A class that is a link back keeps its number and has no files.
	links := map[string]bool{} // classes that are links; true: the link leads back
	for _, e := range entries {
		if !IsDir(root, e) {
			continue
		}
		l.Classes = append(l.Classes, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			links[e.Name()] = leadsBack(root+"/"+e.Name(), []string{root})
		}
	}
	if len(l.Classes) == 0 {
		return nil, noClass(root)
	}
	sortNames(l.Classes)

	var missing []string
	err = l.walkClasses(links, func(label int, dirs []directory) {
		found := false
		for _, d := range dirs {
			found = found || len(d.files) > 0
			l.add(label, d)
		}
		if !found && !links[l.Classes[label]] {
			missing = append(missing, l.Classes[label])
		}
	})
	if err != nil {
		return nil, err
	}
	if err := l.lacking(missing, allowEmpty); err != nil {
		return nil, err
	}
	return l, nil
}

// lacking refuses a listing without files, or one in which classes have none.
func (l *Listing) lacking(missing []string, allowEmpty bool) error {
	// Without a file there is no dataset, even with allowEmpty.
	if l.Len() == 0 {
		missing = l.Classes
	}
	if len(missing) > 0 && (!allowEmpty || l.Len() == 0) {
		return fmt.Errorf("%w: found no valid file for the classes %s. Supported extensions are: %s",
			ErrEmpty, abridge(missing), strings.Join(append(slices.Clone(ImageExtensions), l.more...), ", "))
	}
	return nil
}

// walkClasses walks the class folders in parallel and passes them to add in order. On a network file system a directory
// costs a round trip, so more are walked at a time than there are cores.
func (l *Listing) walkClasses(links map[string]bool, add func(label int, dirs []directory)) error {
	type result struct {
		dirs []directory
		err  error
	}
	// If few threads are left, fewer workers are used.
	workers, short := processors.Take(min(len(l.Classes), 4*processors.Cores()), 1)
	if workers < 1 {
		return short
	}
	defer processors.Return(workers)
	results := make([]chan result, len(l.Classes))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	// A ticket is taken for each class and returned when its result was merged. So at most `workers` classes wait in
	// memory.
	tickets := make(chan struct{}, workers)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i, class := range l.Classes {
			select {
			case tickets <- struct{}{}:
			case <-stop:
				return
			}
			wg.Go(func() {
				var r result
				if back, link := links[class]; !back {
					r.dirs, r.err = walkClass(l.Root, class, link, l.more)
				}
				results[i] <- r
			})
		}
	})
	defer wg.Wait()
	defer close(stop)
	for i := range results {
		r := <-results[i]
		if r.err != nil {
			return r.err
		}
		add(i, r.dirs)
		<-tickets
	}
	return nil
}

// add appends a directory's files; a directory without files is left out.
func (l *Listing) add(label int, d directory) {
	if len(d.files) == 0 {
		return
	}
	l.dirs = append(l.dirs, d.path)
	l.first = append(l.first, l.Len())
	l.labels = append(l.labels, int32(label))
	for _, name := range d.files {
		l.names.Append(name)
	}
}

// Len is the number of files.
func (l *Listing) Len() int64 { return l.names.Len() }

// dir returns the directory of file i: the last one that begins at or before it.
func (l *Listing) dir(i int64) int {
	d, exact := slices.BinarySearch(l.first, i)
	if !exact {
		d--
	}
	return d
}

// Label returns the class of file i: its place in Classes.
func (l *Listing) Label(i int64) int64 { return int64(l.labels[l.dir(i)]) }

// Path returns the path of file i below Root, with slashes.
func (l *Listing) Path(i int64) string {
	return l.dirs[l.dir(i)] + "/" + string(l.names.Bytes(i))
}

// ClassNames returns the classes as text, in the order of labels.
func (l *Listing) ClassNames() []string {
	names := make([]string, len(l.Classes))
	for i, c := range l.Classes {
		names[i] = TextName(c)
	}
	return names
}

// Key returns the path without its last extension, which is the name of a sample.
func Key(path string) string {
	ext := filepath.Ext(path)
	key := path[:len(path)-len(ext)]
	if key == "" || strings.HasSuffix(key, "/") { // ".jpg" is a name, not an extension
		return path
	}
	return key
}

// abridge joins names for an error without filling the screen.
func abridge(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
