package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/mmap"
)

// Options of a Store.
type Options struct {
	mmap.Options
	MaxRecordBytes int64 // a record over it is refused before memory is asked for
	Blocks         blocks.Limits
	// Unverified compares no record with the checksum that its container has of it.
	Unverified bool
	// Salvage reads what a truncated shard still holds. Without it such a shard is an error at its
	// first sample, so that the user learns of the damage at once, not when the order happens to
	// come to a record that is gone.
	Salvage bool
}

// Store reads the samples of one dataset. Safe for any number of goroutines, each with a
// Buffer of its own.
type Store struct {
	dataset *catalog.Dataset
	options mmap.Options
	limit   int64 // Options.MaxRecordBytes
	checks  bool  // not Options.Unverified
	shards  *shards
	blocks  *blocks.Cache
	spare   spare
	waits   context.Context // of reads from stores of objects
	stop    context.CancelFunc
	left    sync.WaitGroup // reads of blocks that may go on when nobody waits for them
	kept    *parts.User    // what was read from stores of objects, on disk; nil: nothing is kept
}

// Open touches no shard: what is wrong with one is the error of the first sample that needs it.
func Open(d *catalog.Dataset, o Options) (*Store, error) {
	if o.MaxRecordBytes <= 0 {
		return nil, catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("max_record_bytes", o.MaxRecordBytes, "at least 1"))
	}
	d.Retain()
	waits, stop := context.WithCancel(context.Background())
	return &Store{waits: waits, stop: stop, dataset: d, options: o.Options, limit: o.MaxRecordBytes, checks: !o.Unverified,
		shards: newShards(d, o), blocks: blocks.NewCache(o.Blocks)}, nil
}

// kind says how a sample lies on disk.
func (s *Store) kind(sample catalog.Sample) catalog.Kind {
	return s.dataset.Holder(sample.Index).Kind()
}

// Close closes what is open and lets go of the dataset. Views stay readable until their Buffers
// let go; no Read may begin afterwards.
func (s *Store) Close() {
	s.stop()
	s.left.Wait()
	s.spare.close()
	if s.shards.close() {
		s.dataset.Release()
	}
}

// Stop ends reads from stores of objects, which may wait long; files are read on.
func (s *Store) Stop() { s.stop() }

// Waits ends with Stop and Close.
func (s *Store) Waits() context.Context { return s.waits }

// Read makes the encoded bytes of a sample readable until b is used again.
func (s *Store) Read(sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	return s.ReadWithin(s.waits, sample, b, nil)
}

// ReadWithin is Read that a context ends, of a file in a store of objects. A block is read on, for others may be
// waiting for it; what of the time that took is added to fetched, which may be nil: the rest is the processor's.
func (s *Store) ReadWithin(ctx context.Context, sample catalog.Sample, b *mmap.Buffer, fetched *time.Duration) (mmap.View, error) {
	view, err := s.read(ctx, sample, b, fetched)
	if err != nil {
		s.addKey(err, sample.Index)
	}
	return view, err
}

// After is what came of looking at the bytes that a read left in b: err, or that they were not all the file's.
func (s *Store) After(sample catalog.Sample, b *mmap.Buffer, err error) error {
	cut := b.Intact()
	if cut == nil {
		return err
	}
	path, _ := s.dataset.Path(sample.Index)
	cut = explain(cut, path, sample.Index)
	s.addKey(cut, sample.Index)
	return cut
}

// addKey says the sample's key too; where the index itself is wrong, its number has to do.
func (s *Store) addKey(err error, record int64) {
	var e *catalog.Error
	if errors.As(err, &e) && e.Key == "" {
		e.Key, _ = s.dataset.Key(record)
	}
}

// Lost reports, without reading it, that a sample's shard is not there or ends before it. Of the
// files of a folder, and of a store, nothing is known before they are read.
func (s *Store) Lost(sample catalog.Sample) bool {
	if !s.kind(sample).InShards() || int64(sample.Shard) >= int64(len(s.shards.list)) || s.shards.list[sample.Shard].away != nil {
		return false
	}
	file, err := s.shards.open(sample)
	return err != nil || s.shards.cut(sample, file) != nil
}

func (s *Store) read(ctx context.Context, sample catalog.Sample, b *mmap.Buffer, fetched *time.Duration) (mmap.View, error) {
	if sample.Length > s.limit {
		return mmap.View{}, s.oversized(sample, sample.Length)
	}
	if s.kind(sample).InShards() {
		return s.readShard(sample, b, fetched)
	}
	if at, ok := s.dataset.Bytes(sample); ok {
		b.Empty()
		return mmap.View{Pointer: at, Length: sample.Length}, nil
	}
	return s.readFile(ctx, sample, b)
}

// ReadSeek makes the seek points of a sample readable until b is used again; an empty View where it
// has none. They only make decoding faster, so who meets an error goes on without them. Always by pread:
// it costs 1.1 us warm where madvise and fstat for a mapping cost 2.6, and 2 kB are soon copied.
func (s *Store) ReadSeek(sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	place := &sample.Seek
	if place.Length == 0 {
		return mmap.View{}, nil
	}
	file := s.dataset.Holder(sample.Index).SeekFile()
	if file == nil {
		return mmap.View{}, nil
	}
	// Points are a few hundredths of their image; this bounds what an index may make of that.
	if place.Length > s.limit {
		return mmap.View{}, &catalog.Error{Kind: fault.KindLimit, File: file.Path(), Record: sample.Index, Offset: place.Offset,
			Text: fmt.Sprintf("the seek points have %d bytes, max_record_bytes is %d", place.Length, s.limit)}
	}
	view, err := file.Read(b, place.Offset, place.Length)
	if err != nil {
		return mmap.View{}, explain(err, file.Path(), sample.Index)
	}
	return view, nil
}

// Listed says whether a sample is a file that no index knows.
func (s *Store) Listed(sample catalog.Sample) bool { return s.kind(sample) == catalog.Listed }

// ReadListed is Read for such a file that also says which it was, and which version of it.
func (s *Store) ReadListed(sample catalog.Sample, b *mmap.Buffer) (mmap.View, string, mmap.Stamp, error) {
	path, err := s.dataset.Path(sample.Index)
	if err != nil {
		return mmap.View{}, "", mmap.Stamp{}, err
	}
	view, stamp, err := mmap.ReadStamped(path, b, s.limit, s.options)
	if err != nil {
		err = s.unreadable(err, path, sample)
		s.addKey(err, sample.Index)
	}
	return view, path, stamp, err
}

// ReadBeside makes another file of a sample readable until b is used again, always by pread.
func (s *Store) ReadBeside(path string, sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	view, err := mmap.ReadWhole(path, b, s.limit, s.options)
	if err == nil {
		return view, nil
	}
	var found *mmap.Error
	if errors.Is(err, mmap.ErrTooLarge) && errors.As(err, &found) {
		err = &catalog.Error{Kind: fault.KindLimit, File: path, Record: sample.Index, Offset: -1,
			Text: fmt.Sprintf("the file has %d bytes, max_record_bytes is %d", found.Found, s.limit)}
	} else {
		err = explain(err, path, sample.Index)
	}
	s.addKey(err, sample.Index)
	return mmap.View{}, err
}

// readShard reads a range of a shard.
func (s *Store) readShard(sample catalog.Sample, b *mmap.Buffer, fetched *time.Duration) (mmap.View, error) {
	if int64(sample.Shard) >= int64(len(s.shards.list)) {
		return mmap.View{}, s.refuse(sample, fault.KindBadFile,
			"the index names shard %d of %d", sample.Shard, len(s.shards.list))
	}
	if sample.Block.Codec != blocks.None {
		return s.readBlock(sample, b, fetched)
	}
	// Without an index: else the image has a checksum of its own, which the decoder compares.
	if frame, ok := s.dataset.Frame(sample.Index); ok && s.checks && frame.Length <= s.limit {
		return s.readFramed(sample, frame, b)
	}
	return s.readStretch(sample, sample.Length, b, (*mmap.File).Read)
}

// readFramed reads the record around an image, and compares it with the checksum that the container has of it. It is a
// copy, for Go looks at its bytes.
func (s *Store) readFramed(sample catalog.Sample, frame catalog.Frame, b *mmap.Buffer) (mmap.View, error) {
	around, into := sample, sample.Offset-frame.Offset
	around.Offset = frame.Offset
	if into < 0 || sample.Length < 0 || into > frame.Length-sample.Length {
		return mmap.View{}, s.refuse(sample, fault.KindInternal, "the image lies outside its record")
	}
	view, err := s.readStretch(around, frame.Length, b, (*mmap.File).ReadCopy)
	if err != nil {
		return mmap.View{}, err
	}
	if found := frame.Checksum(view.Bytes()); found != frame.CRC {
		return mmap.View{}, s.refuse(around, fault.KindChecksum, "%s", fault.Differs("the checksum that the container has of the record differs",
			fmt.Sprintf("%08x", frame.CRC), fmt.Sprintf("%08x", found)))
	}
	return mmap.View{Pointer: unsafe.Add(view.Pointer, into), Length: sample.Length}, nil
}

// ReadInto copies an image of an array in files to memory of the caller's, which has its length. Of a tiny
// one that costs less than to show it where it is mapped.
func (s *Store) ReadInto(to []byte, sample catalog.Sample) error {
	if sample.Length > s.limit {
		return s.oversized(sample, sample.Length)
	}
	if sample.Block.Codec != blocks.None {
		return s.copyBlock(to, sample, nil)
	}
	for {
		file, err := s.shards.open(sample)
		if err != nil {
			return err
		}
		if err := s.shards.cut(sample, file); err != nil {
			return err
		}
		if err = file.ReadInto(to, sample.Offset); err == nil {
			return nil
		}
		if !isClosed(err) || s.shards.isClosed() {
			return explain(err, file.Path(), sample.Index)
		}
	}
}

// readStretch reads so many bytes of a shard from where a sample begins, or its block.
func (s *Store) readStretch(sample catalog.Sample, length int64, b *mmap.Buffer,
	read func(*mmap.File, *mmap.Buffer, int64, int64) (mmap.View, error)) (mmap.View, error) {
	if away := s.shards.list[sample.Shard].away; away != nil {
		if sample.Offset < 0 || length < 0 || sample.Offset > away.Size()-length {
			return mmap.View{}, s.refuse(sample, fault.KindBadFile, "%d bytes lie outside the shard, which has %d", length, away.Size())
		}
		return s.readAway(s.waits, sample, length, b, away)
	}
	for {
		file, err := s.shards.open(sample)
		if err != nil {
			return mmap.View{}, err
		}
		if err := s.shards.cut(sample, file); err != nil {
			return mmap.View{}, err
		}
		view, err := read(file, b, sample.Offset, length)
		if err == nil {
			return view, nil
		}
		// Closed between open and Read because another shard needed its place.
		if !isClosed(err) || s.shards.isClosed() {
			return mmap.View{}, explain(err, file.Path(), sample.Index)
		}
	}
}

// oversized says the same of a record in a shard and of a file in its place.
func (s *Store) oversized(sample catalog.Sample, bytes int64) error {
	return s.refuse(sample, fault.KindLimit, "the record has %d bytes, max_record_bytes is %d", bytes, s.limit)
}

// readFile reads a file of a folder.
func (s *Store) readFile(ctx context.Context, sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	path, err := s.dataset.Path(sample.Index)
	if err != nil {
		return mmap.View{}, err
	}
	var view mmap.View
	if s.dataset.Holder(sample.Index).Away() {
		file, err := s.dataset.FileAway(sample)
		if err != nil {
			return mmap.View{}, s.Explain(err, sample)
		}
		sample.Offset = 0
		return s.readAway(ctx, sample, sample.Length, b, file)
	}
	if s.kind(sample) == catalog.Indexed {
		view, err = s.readIndexed(path, sample, b)
	} else {
		view, err = mmap.ReadWhole(path, b, s.limit, s.options)
	}
	if err != nil {
		return mmap.View{}, s.unreadable(err, path, sample)
	}
	return view, nil
}

// readIndexed reads a file of a folder that has an index. A copy of a folder often has other times (cp -r), so a file of
// another time is compared by its checksum, and one of another size is another file.
func (s *Store) readIndexed(path string, sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	view, stamp, err := mmap.ReadSized(path, b, sample.Length, s.limit, s.options)
	var found *mmap.Error
	switch {
	case errors.Is(err, mmap.ErrStale) && errors.As(err, &found):
		return view, changed(fault.KindBadFile, path, sample.Index, sizes("the file has another size than when it was indexed", found.Expected, found.Found))
	case err != nil || stamp.MTimeNs == sample.MTimeNs || !sample.HasCRC:
		return view, err
	}
	if crc := crc32.Checksum(view.Bytes(), castagnoli); crc != sample.CRC32C {
		return mmap.View{}, changed(fault.KindChecksum, path, sample.Index, fault.Differs("the file has another time than when it was indexed, and another checksum",
			fmt.Sprintf("%08x", sample.CRC32C), fmt.Sprintf("%08x", crc)))
	}
	return view, nil
}

// unreadable explains an error of a file in its place: a listed one's length is found when it is opened.
func (s *Store) unreadable(err error, path string, sample catalog.Sample) error {
	var found *mmap.Error
	if errors.Is(err, mmap.ErrTooLarge) && errors.As(err, &found) {
		return s.oversized(sample, found.Found)
	}
	if already := (*catalog.Error)(nil); errors.As(err, &already) {
		return already
	}
	return explain(err, path, sample.Index)
}
