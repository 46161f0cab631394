package catalog

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

const (
	// MaxIndexBytes bounds an index that is held in memory: that of 100 million samples and more.
	MaxIndexBytes = 16 << 30
	// An index is fetched in pieces, several at once, because one connection seldom fills a link.
	indexPiece  = 8 << 20
	indexPieces = 8
)

// openURL opens a dataset that lies in a store, with its manifest and index. Both are fetched whole, the index through
// a cache if there is one. Seek points stay in the store: without a cache, fetching them costs more than they save, and
// with a cache a loader fetches them after its first batch.
func openURL(url string, o Options) (*Dataset, error) {
	url, o.Root = remote.Normal(url), remote.Normal(o.Root)
	shown := remote.Display(url)
	if o.IndexDir != "" {
		return nil, NewError(fault.KindArgument, shown, "index_dir is for folders; the index of a dataset in a store lies beside its shards")
	}
	if o.Root != "" && !remote.IsURL(o.Root) {
		return nil, NewError(fault.KindArgument, shown, "%s", fault.Argument("root", o.Root, "an address, as the dataset has one"))
	}
	// No object is looked up whose name has wildcards. A store does not know wildcards, and would report that there is
	// no such object.
	if base, _, _ := strings.Cut(url, "?"); strings.ContainsAny(path.Base(base), "*{}") {
		return nil, noIndexAt(strings.NewReplacer("%7B", "{", "%7D", "}").Replace(shown)) // for the command
	}
	var d *Dataset
	var took opening
	var err error
	for range 3 { // openIndexed gives the reason
		var m *Manifest
		if m, err = fetchManifest(o.waits(), url, o.Storage, &took); err != nil {
			return nil, err
		}
		if d, err = openAway(url, m, o, took); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return d, OutOfStore(err)
}

// noIndexAt returns the error that says how to make an index, because what lies in a store is not listed whenever it is
// opened.
func noIndexAt(shown string) error {
	of := "containers or a folder of images"
	if strings.HasPrefix(shown, "http") { // a web server lists no folders
		of = "containers"
	}
	return NewError(fault.KindUnsupported, shown, "there is no %s below it, and without its index a dataset in a store is not read; "+
		"of %s make one with: headrace index \"%s\" --out INDEX; of images on a disk make a dataset with: headrace pack FOLDER %s", ManifestName, of, shown, shown)
}

func fetchManifest(ctx context.Context, url string, storage remote.Storage, took *opening) (*Manifest, error) {
	began := time.Now()
	at, err := remote.Join(url, ManifestName)
	if err != nil {
		return nil, OutOfStore(err)
	}
	object, err := remote.Open(ctx, at, storage)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, remote.ErrNoBucket) {
		return nil, noIndexAt(remote.Display(url))
	}
	if err != nil {
		return nil, OutOfStore(err)
	}
	defer object.Close()
	if object.Size() > maxManifestBytes {
		return nil, NewError(fault.KindLimit, object.URL(), "the manifest has %d bytes, the limit is %d", object.Size(), maxManifestBytes)
	}
	// This counts the text and what is made of it: for JSON, three times its length.
	if short := headroom.Memory(4 * object.Size()); short != nil {
		return nil, short
	}
	text := make([]byte, object.Size())
	defer func() { took.add(object, time.Since(began)) }()
	var m *Manifest
	for range 2 { // once more if the bytes that came are not the store's
		if err := object.ReadAt(ctx, text, 0); err != nil {
			return nil, OutOfStore(err)
		}
		if m, err = DecodeManifest(object.URL(), text); err == nil {
			return m, nil
		}
	}
	return nil, err
}

// IndexedAt is true for an address below which there is a manifest.
func IndexedAt(ctx context.Context, url string, storage remote.Storage) (bool, error) {
	at, err := remote.Join(url, ManifestName)
	if err != nil {
		return false, OutOfStore(err)
	}
	// A bucket that does not exist is an error here, because a later request would say less clearly what is wrong.
	_, err = remote.Open(ctx, at, storage)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, remote.ErrNoBucket) {
		return false, nil
	}
	return err == nil, OutOfStore(err)
}

// KindAt returns the kind of the dataset whose manifest lies below an address.
func KindAt(ctx context.Context, url string, storage remote.Storage) (string, error) {
	m, err := fetchManifest(ctx, url, storage, new(opening))
	if err != nil {
		return "", err
	}
	return m.Kind, nil
}

// FromTableAway makes a dataset of what a scan of containers in a store found. Names are below an address, which may
// have a query.
func FromTableAway(t *Table, below string, storage remote.Storage) (*Dataset, error) {
	d, err := FromTable(t)
	if err != nil {
		return nil, err
	}
	d.away = newAway(below, storage, t.Shards, true)
	return d, nil
}

// newAway describes where shards or containers lie. If pinned, their versions have to be those that were indexed.
func newAway(below string, storage remote.Storage, shards []ShardInfo, pinned bool) *away {
	place := &away{below: below, storage: storage, shards: make([]Shard, len(shards))}
	for n, shard := range shards {
		place.shards[n] = Shard{away: place, name: shard.Name, size: shard.Size, opening: make(chan struct{}, 1)}
		if pinned {
			place.shards[n].version = shard.Version
		}
	}
	return place
}

// openAway opens the index that a fetched manifest names.
func openAway(url string, m *Manifest, o Options, took opening) (*Dataset, error) {
	shown := remote.Display(url)
	place := newAway(url, o.Storage, m.Shards, false)
	switch {
	case o.Root != "" && m.Kind != Contained.String():
		return nil, NewError(fault.KindArgument, shown, "root is for an index of containers, this dataset is %s", m.Kind)
	case o.Root != "":
		place.below = o.Root
	// Versions are those of the indexed objects, so they apply only if these objects are read.
	case m.Kind == Contained.String() && string(m.Root) == strings.TrimSuffix(shown, "/"):
		place = newAway(url, o.Storage, m.Shards, true) // indexed in place; the index was copied to them
	case m.Kind == Contained.String() && m.Root != ".":
		// A fetched index must not decide what else is read, in this store or on this machine.
		return nil, NewError(fault.KindArgument, shown, "its containers are in %.200q, which is not below its own address; root= says where they are", string(m.Root))
	}
	if m.Seek != nil {
		place.seek = &Shard{away: place, name: m.Seek.Name, size: m.Seek.Size, opening: make(chan struct{}, 1)}
	}
	place.index = took
	x, err := place.fetchIndex(url, m, o)
	if err != nil {
		return nil, err
	}
	d := &Dataset{path: shown, root: remote.Display(place.below), away: place, kind: x.kind, rows: m.Rows, info: m, index: x, classes: m.Classes}
	d.fingerprint = func() string { return m.Fingerprint }
	d.refs.Store(1)
	return d, nil
}

func (a *away) fetchIndex(url string, m *Manifest, o Options) (*index, error) {
	at, err := remote.Join(url, m.Index.Name)
	if err != nil {
		return nil, err
	}
	shown := remote.Display(at)
	if m.Index.Size > MaxIndexBytes {
		return nil, NewError(fault.KindLimit, shown, "the index has %d bytes, the limit is %d", m.Index.Size, int64(MaxIndexBytes))
	}
	if short := headroom.Memory(m.Index.Size); short != nil {
		return nil, short
	}
	// The index's checksums are in the manifest, so no version has to be asked for.
	object, err := remote.OpenKnown(at, m.Index.Size, "", a.storage)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	bytes, err := mmap.MakeIndex(shown, m.Index.Size, func(to []byte) error {
		began := time.Now()
		defer func() {
			a.index.add(object, time.Since(began))
			a.index.indexBytes = object.Counts().Bytes
		}()
		kept := keepIndex(object, m, o)
		if kept == nil {
			// It is read once more if the bytes that came are not the store's, as records are.
			if err := readPieces(o.waits(), to, object.ReadAt); err != nil || m.sound(to) {
				return err
			}
			return readPieces(o.waits(), to, object.ReadAt)
		}
		defer kept.user.Leave()
		defer func() { a.index.hits = kept.user.Stats().Hits }()
		return kept.read(o.waits(), to)
	})
	if err != nil {
		return nil, err
	}
	x, err := newIndex(shown, m, bytes)
	if err != nil {
		bytes.Close()
		return nil, err
	}
	return x, nil
}

// readPieces reads a whole object.
func readPieces(ctx context.Context, to []byte, read func(ctx context.Context, to []byte, at int64) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	piece := func(at int64) (err error) {
		defer fault.Recover(&err)
		return read(ctx, to[at:min(at+indexPiece, int64(len(to)))], at)
	}
	var readers sync.WaitGroup
	var next atomic.Int64
	for range min(indexPieces, len(to)/indexPiece+1) {
		readers.Go(func() {
			// Each goroutine takes the next piece that nobody has taken, so a slow request delays only one of them.
			for at := next.Add(indexPiece) - indexPiece; at < int64(len(to)) && ctx.Err() == nil; at = next.Add(indexPiece) - indexPiece {
				if err := piece(at); err != nil {
					cancel(err) // the first error is the cause; the others follow from it
				}
			}
		})
	}
	readers.Wait()
	return context.Cause(ctx)
}

// OutOfStore turns an error of package remote into the form that all errors of a dataset have.
func OutOfStore(err error) error {
	var e *remote.Error
	if !errors.As(err, &e) {
		return err
	}
	place := e.FaultPlace()
	out := &Error{Kind: e.Kind, File: place.File, Record: -1, Offset: place.Offset, Text: e.Text}
	if errors.Is(err, fs.ErrNotExist) {
		out.Err = syscall.ENOENT // makes it a missing file for every caller
	}
	return out
}
