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

// Index writes an index without copying an image. For a class folder it goes into the folder itself, or into another
// directory if the folder cannot be written; for containers it goes where c says.
func Index(ctx context.Context, c IndexConfig, t *Tracker) (Summary, error) {
	begin := time.Now()
	if err := c.Options.check(); err != nil {
		return Summary{}, err
	}
	if err := checkFaultPolicy(c.OnFault); err != nil {
		return Summary{}, err
	}
	// A store has neither the rename nor the lock that making an index in place needs.
	for _, place := range []string{c.Out, c.IndexDir} {
		if remote.IsURL(place) {
			return Summary{}, catalog.NewError(fault.KindUnsupported, remote.Display(place),
				"an index is written to a directory; copied beside its containers, it is opened there by its address")
		}
		if said := remote.Mistaken(place); said != "" { // otherwise a folder of that name would be made
			return Summary{}, catalog.NewError(fault.KindArgument, "", "%s", said)
		}
	}
	c.mostBlock = c.Limits.MaxBlockBytes
	// Fields of an index are kept as places, if they have one.
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
	// The directory may be one that out names and that does not exist yet.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		if file := inTheWay(dir); file != "" {
			return Summary{}, catalog.NewError(fault.KindArgument, dir, "the index is a directory, and the file %s is in its place or in that of a folder above it; give another name (out or index_dir), or move the file away", file)
		}
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
	// x holds the directory's lock from here until close.
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
	// The manifest has files and checksums; the faults are those of this run.
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

// inTheWay returns the file at a path, or at that of a folder above it, which keeps a directory from being made there; ""
// if there is none.
func inTheWay(path string) string {
	for {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			return path
		}
		above := filepath.Dir(path)
		if err == nil || above == path {
			return ""
		}
		path = above
	}
}

// open opens the source of the index.
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

// place returns the directory of the index, and for containers their path from there.
// out names the directory for containers and for a folder in a store, index_dir for class folders on disk. The other
// option is refused.
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
	// This check comes before any file is read, because the index could not hold the name.
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

// inPlace is an index that is being made, in a directory with other files. Its files have temporary names until they
// are complete; the rename of the manifest makes it valid.
type inPlace struct {
	dir      string
	lock     *os.File
	index    *catalog.Writer
	seek     *seekFile
	faults   Faults
	raise    bool
	track    *Tracker
	describe func(*catalog.Manifest) // adds to a manifest what it says about containers or files in a store; or nil
	named    []string                // files that have their final names, but that no manifest names yet
}

// These are temporary names of an index that is being made.
const (
	// They begin with a dot, so that a scan of the folder and a listing of classes ignore them.
	temporaryIndex    = ".headrace-index.partial"
	temporarySeek     = ".headrace-seek.partial"
	temporaryManifest = ".headrace-manifest.partial"
)

// newInPlace takes the directory's lock and begins the index in it. A second run gets an error and does not wait,
// because the first may be at work for hours.
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
	// Only this run holds the lock, so such files are left from a dead run.
	// Their names are always the same, so there is nothing to search for.
	os.Remove(filepath.Join(dir, temporaryIndex))
	os.Remove(filepath.Join(dir, temporarySeek))
	os.Remove(filepath.Join(dir, temporaryManifest))
	if x.index, err = catalog.NewWriterInBlocks(filepath.Join(dir, temporaryIndex), kind, inBlocks, fields); err != nil {
		lock.Close()
		return nil, err
	}
	return x, nil
}

// close closes the lock's file, which releases the lock (flock(2)).
func (x *inPlace) close() { x.lock.Close() }

// add adds the next file to the index; its bytes stay where they are.
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
		if r.inside.pixels != nil { // what was inspected is a file that was made of the pixels
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

// abandon removes everything.
// It works after an error of publish as well: no manifest names the files that have their final names already.
func (x *inPlace) abandon() {
	x.seek.abandon()
	x.index.Abort()
	for _, path := range append(x.named, filepath.Join(x.dir, temporaryManifest)) {
		os.Remove(path)
	}
}

// finish puts the new index beside an old one; then the manifest's rename makes it valid. Until then an old index and
// its seek points stay complete.
// The order is seek points, index, manifest, because each names the one before.
func (x *inPlace) finish(classes []string) (_ *catalog.Manifest, warning string, _ error) {
	// The seek points are on the disk before the index, which names places in them.
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
		// The new index is valid, but after a crash of the machine the old one may be again, so it is kept.
		return m, fmt.Sprintf("the index may be the old one, or none, when the machine stops: %v", err), nil
	}
	x.removeOld(m)
	return m, "", nil
}

// name chooses the first number that the valid manifest, if any, does not use.
// A number of an earlier index may be used again, because only files of the valid manifest must not be replaced.
func (x *inPlace) name(m *catalog.Manifest) error {
	old, err := catalog.ReadManifest(filepath.Join(x.dir, catalog.ManifestName))
	var e *catalog.Error
	switch {
	// A packed dataset has its own index, and this one would replace its manifest.
	case err == nil && old.Kind == catalog.Packed.String():
		return catalog.NewError(fault.KindArgument, x.dir, "a packed dataset is here, which already has an index")
	case err == nil:
	case errors.As(err, &e) && e.Kind == fault.KindIO && !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		old = nil // a damaged manifest is replaced
	}
	n := 0
	// The old index stays complete until the manifest names the new one.
	for x.taken(old, catalog.IndexFileName(n), catalog.SeekFileName(n)) {
		n++
	}
	m.Index.Name = catalog.IndexFileName(n)
	if m.Seek != nil {
		m.Seek.Name = catalog.SeekFileName(n)
	}
	return nil
}

// taken is true if the valid manifest uses one of the names. If the manifest is damaged, old is nil, and all existing
// files count as used.
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

// publish renames seek points and index and then the manifest. A sync before the last rename makes sure that the names
// of the others are on disk when the manifest names them. That rename is the last thing that publish does.
// A crash between two renames leaves the old manifest valid, and a file that nothing names.
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
	// The names of index and seek points must be on disk before the manifest names them. The sync uses the lock, which is
	// the directory and is open: the process may have too many files open to open it again.
	if err := syncError(x.dir, x.lock.Sync()); err != nil {
		return err
	}
	// This comes last: until this rename the old manifest is valid, and its files have their own names.
	return x.rename(temporaryManifest, catalog.ManifestName)
}

// rename replaces a file in one step (rename(2)), so that a reader finds either manifest.
func (x *inPlace) rename(from, to string) error {
	to = filepath.Join(x.dir, to)
	if err := os.Rename(filepath.Join(x.dir, from), to); err != nil {
		return catalog.IOError(to, "cannot put the index in its place", err)
	}
	return nil
}

// removeOld removes files that no manifest names any more. A process that has one open keeps it.
// Errors are ignored, because the index is complete and the next run tries again.
func (x *inPlace) removeOld(m *catalog.Manifest) {
	entries, _ := os.ReadDir(x.dir)
	for _, e := range entries {
		current := e.Name() == m.Index.Name || m.Seek != nil && e.Name() == m.Seek.Name
		if isIndexPart(e.Name()) && !current {
			os.Remove(filepath.Join(x.dir, e.Name()))
		}
	}
}
