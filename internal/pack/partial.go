package pack

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// partial is a directory that is being written. It lies beside the destination, so that one rename makes it visible,
// and has a lock that ends with the process.
// The name is random, so that runs with one destination do not meet. The lock distinguishes a run at work from a dead
// one.
type partial struct {
	destination string
	dir         string
	lock        *os.File
	overwrite   bool
}

// partialMark follows the destination's own name, so that a run removes only what is left of that destination.
const partialMark = ".headrace-partial-"

// newPartial checks the destination, removes what dead runs left, and makes the directory.
// It tries a hundred names. One fails if another run takes the new directory for a dead run's at that moment.
func newPartial(destination string, overwrite bool) (*partial, error) {
	destination = filepath.Clean(destination)
	p := &partial{destination: destination, overwrite: overwrite}
	if err := p.checkDestination(); err != nil {
		return nil, err
	}
	// It is a sibling, because rename(2) does not cross file systems. It is hidden, because a half-written dataset does
	// not concern those who list the directory.
	parent, base := filepath.Split(destination)
	prefix := filepath.Join(parent, "."+base+partialMark)
	removeDead(prefix)
	for range 100 {
		var random [6]byte
		rand.Read(random[:])
		p.dir = prefix + hex.EncodeToString(random[:])
		// The error names the user's path and not the hidden one.
		if err := os.Mkdir(p.dir, 0o755); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, catalog.IOError(filepath.Dir(destination), "the destination's folder is not there", err)
			}
			return nil, catalog.IOError(p.dir, "cannot create a directory beside the destination", err)
		}
		var err error
		if p.lock, err = lockDirectory(p.dir); err == nil {
			return p, nil
		}
		// Another run found the directory before it was locked and took it for dead, so a new name is tried.
		os.Remove(p.dir)
	}
	return nil, catalog.NewError(fault.KindIO, p.dir, "cannot lock a new directory")
}

// checkDestination refuses before any work what publish would have to refuse after it.
// It uses Lstat, because a link is a name that somebody gave, and a rename over it would not reach its target.
func (p *partial) checkDestination() error {
	info, err := os.Lstat(p.destination)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return catalog.NewError(fault.KindArgument, p.destination, "a folder above the destination is the file %s; give another place, or move the file away", inTheWay(p.destination))
	case err != nil:
		return catalog.IOError(p.destination, "cannot look at the destination", err)
	case !p.overwrite:
		return catalog.NewError(fault.KindArgument, p.destination, "the destination exists; overwrite (--overwrite) replaces a packed dataset")
	case !info.IsDir():
		return catalog.NewError(fault.KindArgument, p.destination, "the destination is no directory, so it is not overwritten")
	}
	// Overwriting removes a directory, so it must hold nothing that somebody else put there.
	entries, err := os.ReadDir(p.destination)
	if err != nil {
		return catalog.IOError(p.destination, "cannot list the destination", err)
	}
	for _, e := range entries {
		// Only the link itself would be removed, but whoever made it had a purpose.
		if !e.Type().IsRegular() || !ownName(e.Name()) {
			return catalog.NewError(fault.KindArgument, p.destination, "the destination holds %q, which is no part of a packed dataset, so it is not overwritten", e.Name())
		}
	}
	return nil
}

// ownName says whether packing makes files of that name.
// It uses the name alone, so another program's file of such a name counts as ours.
func ownName(name string) bool {
	return name == catalog.ManifestName ||
		isIndexPart(name) ||
		strings.HasPrefix(name, "shard-") && strings.HasSuffix(name, ".tar")
}

// isIndexPart says whether a file is an index or its seek points, by its name.
func isIndexPart(name string) bool {
	return strings.HasPrefix(name, "headrace-index-") && strings.HasSuffix(name, ".arrow") ||
		strings.HasPrefix(name, "headrace-seek-") && strings.HasSuffix(name, ".bin")
}

// lockDirectory locks a directory without waiting, and makes sure that the name still stands for the directory that was
// locked. If the file system has no locks (as some network file systems), the name is all that protects it.
func lockDirectory(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	// flock's lock belongs to the open file: it ends with the process, and it also separates two runs in one process.
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOLCK) {
		var held, named os.FileInfo
		if held, err = f.Stat(); err == nil {
			named, err = os.Lstat(dir)
		}
		if err == nil && os.SameFile(held, named) {
			return f, nil
		}
		if err == nil {
			err = fs.ErrNotExist
		}
	}
	f.Close()
	return nil, err
}

// removeDead removes directories of earlier runs whose lock is free, because their processes have ended. Without locks
// it removes nothing, because dead runs cannot be distinguished from living ones.
// A directory that was just made and is not locked yet looks dead as well; its maker then tries again (newPartial).
func removeDead(prefix string) {
	// Glob fails only on a malformed pattern, and this one is escaped.
	dirs, _ := filepath.Glob(escapeGlob(prefix) + "*")
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

// escapeGlob makes sure that a destination named "[old]" does not match other directories, because what matches is
// removed.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// publish makes the directory visible under its name. All files in it were synced before. After an error it is not
// visible, so that abandon removes it.
// The order is sync, rename, sync, because a name must not be on the disk before what it names.
func (p *partial) publish() (warning string, err error) {
	if err := p.syncWhole(p.lock, p.dir); err != nil {
		return "", err
	}
	// The folder is opened before the rename, because the process may have too many files open. A user who may write to a
	// folder need not be allowed to read it.
	folder := filepath.Dir(p.destination)
	parent, err := os.Open(folder)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return "", catalog.IOError(folder, "cannot open the destination's folder to sync it", err)
	}
	if err == nil {
		defer parent.Close()
	}
	old, err := p.rename()
	if err != nil {
		return "", err
	}
	if err := p.syncWhole(parent, folder); err != nil {
		if e := p.takeBack(old); e != nil {
			return "", catalog.IOError(p.destination, "the folder cannot be synced, "+
				"and the dataset, which is in its place, not taken away again"+p.keep(old), e)
		}
		return "", err
	}
	// The old dataset is removed only now: if the machine stops before the new name is on the disk, the old dataset is
	// found.
	if old != "" {
		os.RemoveAll(old)
	}
	p.lock.Close()
	return "", nil
}

// syncWhole syncs an open directory. If the directory could not be opened (f is nil), it syncs the whole file system.
// syncfs(2) then writes more than needed, but what is needed is among it.
func (p *partial) syncWhole(f *os.File, dir string) error {
	err := error(nil)
	if f != nil {
		err = f.Sync()
	} else {
		err = unix.Syncfs(int(p.lock.Fd()))
	}
	return syncError(dir, err)
}

// takeBack undoes rename. What rename replaced has the name old.
// It is called right after the rename, when nobody can rely on it yet.
func (p *partial) takeBack(old string) error {
	if old == p.dir {
		return unix.Renameat2(unix.AT_FDCWD, p.dir, unix.AT_FDCWD, p.destination, unix.RENAME_EXCHANGE)
	}
	err := os.Rename(p.destination, p.dir)
	if err == nil && old != "" {
		err = os.Rename(old, p.destination)
	}
	return err
}

// keep keeps the old dataset, whose name is old, after takeBack failed, and returns a clause that says where it is. The
// new dataset may vanish when the machine stops, so the old one must not be removed.
func (p *partial) keep(old string) string {
	if old == "" {
		return ""
	}
	if old == p.dir {
		p.dir = "" // what has this name is not abandon's to remove any more
		// The next run would remove it by its present name (removeDead).
		if apart := p.apart(old); os.Rename(old, apart) == nil {
			old = apart
		}
	}
	return "; the old one is " + old
}

// apart returns the name that an old dataset gets so that removeDead does not know it. dir has the random end of it.
func (p *partial) apart(dir string) string {
	return p.destination + ".old-" + dir[strings.LastIndexByte(dir, '-')+1:]
}

// rename makes the dataset visible. It never replaces anything without being asked, not even what another run put there
// meanwhile. An old dataset then has another name.
// RENAME_NOREPLACE and RENAME_EXCHANGE are Linux's (renameat2(2)); not every file system has them.
func (p *partial) rename() (old string, err error) {
	err = unix.Renameat2(unix.AT_FDCWD, p.dir, unix.AT_FDCWD, p.destination, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// The file system knows no flags. rename(2) itself refuses to replace a directory that is not empty.
		err = os.Rename(p.dir, p.destination)
	}
	if err == nil {
		return "", nil
	}
	if !p.overwrite {
		return "", catalog.IOError(p.destination, "cannot put the finished dataset in its place", err)
	}
	if err := p.checkDestination(); err != nil { // hours have passed, and it may have changed
		return "", err
	}
	// This is one step, so whoever opens the dataset at that moment finds either the old or the new one.
	err = unix.Renameat2(unix.AT_FDCWD, p.dir, unix.AT_FDCWD, p.destination, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return p.replaceInTwoSteps()
	}
	if err != nil {
		return "", catalog.IOError(p.destination, "cannot replace the dataset", err)
	}
	// If this run is killed before it removes the old dataset, the next run does.
	return p.dir, nil
}

// replaceInTwoSteps serves file systems that cannot exchange: for a moment nothing is at the destination. The old
// dataset gets a name that removeDead does not know, because a run that is killed at that moment leaves it as the only
// one.
// It keeps that name until the new one is in place and synced, which publish does.
func (p *partial) replaceInTwoSteps() (old string, err error) {
	old = p.apart(p.dir)
	if err := os.Rename(p.destination, old); err != nil {
		return "", catalog.IOError(p.destination, "cannot move the old dataset away", err)
	}
	if err := os.Rename(p.dir, p.destination); err != nil {
		if e := os.Rename(old, p.destination); e != nil {
			return "", catalog.IOError(p.destination, "cannot put the finished dataset in its place; the old one is "+old, err)
		}
		return "", catalog.IOError(p.destination, "cannot put the finished dataset in its place", err)
	}
	return old, nil
}

// abandon removes everything that was written. The lock is released last, so that nobody takes the directory for dead
// before that.
func (p *partial) abandon() string {
	if p.dir != "" { // otherwise it holds an old dataset (keep)
		os.RemoveAll(p.dir)
	}
	p.lock.Close()
	return ""
}

// syncError makes the error of syncing a directory, which makes names durable: a file that was synced can still lose
// its name when the machine stops (fsync(2), "Calling fsync() does not necessarily ensure that the entry in the
// directory containing the file has also reached disk").
func syncError(dir string, err error) error {
	if err != nil && !errors.Is(err, unix.EINVAL) { // some file systems cannot sync directories
		return catalog.IOError(dir, "cannot sync the directory", err)
	}
	return nil
}

// encodeManifest returns the bytes of a manifest that readers accept: no dataset is better than one that does not open.
// It reads the whole manifest again, so that limits that only the reader has are noticed before anything is visible.
func encodeManifest(m *catalog.Manifest, destination string) ([]byte, error) {
	data, err := m.Encode()
	if err != nil {
		return nil, catalog.NewError(fault.KindLimit, destination, "the manifest: %v", err)
	}
	if _, err := catalog.DecodeManifest(destination, data); err != nil {
		return nil, err
	}
	return data, nil
}

// writeFile writes and syncs a small file.
// It replaces no file (O_EXCL): an existing one is somebody else's.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return catalog.IOError(path, "cannot create", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return catalog.IOError(path, "cannot write", err)
	}
	return nil
}
