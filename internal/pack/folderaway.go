package pack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/remote"
)

// folderAway is a class folder of single objects in a store.
// Objects are small and a request takes milliseconds, so those of the next samples are requested before they are
// needed.
// The embedded folder knows the objects.
type folderAway struct {
	folder
	ctx     context.Context
	cancel  context.CancelFunc
	below   string // the address
	storage remote.Storage
	found   map[string]remote.Entry // listed objects, by their names below the address
	asked   int64                   // number of files that were requested, from the first on
	queue   []*ahead
	bytes   int64 // total size of those in the queue
}

// openFolderAway lists the objects below an address. It returns nil, without an error, if they are no class folder or
// if there is no list.
// One list serves all objects: it takes a request for each thousand names, and has sizes and versions.
func openFolderAway(ctx context.Context, url string, allowEmpty bool, more []string, storage remote.Storage) (source, error) {
	base, _, _ := strings.Cut(url, "?")
	// A plain web server has no lists, and a pattern means containers.
	if strings.HasPrefix(url, "http") || strings.ContainsAny(base, "*{[") {
		return nil, nil
	}
	below := strings.TrimSuffix(url, "/")
	entries, err := remote.List(ctx, below+"/", storage)
	if err != nil {
		return nil, nil // objects may be readable without a list; otherwise the next request says why not
	}
	f := &folderAway{below: below, storage: storage, found: make(map[string]remote.Entry, len(entries))}
	names := make([]string, 0, len(entries))
	images, described := false, false
	for _, e := range entries {
		name := strings.TrimPrefix(e.URL, below+"/")
		// A packed dataset has such a file, too, and is no class folder.
		described = described || name == catalog.ManifestName
		names, f.found[name] = append(names, name), e
		images = images || strings.Contains(name, "/") && formats.IsImage(name, more)
	}
	if !images {
		return nil, nil
	}
	if described {
		// An index of the folder may lie beside its files, as on disk. Other datasets are not handled here.
		if kind, err := catalog.KindAt(ctx, url, storage); err != nil || kind != catalog.Indexed.String() {
			return nil, err
		}
	}
	// Sorting and classes are the same as on disk, so that a folder has one order in both places.
	if f.list, err = formats.ListNames(remote.Display(below), names, allowEmpty, more); err != nil {
		return nil, catalog.FormatError(remote.Display(below), err)
	}
	if err := f.checkKeys(); err != nil {
		return nil, err
	}
	if err := f.checkPaths(); err != nil {
		return nil, err
	}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f, nil
}

// next is called under the flow's lock. It sends requests; the worker that gets the item waits for the answer.
func (f *folderAway) next(it *item) (bool, error) {
	if more, err := f.folder.next(it); !more || err != nil {
		return more, err
	}
	// At least one file is requested, however large it is; otherwise the next one would never be.
	for f.asked < f.list.Len() && len(f.queue) < filesAhead && (len(f.queue) == 0 || f.bytes < bytesAhead) {
		a, err := f.ask(f.asked)
		if err != nil {
			return false, err
		}
		f.asked++
		f.queue, f.bytes = append(f.queue, a), f.bytes+int64(len(a.data))
	}
	// Files are requested in order, so the first in the queue is this sample's.
	it.away = f.queue[0]
	f.queue, f.bytes = f.queue[1:], f.bytes-int64(len(it.away.data))
	return true, nil
}

// ask requests a file, pinned to the version that was listed.
func (f *folderAway) ask(i int64) (*ahead, error) {
	name := f.list.Path(i)
	url, err := remote.Join(f.below, name)
	if err != nil {
		return nil, catalog.OutOfStore(err)
	}
	object, err := remote.OpenKnown(url, f.found[name].Size, f.found[name].Version, f.storage)
	if err != nil {
		return nil, catalog.OutOfStore(err)
	}
	a := askFor(f.ctx, object.Size(), func(to []byte, offset int64) error { return object.ReadAt(f.ctx, to, offset) })
	if a.done != nil && a.data == nil {
		return nil, a.err // a fault of this machine, so it ends the job
	}
	return a, nil
}

// close ends the requests that are under way, and waits for them.
func (f *folderAway) close() {
	f.cancel()
	for _, a := range f.queue {
		a.wait()
	}
}

// describe adds to a manifest where the files are.
// An index of a folder in a store has the folder's address, and keys below it.
func (f *folderAway) describe(m *catalog.Manifest) { m.Below(f.list.Root) }

// readTogether is how many bytes are requested at once if an object is read from beginning to end.
const readTogether = 8 << 20

// sequential reads bytes from a store, from the first to the last.
// bufio requests as much as fits its buffer, so there are few requests.
func sequential(from io.ReaderAt, offset, length int64) io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(from, offset, length), readTogether)
}

// readAway takes the bytes of a file that was requested.
// Nobody else has the bytes, so the record may own them.
func (in *inspector) readAway(r *record, wait func(int64)) error {
	a := r.away
	r.length = a.size
	if r.length > maxRecordBytes {
		return recordError(r, fault.KindLimit, fault.Differs("the object is too large", fmt.Sprintf("at most %d bytes", int64(maxRecordBytes)), r.length), nil)
	}
	wait(r.length)
	a.wait()
	// For such an object only the checksum is computed, in pieces.
	if uint64(r.length) > in.limits.MaxRecordBytes {
		return in.oversized(r, sequential(a, 0, r.length))
	}
	if a.done == nil {
		if short := headroom.Memory(r.length); short != nil {
			return recordError(r, fault.KindMemory, short.Error(), nil)
		}
		a.data = make([]byte, r.length)
		a.err = a.fetch(a.data, 0)
	}
	if a.err != nil {
		return awayError(r, a.err)
	}
	r.data = a.data
	return nil
}
