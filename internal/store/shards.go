package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
	"golang.org/x/sys/unix"
)

// mostOpen limits open shards: each takes a descriptor and a mapping. A thousand shards of the usual 256 MB are 256 GB,
// so with most datasets none is ever closed.
const mostOpen = 1000

// shards are the shards of a packed dataset, open or not.
type shards struct {
	list    []shard
	options mmap.Options
	salvage bool // a truncated shard is read as far as it goes
	dataset *catalog.Dataset
	most    int

	mutex  sync.Mutex // guards opening and closing, never reading
	count  int        // how many are open
	hand   int        // of the clock algorithm that chooses what to close
	closed atomic.Bool
}

type shard struct {
	path string
	size int64              // by the manifest
	info *catalog.ShardInfo // of another program's container, otherwise nil
	away *catalog.Shard     // if it lies in a store of objects, otherwise nil
	file atomic.Pointer[mmap.File]
	used atomic.Bool // it was used since the clock's hand last passed it
}

func newShards(d *catalog.Dataset, o Options) *shards {
	infos := d.Shards()
	s := &shards{list: make([]shard, len(infos)), options: o.Options, salvage: o.Salvage, most: descriptors(), dataset: d}
	for i := range infos {
		s.list[i].path, s.list[i].size, s.list[i].away = d.ShardPath(i), infos[i].Size, d.Shard(i)
		if infos[i].Ends != "" {
			s.list[i].info = &infos[i]
		}
	}
	return s
}

// descriptors is how many shards may be open: a quarter of the process's limit, because there are other loaders and the
// program itself.
func descriptors() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return mostOpen
	}
	return int(max(4, min(mostOpen, limit.Cur/4)))
}

// open returns the shard of a sample. It opens the shard at its first use.
func (s *shards) open(sample catalog.Sample) (*mmap.File, error) {
	shard := &s.list[sample.Shard]
	if file := shard.file.Load(); file != nil {
		// The flag is written only when it changes, because all threads share its cache line.
		if !shard.used.Load() {
			shard.used.Store(true)
		}
		return file, nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if file := shard.file.Load(); file != nil {
		return file, nil
	}
	if s.closed.Load() {
		return nil, explain(mmap.ErrClosed, shard.path, sample.Index)
	}
	if s.count >= s.most {
		s.evict(1)
	}
	file, err := mmap.Open(shard.path, s.options)
	if err != nil && (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) && s.count > 0 {
		// The program has used up the descriptors, so we go on with half of ours.
		s.evict((s.count + 1) / 2)
		file, err = mmap.Open(shard.path, s.options)
	}
	if err != nil {
		failed := explain(err, shard.path, sample.Index)
		s.dataset.SayIfMoved(failed, sample.Index)
		return nil, failed
	}
	err = s.check(shard, file.Size(), sample.Index)
	if err == nil && shard.info != nil {
		err = shard.info.Check(shard.path, sample.Index)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	shard.used.Store(true)
	shard.file.Store(file)
	s.count++
	return file, nil
}

// check compares a shard with the manifest, because an index of one shard must never be used for the bytes of another.
// The offset in the error is the first place where the two differ by their sizes: where a shorter file ends, and where
// a longer one should end.
func (s *shards) check(at *shard, found, record int64) error {
	e := &catalog.Error{File: at.path, Record: record, Offset: min(found, at.size)}
	switch {
	case found == at.size || found < at.size && s.salvage:
		return nil
	case found < at.size && at.info != nil:
		e.Kind, e.Text = fault.KindTruncated, sizes("the container is truncated or another one than was indexed, it ends here", at.size, found)+catalog.IndexAgain
	case found < at.size:
		e.Kind, e.Text = fault.KindTruncated, sizes("the shard is truncated, it ends here", at.size, found)
	case at.info != nil:
		e.Kind, e.Text = fault.KindBadFile, sizes("this is not the container that was indexed", at.size, found)+catalog.IndexAgain
	default:
		e.Kind, e.Text = fault.KindBadFile, sizes("this is not the shard that was packed", at.size, found)
	}
	// Sizes of shards are as good as random, so an equal size is no coincidence.
	for i := range s.list {
		if other := &s.list[i]; other != at && other.size == found {
			e.Text += "; this is the size of " + filepath.Base(other.path) + ", perhaps they were swapped"
			break
		}
	}
	return e
}

// cut returns an error for a sample that does not lie completely in a shard that is shorter than the manifest says.
func (s *shards) cut(sample catalog.Sample, file *mmap.File) error {
	shard, end := &s.list[sample.Shard], file.Size()
	// A sample that is outside the complete shard is the index's fault, and Read reports it.
	if end >= shard.size || sample.Offset < 0 || sample.Length < 0 ||
		sample.Offset > shard.size-sample.Stored() || sample.Offset <= end-sample.Stored() {
		return nil
	}
	// Reading what is left is safe, because the CRC-32C of each record would show if the bytes were wrong.
	where := "before the record, which begins at byte"
	if sample.Offset < end {
		where = "inside the record, which begins at byte"
	}
	return &catalog.Error{Kind: fault.KindTruncated, File: shard.path, Record: sample.Index, Offset: end,
		Text: sizes(fmt.Sprintf("the shard is truncated, it ends here, %s %d", where, sample.Offset), shard.size, end)}
}

// evict closes n shards that were not used lately (the clock algorithm); the caller holds the lock.
func (s *shards) evict(n int) {
	// The first round may only find that all were used. Readers go on using them, so the second may find the same. The
	// third closes any shard, so that no more are open than allowed.
	for steps := 3 * len(s.list); n > 0 && steps > 0; steps-- {
		shard := &s.list[s.hand]
		s.hand = (s.hand + 1) % len(s.list)
		spared := shard.used.Swap(false) && steps > len(s.list)
		if shard.file.Load() == nil || spared {
			continue
		}
		s.shut(shard)
		n--
	}
}

func (s *shards) shut(shard *shard) {
	if file := shard.file.Swap(nil); file != nil {
		s.count--
		file.Close() // the last reader's Buffer unmaps it; an error of close(2) does not matter for a file that was only read
	}
}

func (s *shards) isClosed() bool { return s.closed.Load() }

// close reports whether this was the first call.
func (s *shards) close() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed.Swap(true) {
		return false
	}
	for i := range s.list {
		s.shut(&s.list[i])
	}
	return true
}
