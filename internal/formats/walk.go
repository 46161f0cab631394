package formats

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// directory is one directory of a class, with the names of its images.
type directory struct {
	path  string // below the root, with slashes
	files []string
}

// walkClass collects a class's directories in the order of their full paths, which is not the order of descent: "a-b"
// comes before "a/c", because '-' is less than '/'.
func walkClass(root, class string, link bool, more []string) ([]directory, error) {
	var dirs []directory
	var holders []string
	if link {
		holders = []string{root}
	}
	if err := descend(root, class, holders, more, &dirs); err != nil {
		return nil, err
	}
	slices.SortFunc(dirs, func(a, b directory) int { return compareNames(a.path, b.path) })
	return dirs, nil
}

// descend lists one directory, then those in it. The caller sorts, because os.walk has its own order.
// path is below root; "" is root itself. holders are the directories whose links led here; more has further extensions
// of images.
func descend(root, path string, holders, more []string, dirs *[]directory) error {
	// This also ends a circle of links that device and inode do not show, as on some network file systems.
	if len(path) > MaxNameBytes {
		return fmt.Errorf("%w: a path below %s has %d bytes (expected at most %d)", ErrLimit, root, len(path), MaxNameBytes)
	}
	full, below := root, ""
	if path != "" {
		full, below = root+"/"+path, path+"/"
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return err
	}
	d := directory{path: path}
	var names []string // of files
	for _, e := range entries {
		name := e.Name()
		if !IsDir(full, e) {
			names = append(names, name)
			continue
		}
		through := holders
		if e.Type()&fs.ModeSymlink != 0 {
			through = append(slices.Clip(holders), full)
			if leadsBack(full+"/"+name, through) {
				continue
			}
		}
		if err := descend(root, below+name, through, more, dirs); err != nil {
			return err
		}
	}
	d.files = imagesOf(names, more)
	*dirs = append(*dirs, d)
	return nil
}

// IsDir answers like Python's os.DirEntry.is_dir: it follows links, and a broken link is a file. Only links cost a
// stat; for the others the directory itself has the answer.
func IsDir(parent string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(parent + "/" + e.Name())
	return err == nil && info.IsDir()
}

// leadsBack says whether a link goes to a directory that contains it: to one of its holders (the directories whose
// links led to it, and the one that it is in), or to any directory above one of them.
// These are all directories on the way from the root. Names cannot show this, so device and inode are compared.
func leadsBack(link string, holders []string) bool {
	target, err := os.Stat(link)
	if err != nil {
		return false
	}
	for _, path := range holders {
		var below os.FileInfo
		for {
			info, err := os.Stat(path)
			if err != nil || below != nil && os.SameFile(info, below) { // "/" is its own parent
				break
			}
			if os.SameFile(info, target) {
				return true
			}
			// The system goes up from the target of a path, whatever links are in the path.
			below, path = info, path+"/.."
		}
	}
	return false
}

// HasImageExtension is torchvision's filename.lower().endswith(IMG_EXTENSIONS).
func HasImageExtension(name string) bool { return endsWith(name, ImageExtensions) }

// IsImage is HasImageExtension with further extensions.
func IsImage(name string, more []string) bool {
	return HasImageExtension(name) || endsWith(name, more)
}

// imagesOf returns the images among the files of one directory, sorted. A file with a further extension is ignored
// beside a file of the same name whose extension is torchvision's.
func imagesOf(names, more []string) []string {
	var files, others []string
	for _, name := range names {
		if HasImageExtension(name) {
			files = append(files, name)
		} else if endsWith(name, more) {
			others = append(others, name)
		}
	}
	files = append(files, withoutNamesake(others, files)...)
	sortNames(files)
	return files
}

// withoutNamesake returns the names that differ from all of `from` by more than their extension.
func withoutNamesake(names, from []string) []string {
	if len(names) == 0 {
		return nil
	}
	known := make(map[string]bool, len(from))
	for _, name := range from {
		known[Key(name)] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return known[Key(name)] })
}

func endsWith(name string, extensions []string) bool {
	for _, ext := range extensions {
		if len(name) >= len(ext) && strings.EqualFold(name[len(name)-len(ext):], ext) {
			return true
		}
	}
	return false
}

// sortNames sorts like Python's sorted().
func sortNames(names []string) { slices.SortFunc(names, compareNames) }

// compareNames has Python's order of str: by code point, which for UTF-8 is the order of bytes.
// In Python, bytes that are not UTF-8 are lone surrogates (surrogateescape), U+DC80 to U+DCFF, so they sort below
// U+E000 although the bytes are greater.
func compareNames(a, b string) int {
	if utf8.ValidString(a) && utf8.ValidString(b) {
		return strings.Compare(a, b)
	}
	for len(a) > 0 && len(b) > 0 {
		ra, na := decodeEscaped(a)
		rb, nb := decodeEscaped(b)
		// Code points are below 2^21, so the difference cannot overflow.
		if ra != rb {
			return int(ra - rb)
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// decodeEscaped returns the first code point as os.fsdecode gives it.
func decodeEscaped(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return 0xDC00 + rune(s[0]), 1
	}
	return r, n
}

// CompareImagePaths has the order in which an image folder lists files, by their paths below its root: by class, then
// by folder, then by name.
func CompareImagePaths(a, b string) int {
	classA, _, _ := strings.Cut(a, "/")
	classB, _, _ := strings.Cut(b, "/")
	if order := compareNames(classA, classB); order != 0 {
		return order
	}
	slashA, slashB := strings.LastIndexByte(a, '/'), strings.LastIndexByte(b, '/')
	if order := compareNames(a[:max(slashA, 0)], b[:max(slashB, 0)]); order != 0 {
		return order
	}
	return compareNames(a[slashA+1:], b[slashB+1:])
}
