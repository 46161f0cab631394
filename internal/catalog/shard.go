package catalog

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/remote"
)

// away says where in a store the shards, containers or files of a dataset lie, and holds the shards that were opened.
type away struct {
	below   string // the address where names begin; it may have a query, so no text shows it
	storage remote.Storage
	shards  []Shard

	seek  *Shard  // the file of seek points; nil if there is none
	index opening // the costs of fetching manifest and index

	mu     sync.Mutex
	files  remote.Counts // counts of objects that were opened for one read
	flying int           // reads under way
	since  time.Time     // when the first of them began
	took   time.Duration // total time with a read under way before that
}

// Shard is a shard or container in a store. It is opened at its first read. As long as the dataset is open it stays the
// version that was found then, or that was indexed.
type Shard struct {
	away    *away
	name    string
	size    int64  // as the manifest states it
	version string // the same, for a container that was indexed in the store; otherwise ""
	opening chan struct{}
	object  atomic.Pointer[remote.Object]
}

// Away is true if shards or files of the dataset, or of a part of it, lie in a store.
func (d *Dataset) Away() bool {
	for _, part := range d.Parts() {
		if part.Away() {
			return true
		}
	}
	return d.away != nil
}

// opening is what it took to open a dataset.
type opening struct {
	remote.Counts               // of the manifest, and of the index
	indexBytes    int64         // the index's share of Bytes
	hits          int64         // parts of the index that came from the cache on disk
	took          time.Duration // time in which anything was under way
}

// add counts an object that was read whole, and the time that it took.
func (o *opening) add(object *remote.Object, took time.Duration) {
	o.Counts, o.took = added(o.Counts, object.Counts()), o.took+took
}

// Shard returns shard or container n; nil if it is a file on disk.
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

// Fetched is what was read of shards and files in stores, how long anything was under way, and what was read of indexes
// and seek points, which is not included in the first.
type Fetched struct {
	remote.Counts
	Busy       time.Duration
	IndexBytes int64
	SeekBytes  int64
	opening    opening
}

// InAll returns everything that was fetched, including for opening the dataset. It also returns the bytes a second
// while anything was under way, and how many parts of the index came from the cache on disk.
func (f Fetched) InAll() (counts remote.Counts, rate float64, hits int64) {
	counts = added(f.Counts, f.opening.Counts)
	counts.Bytes += f.SeekBytes
	if busy := f.Busy + f.opening.took; busy > 0 {
		rate = float64(counts.Bytes) / busy.Seconds()
	}
	return counts, rate, f.opening.hits
}

// Rate returns how many bytes a second came while anything was under way.
func (f Fetched) Rate() float64 {
	if f.Busy <= 0 {
		return 0
	}
	return float64(f.Bytes+f.SeekBytes) / f.Busy.Seconds()
}

// Fetched returns the counts; it may be called at any time.
func (d *Dataset) Fetched() Fetched {
	var sum Fetched
	for _, part := range d.Parts() {
		one := part.Fetched()
		// Parts are read at the same time, so the longest time counts.
		sum.Counts, sum.Busy = added(sum.Counts, one.Counts), max(sum.Busy, one.Busy)
		sum.IndexBytes, sum.SeekBytes = sum.IndexBytes+one.IndexBytes, sum.SeekBytes+one.SeekBytes
		// They were opened one after the other, so times add up.
		sum.opening.Counts = added(sum.opening.Counts, one.opening.Counts)
		sum.opening.hits, sum.opening.took = sum.opening.hits+one.opening.hits, sum.opening.took+one.opening.took
	}
	if d.away == nil {
		return sum
	}
	a := d.away
	for n := range a.shards {
		if object := a.shards[n].object.Load(); object != nil {
			sum.Counts = added(sum.Counts, object.Counts())
		}
	}
	sum.IndexBytes += a.index.indexBytes
	sum.opening = a.index
	if a.seek != nil {
		if object := a.seek.object.Load(); object != nil {
			sum.SeekBytes += object.Counts().Bytes
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sum.Counts, sum.Busy = added(sum.Counts, a.files), a.took
	if a.flying > 0 {
		sum.Busy += time.Since(a.since)
	}
	return sum
}

// busy notes that a read is under way until done is called.
func (a *away) busy() (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flying++; a.flying == 1 {
		a.since = time.Now()
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.flying--; a.flying == 0 {
			a.took += time.Since(a.since)
		}
	}
}

// SeekAway returns the file of seek points of a dataset in a store; nil if there is none.
func (d *Dataset) SeekAway() *Shard {
	if d.away == nil {
		return nil
	}
	return d.away.seek
}

func added(a, b remote.Counts) remote.Counts {
	return remote.Counts{Requests: a.Requests + b.Requests, Bytes: a.Bytes + b.Bytes, Retries: a.Retries + b.Retries,
		Hedges: a.Hedges + b.Hedges, Waited: a.Waited + b.Waited}
}

// shown returns the address of a name for texts.
func (a *away) shown(name string) string {
	return strings.TrimSuffix(remote.Display(a.below), "/") + "/" + name
}

// Size returns the bytes, as the manifest states them.
func (s *Shard) Size() int64 { return s.size }

// Identity names store, object and version; it is "" if nothing tells versions apart.
func (s *Shard) Identity(ctx context.Context) (string, error) {
	object := s.object.Load()
	if object == nil {
		var err error
		if object, err = s.open(ctx); err != nil {
			return "", OutOfStore(err)
		}
	}
	return s.identity(object), nil
}

// Known returns the Identity of an object that is already open; "" for others.
func (s *Shard) Known() string {
	if object := s.object.Load(); object != nil {
		return s.identity(object)
	}
	return ""
}

func (s *Shard) identity(object *remote.Object) string {
	if object.Version() == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %s", object.Key(), s.size, object.Version())
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
	defer s.away.busy()()
	return OutOfStore(object.ReadAt(ctx, to, offset))
}

// Beside returns another object in the shard's folder, whole, and its address for texts.
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

// open asks for size and version, once for all callers that wait.
func (s *Shard) open(ctx context.Context) (*remote.Object, error) {
	select {
	// This lock can be given up while waiting, because the first opening may wait a minute for a store.
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
	// Size and version are known, so nothing is asked for: the first read has the version as its condition.
	if s.version != "" {
		object, err = remote.OpenKnown(url, s.size, s.version, s.away.storage)
	} else {
		object, err = remote.Open(ctx, url, s.away.storage)
	}
	if err != nil {
		return nil, err
	}
	// The index gives offsets in an object of that size; in another object records lie elsewhere.
	if object.Size() != s.size {
		return nil, sizeError(object.URL(), "the shard", s.size, object.Size())
	}
	s.object.Store(object)
	return object, nil
}

// FileAway is a file of an image folder in a store.
type FileAway struct {
	away   *away
	object *remote.Object
	crc    uint32
	hasCRC bool
}

// FileAway returns the file of a sample of an image folder in a store. Its version is not known, so what is read has to
// have the length and the checksum of the index.
func (d *Dataset) FileAway(sample Sample) (*FileAway, error) {
	if d.parts != nil {
		n, row := d.parts.of(sample.Index)
		sample.Index = row
		return d.parts.list[n].FileAway(sample)
	}
	name, err := d.index.path(sample.Index)
	if err != nil {
		return nil, err
	}
	url, err := remote.Join(d.away.below, name)
	if err != nil {
		return nil, OutOfStore(err)
	}
	object, err := remote.OpenKnown(url, sample.Length, "", d.away.storage)
	if err != nil {
		return nil, OutOfStore(err)
	}
	return &FileAway{d.away, object, sample.CRC32C, sample.HasCRC}, nil
}

// Identity names store, object, length and checksum; the latter two stand for the version.
func (f *FileAway) Identity(context.Context) (string, error) {
	if !f.hasCRC {
		return "", nil
	}
	return fmt.Sprintf("%s %d crc32c %08x", f.object.Key(), f.object.Size(), f.crc), nil
}

// ReadAt fills to with the bytes from offset on. It is called once.
func (f *FileAway) ReadAt(ctx context.Context, to []byte, offset int64) error {
	defer f.away.busy()()
	err := f.object.ReadAt(ctx, to, offset)
	f.away.mu.Lock()
	f.away.files = added(f.away.files, f.object.Counts())
	f.away.mu.Unlock()
	return OutOfStore(err)
}
