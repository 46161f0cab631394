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
	// levels is how many folders above a file's own folder are searched. Class folders may lie in other folders: in
	// root/class/folder/file.jpg the index is two levels above the file's folder.
	levels = 4
	// mostDirectories is how many folders of images are remembered, about 200 bytes each, and mostIndexes how many
	// indexes are open. Images in any further folder are decoded without points.
	mostDirectories = 1 << 16
	mostIndexes     = 64
	// mostPoints bounds a record of points that is read. That of a photograph of 100 megapixels has 400 kB.
	mostPoints = 4 << 20
)

// Indexes are the indexes that were found. The methods may be called from any goroutine.
type Indexes struct {
	current string // the working directory, for paths that begin there
	// These are mostDirectories and mostPoints, and smaller in tests.
	most       int
	mostPoints int64

	mu          sync.RWMutex
	directories map[string]directory // folders of images, by path as the files' paths have it
	roots       map[string]*index    // folders that were searched; nil: no index there
	open        int
}

// index is an open index. An index that has a row that cannot be read is no longer used, because each try would read
// its rows again.
type index struct {
	*catalog.Dataset
	broken atomic.Bool
}

// directory is a folder of images. index is nil if no folder above it has one.
type directory struct {
	index *index
	below string // its path below the index's folder, ending with a slash
}

// New returns an empty Indexes.
func New(current string) *Indexes {
	return &Indexes{current: current, most: mostDirectories, mostPoints: mostPoints,
		directories: make(map[string]directory), roots: make(map[string]*index)}
}

// Close closes the indexes. Afterwards no Points that came from them may be read.
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

// Points say where the seek points of an image lie. The zero value means that the image has none.
type Points struct {
	index *index
	place catalog.SeekPlace
	Image uint32 // CRC-32C of the image's bytes that they belong to
}

// CRC32C returns the checksum of the points.
func (p Points) CRC32C() uint32 { return p.place.CRC32C }

// Read makes the points readable until b is used again. It returns an empty view if there are none, or if they cannot
// be read.
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

// Find returns the points of a version of a file.
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

// directory returns what is known of a folder of images, named by its path as it stands before a file's name.
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

// look searches for an index above a directory, the nearest one first. The lock is held.
func (x *Indexes) look(path string) directory {
	if !filepath.IsAbs(path) {
		path = x.current + "/" + path
	}
	// A link on the way may make this another directory than the system's. What is found there then either says nothing
	// of a file, or belongs to a file with the same size, time and bytes.
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

// root returns the index in a directory, or nil. The lock is held.
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

// ours is true if only this user may have put an index there. In a directory like /tmp everybody may put one above
// other users' images, and points decide which bytes become pixels. In any other directory, a user who may write there
// may replace the images as well.
func ours(path string) bool {
	var status unix.Stat_t
	if unix.Lstat(filepath.Join(path, catalog.ManifestName), &status) != nil || status.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	const everybody = unix.S_ISVTX | unix.S_IWOTH
	return unix.Stat(path, &status) == nil && status.Mode&everybody != everybody
}
