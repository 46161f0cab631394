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
// Objects are small and a request takes milliseconds, so that those of the next samples are asked for before their
// turn. The embedded folder says which they are.
type folderAway struct {
	folder
	ctx     context.Context
	cancel  context.CancelFunc
	below   string // the address
	storage remote.Storage
	found   map[string]remote.Entry // by their names below it
	asked   int64                   // files from the first on that were
	queue   []*ahead
	bytes   int64 // of those in it
}

// openFolderAway lists what lies below an address; nil, without an error, where that is no class folder, or where
// there is no list.
// One list for all objects: a request for each thousand names, and sizes and versions with them.
func openFolderAway(ctx context.Context, url string, allowEmpty bool, more []string, storage remote.Storage) (source, error) {
	base, _, _ := strings.Cut(url, "?")
	// A plain web server has no lists, and a pattern stands for containers.
	if strings.HasPrefix(url, "http") || strings.ContainsAny(base, "*{[") {
		return nil, nil
	}
	below := strings.TrimSuffix(url, "/")
	entries, err := remote.List(ctx, below+"/", storage)
	if err != nil {
		return nil, nil // an object may be read where no list may be; else what is asked next says why not
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
		// Beside an index of the folder lies what it is of, as on disk; of other datasets others say what becomes.
		if kind, err := catalog.KindAt(ctx, url, storage); err != nil || kind != catalog.Indexed.String() {
			return nil, err
		}
	}
	// The names are sorted and made classes as on disk, so that one folder has one order in both places.
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

// next is called under the flow's lock. It sends requests, and the worker that gets the item waits for the answer.
func (f *folderAway) next(it *item) (bool, error) {
	if more, err := f.folder.next(it); !more || err != nil {
		return more, err
	}
	// At least one, however large: or the next file would never be asked for.
	for f.asked < f.list.Len() && len(f.queue) < filesAhead && (len(f.queue) == 0 || f.bytes < bytesAhead) {
		a, err := f.ask(f.asked)
		if err != nil {
			return false, err
		}
		f.asked++
		f.queue, f.bytes = append(f.queue, a), f.bytes+int64(len(a.data))
	}
	// The first in the queue is that of this sample, for files are asked for in order.
	it.away = f.queue[0]
	f.queue, f.bytes = f.queue[1:], f.bytes-int64(len(it.away.data))
	return true, nil
}

// ask sends the request for a file, pinned to the version that was listed.
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
		return nil, a.err // of this machine, so it ends the job
	}
	return a, nil
}

// close ends what is under way, and waits for it.
func (f *folderAway) close() {
	f.cancel()
	for _, a := range f.queue {
		a.wait()
	}
}

// describe says in a manifest where the files are.
// An index of a folder in a store has the folder's address, and keys below it.
func (f *folderAway) describe(m *catalog.Manifest) { m.Below(f.list.Root) }

// readTogether bytes are asked for at once of what is read from its beginning to its end.
const readTogether = 8 << 20

// sequential reads bytes of what lies in a store, from the first to the last.
// bufio asks for as much as fits its buffer, so that few requests are made.
func sequential(from io.ReaderAt, offset, length int64) io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(from, offset, length), readTogether)
}

// readAway takes a file that was asked for.
// The bytes are the record's then: nobody else has them.
func (in *inspector) readAway(r *record, wait func(int64)) error {
	a := r.away
	r.length = a.size
	if r.length > maxRecordBytes {
		return recordError(r, fault.KindLimit, fault.Differs("the object is too large", fmt.Sprintf("at most %d bytes", int64(maxRecordBytes)), r.length), nil)
	}
	wait(r.length)
	a.wait()
	// Of such an object only the checksum is taken, in pieces.
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
