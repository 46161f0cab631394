package catalog

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/remote"
)

// away says where in a store the shards, containers or files of a dataset lie, and holds the shards that
// were opened.
type away struct {
	below   string // the address that names are below; it may have a query, so it is in no text
	storage remote.Storage
	shards  []Shard

	mu    sync.Mutex
	files remote.Counts // of objects that were opened for one read
}

// Shard is a shard or container in a store. It is opened at its first read, and stays the version that
// was found then, or that was indexed, for as long as the dataset is open.
type Shard struct {
	away    *away
	name    string
	size    int64  // as the manifest states it
	version string // the same, of a container that was indexed where it lies; else ""
	opening chan struct{}
	object  atomic.Pointer[remote.Object]
}

// Away is true where shards or files of the dataset, or of a part of it, lie in a store.
func (d *Dataset) Away() bool {
	for _, part := range d.Parts() {
		if part.Away() {
			return true
		}
	}
	return d.away != nil
}

// Shard is shard or container n; nil where it is a file.
func (d *Dataset) Shard(n int) *Shard {
	if d.parts != nil {
		part, number := d.parts.shard(n)
		return part.Shard(number)
	}
	if d.away == nil {
		return nil
	}
	return &d.away.shards[n]
}

// Fetched is what was read of shards and files in stores; the manifest and the index are not in it.
func (d *Dataset) Fetched() remote.Counts {
	var sum remote.Counts
	for _, part := range d.Parts() {
		sum = added(sum, part.Fetched())
	}
	if d.away == nil {
		return sum
	}
	for n := range d.away.shards {
		if object := d.away.shards[n].object.Load(); object != nil {
			sum = added(sum, object.Counts())
		}
	}
	d.away.mu.Lock()
	defer d.away.mu.Unlock()
	return added(sum, d.away.files)
}

func added(a, b remote.Counts) remote.Counts {
	return remote.Counts{Requests: a.Requests + b.Requests, Bytes: a.Bytes + b.Bytes, Retries: a.Retries + b.Retries,
		Hedges: a.Hedges + b.Hedges, Waited: a.Waited + b.Waited}
}

// shown is the address of a name for texts.
func (a *away) shown(name string) string {
	return strings.TrimSuffix(remote.Display(a.below), "/") + "/" + name
}

// Size is in bytes, as the manifest states it.
func (s *Shard) Size() int64 { return s.size }

// Identity names store, object and version; empty where nothing tells versions apart.
func (s *Shard) Identity(ctx context.Context) (string, error) {
	object := s.object.Load()
	if object == nil {
		var err error
		if object, err = s.open(ctx); err != nil {
			return "", OutOfStore(err)
		}
	}
	if object.Version() == "" {
		return "", nil
	}
	return fmt.Sprintf("%s %d %s", object.Key(), s.size, object.Version()), nil
}

// ReadAt fills to with the bytes from offset on. Its errors are those of a dataset, without a record.
func (s *Shard) ReadAt(ctx context.Context, to []byte, offset int64) error {
	object := s.object.Load()
	if object == nil {
		var err error
		if object, err = s.open(ctx); err != nil {
			return OutOfStore(err)
		}
	}
	if offset < 0 || offset > s.size-int64(len(to)) {
		return &Error{Kind: fault.KindBadFile, File: object.URL(), Record: -1, Offset: offset,
			Text: fmt.Sprintf("a range of %d bytes lies outside the shard, which has %d", len(to), s.size)}
	}
	return OutOfStore(object.ReadAt(ctx, to, offset))
}

// Beside is another object in the shard's folder, whole, and its address for texts.
func (s *Shard) Beside(ctx context.Context, name string, most int64) (data []byte, shown string, err error) {
	name = path.Join(path.Dir(s.name), name)
	shown = s.away.shown(name)
	url, err := remote.Join(s.away.below, name)
	if err != nil {
		return nil, shown, OutOfStore(err)
	}
	object, err := remote.Open(ctx, url, s.away.storage)
	if err != nil {
		return nil, shown, OutOfStore(err)
	}
	defer object.Close()
	if object.Size() > most {
		return nil, shown, NewError(fault.KindLimit, shown, "the file has %d bytes, the limit is %d", object.Size(), most)
	}
	if short := headroom.Memory(object.Size()); short != nil {
		return nil, shown, short
	}
	data = make([]byte, object.Size())
	return data, shown, OutOfStore(object.ReadAt(ctx, data, 0))
}

// open asks for size and version, once for all who wait.
func (s *Shard) open(ctx context.Context) (*remote.Object, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, &Error{Kind: fault.KindClosed, File: s.away.shown(s.name), Record: -1, Offset: -1, Text: "the wait for it was ended"}
	}
	if object := s.object.Load(); object != nil {
		return object, nil
	}
	url, err := remote.Join(s.away.below, s.name)
	if err != nil {
		return nil, err
	}
	var object *remote.Object
	if s.version != "" {
		object, err = remote.OpenKnown(url, s.size, s.version, s.away.storage)
	} else {
		object, err = remote.Open(ctx, url, s.away.storage)
	}
	if err != nil {
		return nil, err
	}
	if object.Size() != s.size {
		return nil, sizeError(object.URL(), "the shard", s.size, object.Size())
	}
	s.object.Store(object)
	return object, nil
}

// ReadFile fills to with the file of sample i of an image folder in a store, which has that length. Nothing
// is known of its version: what is read has to have the checksum of the index.
func (d *Dataset) ReadFile(ctx context.Context, to []byte, i int64) error {
	if d.parts != nil {
		n, row := d.parts.of(i)
		return d.parts.list[n].ReadFile(ctx, to, row)
	}
	name, err := d.index.path(i)
	if err != nil {
		return err
	}
	url, err := remote.Join(d.away.below, name)
	if err != nil {
		return OutOfStore(err)
	}
	object, err := remote.OpenKnown(url, int64(len(to)), "", d.away.storage)
	if err != nil {
		return OutOfStore(err)
	}
	defer object.Close()
	err = object.ReadAt(ctx, to, 0)
	d.away.mu.Lock()
	d.away.files = added(d.away.files, object.Counts())
	d.away.mu.Unlock()
	return OutOfStore(err)
}

// readPlace reads a value.
func (s *Shard) readPlace(at Place) ([]byte, error) {
	if at.Offset < 0 || at.Length < 0 || at.Offset > s.size-at.Length {
		return nil, &Error{Kind: fault.KindBadFile, File: s.away.shown(s.name), Record: -1, Offset: at.Offset, Text: fmt.Sprintf("a value of %d bytes lies outside the container", at.Length)}
	}
	if short := headroom.Memory(at.Length); short != nil {
		return nil, short
	}
	data := make([]byte, at.Length)
	return data, s.ReadAt(context.Background(), data, at.Offset)
}
