package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
)

// Index writes an index without copying an image: of a class folder into the folder itself, or into another
// directory where the folder cannot be written; of containers to wherever c says.
func Index(ctx context.Context, c IndexConfig, t *Tracker) (Summary, error) {
	begin := time.Now()
	if err := c.Options.check(); err != nil {
		return Summary{}, err
	}
	if err := checkFaultPolicy(c.OnFault); err != nil {
		return Summary{}, err
	}
	// A store has neither the rename nor the lock that an index in place is made with.
	for _, place := range []string{c.Out, c.IndexDir} {
		if remote.IsURL(place) {
			return Summary{}, catalog.NewError(fault.KindUnsupported, remote.Display(place),
				"an index is written to a directory; copied beside its containers, it is opened there by its address")
		}
		if said := remote.Mistaken(place); said != "" { // else a folder of that name would be made
			return Summary{}, catalog.NewError(fault.KindArgument, "", "%s", said)
		}
	}
	c.mostBlock = c.Limits.MaxBlockBytes
	// Fields of an index are kept as places, where they have one.
	s, err := c.open(ctx)
	if err != nil {
		return Summary{}, err
	}
	defer s.close()
	t.setTotal(s.total())
	dir, root, err := c.place(s)
	if err != nil {
		return Summary{}, err
	}
	// The directory may be one that out names and that is not there yet.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		doing := "cannot make the index directory"
		if c.Out == "" && c.IndexDir == "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) {
			doing = "an index goes beside its containers, where nothing may be written; out (--out) names another place for it"
		}
		return Summary{}, catalog.IOError(dir, doing, err)
	}
	kind, inBlocks := catalog.Indexed, false
	inContainers, ok := s.(*containers)
	if ok {
		kind, inBlocks = catalog.Contained, inContainers.dataset.Source().Blocks
	}
	// It holds the directory's lock from here to close.
	x, err := newInPlace(dir, kind, inBlocks, s.fields())
	if err != nil {
		return Summary{}, err
	}
	defer x.close()
	if ok {
		x.describe = inContainers.describe(root)
	}
	if files, ok := s.(*folderAway); ok {
		x.describe = files.describe
	}
	x.raise, x.track = c.OnFault == RaiseFaults, t
	if err := newFlow(s, c.Options, !c.NoSeek, t).run(ctx, x.add); err != nil {
		x.abandon()
		return Summary{}, err
	}
	m, warning, err := x.finish(s.classes())
	if err != nil {
		return Summary{}, err
	}
	// The manifest names files and sums; the faults are of this run.
	summary := summaryOf(dir, m, x.faults)
	if ok {
		summary.Warnings = inContainers.dataset.Warnings()
	}
	if files, ok := s.(interface{ warnings() []string }); ok { // a folder or a list
		summary.Warnings = files.warnings()
	}
	if warning != "" {
		summary.Warnings = append(summary.Warnings, warning)
	}
	summary.Seconds = time.Since(begin).Seconds()
	return summary, nil
}

// open opens what the index is of.
func (c *IndexConfig) open(ctx context.Context) (source, error) {
	found, err := c.findList(c.Source)
	if err != nil {
		return nil, err
	}
	if c.Source = found.Dir; found.List == "" {
		return found.noteIgnored(openFolderOr(ctx, c.Source, c.AllowEmpty, &c.ContainerOptions, c.Storage, true))
	}
	if err := noListWords(found.List, c.scanOptions(c.Storage)); err != nil {
		return nil, err
	}
	return openListIn(found.List, "", "")
}

// place is the directory of the index, and for containers where they are found from there.
// For containers and for a folder in a store out names the directory, for class folders on disk index_dir. The other word is
// refused.
func (c *IndexConfig) place(s source) (dir, root string, err error) {
	if in, ok := s.(*containers); ok {
		if c.IndexDir != "" {
			return "", "", catalog.NewError(fault.KindArgument, c.Source, "index_dir is for class folders; these are containers, whose index goes to the directory that out (--out) names")
		}
		return indexPlace(c.Source, c.Out, in.dataset)
	}
	if files, ok := s.(*folderAway); ok {
		if c.Out == "" || c.IndexDir != "" {
			return "", "", catalog.NewError(fault.KindArgument, files.list.Root, "the index of a folder in a store goes to a directory, which out (--out) names")
		}
		return c.Out, "", nil
	}
	if c.Out != "" {
		return "", "", catalog.NewError(fault.KindArgument, c.Source, "out is for containers; of a class folder, index_dir (--index-dir) says where the index goes")
	}
	// Before any file is read: the index could not hold the name.
	if f, ok := s.(*folder); ok {
		if err := f.checkPaths(); err != nil {
			return "", "", err
		}
	}
	if c.IndexDir != "" {
		return c.IndexDir, "", nil
	}
	return c.Source, "", nil
}

// inPlace is an index in the making, in a directory that holds other things. Its files have
// temporary names until they are whole; the manifest's rename is the moment it counts.
type inPlace struct {
	dir      string
	lock     *os.File
	index    *catalog.Writer
	seek     *seekFile
	faults   Faults
	raise    bool
	track    *Tracker
	describe func(*catalog.Manifest) // adds what a manifest says of containers and of files in a store, or nil
	named    []string                // files that have their own names, and that no manifest names yet
}

// Temporary names of an index in the making.
const (
	// Names with a dot in front, which a scan of the folder and a listing of classes pass over.
	temporaryIndex    = ".headrace-index.partial"
	temporarySeek     = ".headrace-seek.partial"
	temporaryManifest = ".headrace-manifest.partial"
)

// newInPlace takes the directory's lock and begins the index in it. Whoever comes second gets an error and no wait: the
// first may be at work for hours.
func newInPlace(dir string, kind catalog.Kind, inBlocks bool, fields []catalog.Field) (*inPlace, error) {
	// Two runs in one folder would rename each other's index under their own manifest.
	lock, err := lockDirectory(dir)
	if err != nil {
		return nil, catalog.IOError(dir, "cannot lock the directory; is another index run at work?", err)
	}
	x := &inPlace{dir: dir, lock: lock, seek: &seekFile{create: func() (catalog.Made, error) {
		f, err := catalog.Create(filepath.Join(dir, temporarySeek))
		if err != nil {
			return nil, catalog.IOError(filepath.Join(dir, temporarySeek), "cannot create the seek file", err)
		}
		return f, nil
	}}}
	// Whoever holds the lock is the only one: what lies there is a dead run's.
	// Their names are always the same, so that there is nothing to search for.
	os.Remove(filepath.Join(dir, temporaryIndex))
	os.Remove(filepath.Join(dir, temporarySeek))
	os.Remove(filepath.Join(dir, temporaryManifest))
	if x.index, err = catalog.NewWriterInBlocks(filepath.Join(dir, temporaryIndex), kind, inBlocks, fields); err != nil {
		lock.Close()
		return nil, err
	}
	return x, nil
}

// The lock goes with the file (flock(2)).
func (x *inPlace) close() { x.lock.Close() }

// add takes the next file; its bytes stay where they are.
func (x *inPlace) add(r *record) error {
	faults := int64(0)
	if r.faulty() {
		if x.raise {
			return faultError(r)
		}
		faults = 1
		x.faults.add(r.fault())
	}
	row := rowOf(r)
	row.Path, row.MTimeNs = r.rel, r.mtimeNs
	// A sample without a file of its own is found by container and offset.
	if r.inside != nil {
		row.Shard, row.Offset, row.Block = r.shard, r.inside.offset, r.inside.sample.Block
		if r.inside.pixels != nil { // what was looked into is a file that was made of them
			row.Length, row.CRC32C = r.inside.length, r.stored
			row.MakeRaw(r.inside.sample.RawSize())
		}
	}
	var err error
	if row.Seek, err = x.seek.add(r.seek); err != nil {
		return err
	}
	if err := x.index.Append(&row); err != nil {
		return r.refused(err)
	}
	x.track.add(1, r.length, faults)
	return nil
}

// abandon leaves nothing.
// Also after an error of publish: whatever has its name already, no manifest names.
func (x *inPlace) abandon() {
	x.seek.abandon()
	x.index.Abort()
	for _, path := range append(x.named, filepath.Join(x.dir, temporaryManifest)) {
		os.Remove(path)
	}
}

// finish puts the new index beside an old one, then lets the manifest's rename decide. An old index
// and its seek points stay whole until then.
// The order is that of what names what: seek points, index, manifest.
func (x *inPlace) finish(classes []string) (_ *catalog.Manifest, warning string, _ error) {
	// On the disk before the index that names places in it.
	seek, err := x.seek.finish()
	var m *catalog.Manifest
	if err == nil {
		m, err = x.index.Finish()
	}
	if err == nil {
		m.Classes, m.Seek = classes, seek
		if x.describe != nil {
			x.describe(m)
		}
		err = x.name(m)
	}
	if err == nil {
		err = x.publish(m)
	}
	if err != nil {
		x.abandon()
		return nil, "", err
	}
	if err := syncError(x.dir, x.lock.Sync()); err != nil {
		// The index is in force, and the old one may be again when the machine stops: it stays.
		return m, fmt.Sprintf("the index may be the old one, or none, when the machine stops: %v", err), nil
	}
	x.removeOld(m)
	return m, "", nil
}

// name chooses the first number that the manifest in force, if any, does not use.
// A number that an earlier index had may come again, as only files in force must not be replaced.
func (x *inPlace) name(m *catalog.Manifest) error {
	old, err := catalog.ReadManifest(filepath.Join(x.dir, catalog.ManifestName))
	var e *catalog.Error
	switch {
	// A packed dataset has its own index, whose manifest this one would replace.
	case err == nil && old.Kind == catalog.Packed.String():
		return catalog.NewError(fault.KindArgument, x.dir, "a packed dataset is here, which already has an index")
	case err == nil:
	case errors.As(err, &e) && e.Kind == fault.KindIO && !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		old = nil // a damaged manifest is replaced
	}
	n := 0
	// The old index stays whole until the manifest names the new one.
	for x.taken(old, catalog.IndexFileName(n), catalog.SeekFileName(n)) {
		n++
	}
	m.Index.Name = catalog.IndexFileName(n)
	if m.Seek != nil {
		m.Seek.Name = catalog.SeekFileName(n)
	}
	return nil
}

// taken is true of names of which the manifest in force has one. A damaged one, which is nil, does not say which it has, so
// that all that are there are taken.
func (x *inPlace) taken(old *catalog.Manifest, index, seek string) bool {
	if old != nil {
		return old.Index.Name == index || old.Seek != nil && old.Seek.Name == seek
	}
	for _, name := range []string{index, seek} {
		if _, err := os.Lstat(filepath.Join(x.dir, name)); err == nil {
			return true
		}
	}
	return false
}

// publish renames index, seek points and manifest, in this order. One sync puts the names of the first two on disk before
// the manifest says so; its rename is the last thing that publish does.
// A crash between two renames leaves the old manifest in force and a file that nobody names.
func (x *inPlace) publish(m *catalog.Manifest) error {
	data, err := encodeManifest(m, x.dir)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(x.dir, temporaryManifest), data); err != nil {
		return err
	}
	if err := x.rename(temporaryIndex, m.Index.Name); err != nil {
		return err
	}
	x.named = append(x.named, filepath.Join(x.dir, m.Index.Name))
	if m.Seek != nil {
		if err := x.rename(temporarySeek, m.Seek.Name); err != nil {
			return err
		}
		x.named = append(x.named, filepath.Join(x.dir, m.Seek.Name))
	}
	// Index and seek points must have their names on disk before the manifest says so. The lock is the directory, which is
	// open: a process may have too many files to open it again.
	if err := syncError(x.dir, x.lock.Sync()); err != nil {
		return err
	}
	// Last: until its rename the old one holds, and its files are there under their own names.
	return x.rename(temporaryManifest, catalog.ManifestName)
}

// rename(2) replaces what has the name in one step, so that a reader finds one manifest or the other.
func (x *inPlace) rename(from, to string) error {
	to = filepath.Join(x.dir, to)
	if err := os.Rename(filepath.Join(x.dir, from), to); err != nil {
		return catalog.IOError(to, "cannot put the index in its place", err)
	}
	return nil
}

// removeOld removes files that no manifest names any more. Whoever has one open keeps it.
// An error is no reason to fail: the index is there, and the next run tries again.
func (x *inPlace) removeOld(m *catalog.Manifest) {
	entries, _ := os.ReadDir(x.dir)
	for _, e := range entries {
		current := e.Name() == m.Index.Name || m.Seek != nil && e.Name() == m.Seek.Name
		if isIndexPart(e.Name()) && !current {
			os.Remove(filepath.Join(x.dir, e.Name()))
		}
	}
}
