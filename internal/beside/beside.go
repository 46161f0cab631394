package beside

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/mmap"
)

const (
	// levels is how many directories above that of a file are looked into. Classes may lie in folders: in
	// root/class/folder/file.jpg the index is two above.
	levels = 4
	// mostDirectories of images are remembered, about 200 bytes each, and mostIndexes are open. Of images in
	// any others nothing is asked.
	mostDirectories = 1 << 16
	mostIndexes     = 64
	// mostPoints is the largest record of points that is read. A photograph of 100 megapixels has 400 kB.
	mostPoints = 4 << 20
)

// Indexes are those that were found. The methods may be called from any goroutine.
type Indexes struct {
	current string // the working directory, for paths that begin there
	// mostDirectories and mostPoints, and less in tests.
	most       int
	mostPoints int64

	mu          sync.RWMutex
	directories map[string]directory // of images, as their paths have them
	roots       map[string]*index    // that were looked into; nil without an index
	open        int
}

// index is one that is open. One of whose rows some cannot be read is used no more: each try would read them
// all anew.
type index struct {
	*catalog.Dataset
	broken atomic.Bool
}

// directory is one of images. Without an index above it, that is nil.
type directory struct {
	index *index
	below string // its path below the index's folder, with a slash behind
}

// New has found nothing yet.
func New(current string) *Indexes {
	return &Indexes{current: current, most: mostDirectories, mostPoints: mostPoints,
		directories: make(map[string]directory), roots: make(map[string]*index)}
}

// Close closes the indexes. No Points that were had may be read afterwards.
func (x *Indexes) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, found := range x.roots {
		if found != nil {
			found.Release()
		}
	}
	x.directories, x.roots = nil, nil
}

// Points are where the seek points of an image lie. The zero value is that of an image without any.
type Points struct {
	index *index
	place catalog.SeekPlace
	Image uint32 // CRC-32C of the bytes that they are of
}

// CRC32C is that of the points.
func (p Points) CRC32C() uint32 { return p.place.CRC32C }

// Read makes the points readable until b is used again; empty where there are none, or they cannot be read.
func (p Points) Read(b *mmap.Buffer) mmap.View {
	if p.index == nil {
		return mmap.View{}
	}
	view, err := p.index.SeekFile().Read(b, p.place.Offset, p.place.Length)
	if err != nil {
		return mmap.View{}
	}
	return view
}

// Find is the points of a version of a file.
func (x *Indexes) Find(path string, stamp mmap.Stamp) Points {
	slash := strings.LastIndexByte(path, '/')
	at := x.directory(path[:max(slash, 0)], slash == 0)
	if at.index == nil || at.index.broken.Load() {
		return Points{}
	}
	row, found, err := at.index.Find(at.below + path[slash+1:])
	var sample catalog.Sample
	if err == nil && found {
		sample, err = at.index.Sample(row)
	}
	if err != nil {
		at.index.broken.Store(true)
	}
	if err != nil || !found || sample.Length != stamp.Size || sample.MTimeNs != stamp.MTimeNs || !sample.HasCRC ||
		sample.Seek.Length == 0 || sample.Seek.Length > x.mostPoints {
		return Points{}
	}
	return Points{index: at.index, place: sample.Seek, Image: sample.CRC32C}
}

// directory is what is known of a directory of images, named by its path as it stands before a file's name.
func (x *Indexes) directory(path string, top bool) directory {
	if top {
		return directory{} // nothing lies above it
	}
	x.mu.RLock()
	at, known := x.directories[path]
	full := len(x.directories) >= x.most
	x.mu.RUnlock()
	if known || full {
		return at
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if at, known = x.directories[path]; !known && x.directories != nil {
		at = x.look(path)
		x.directories[strings.Clone(path)] = at
	}
	return at
}

// look looks for an index above a directory, the nearest one first. With the lock held.
func (x *Indexes) look(path string) directory {
	if !filepath.IsAbs(path) {
		path = x.current + "/" + path
	}
	// A link on the way may make this another directory than the system's. What is found there then says
	// nothing of a file, or is of a file with this one's size, time and bytes.
	root := filepath.Clean(path)
	below := ""
	for range levels {
		if !filepath.IsAbs(root) || root == "/" {
			break
		}
		below = filepath.Base(root) + "/" + below
		root = filepath.Dir(root)
		if found := x.root(root); found != nil {
			return directory{found, below}
		}
	}
	return directory{}
}

// root is the index that lies in a directory, or nil. With the lock held.
func (x *Indexes) root(path string) *index {
	found, known := x.roots[path]
	if known || len(x.roots) >= x.most {
		return found
	}
	if x.open < mostIndexes && ours(path) {
		if opened, err := catalog.OpenIndexed(path); err == nil && opened.SeekFile() == nil {
			opened.Release() // made with --no-seek: it says nothing
		} else if err == nil {
			found = &index{Dataset: opened}
			x.open++
		}
	}
	x.roots[path] = found
	return found
}

// ours: in a directory like /tmp everybody may put an index above other users' images, and points decide
// which bytes become pixels. Whoever may write to any other directory may replace the images as well.
func ours(path string) bool {
	var status unix.Stat_t
	if unix.Lstat(filepath.Join(path, catalog.ManifestName), &status) != nil || status.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	const everybody = unix.S_ISVTX | unix.S_IWOTH
	return unix.Stat(path, &status) == nil && status.Mode&everybody != everybody
}
