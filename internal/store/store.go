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

// Options are the options of a Store.
type Options struct {
	mmap.Options
	MaxRecordBytes int64 // a larger record is refused before memory is allocated
	Blocks         blocks.Limits
	// With Unverified, records are not compared with their container's checksums.
	Unverified bool
	// With Salvage, a truncated shard is read as far as it goes. Without it such a shard is an error at its first sample,
	// so that the user learns of the damage at once, and not only when the order happens to reach a record that is gone.
	Salvage bool
}

// Store reads the samples of one dataset. It is safe for any number of goroutines, if each has its own Buffer.
type Store struct {
	dataset *catalog.Dataset
	options mmap.Options
	limit   int64 // Options.MaxRecordBytes
	checks  bool  // the opposite of Options.Unverified
	shards  *shards
	blocks  *blocks.Cache
	spare   spare
	waits   context.Context // context of reads from stores of objects
	stop    context.CancelFunc
	left    sync.WaitGroup // reads of blocks that may go on when nobody waits for them any more
	kept    *parts.User    // the cache on disk for what was read from stores of objects; nil: nothing is kept
}

// Open opens no shard. What is wrong with a shard is an error of the first sample that needs it.
func Open(d *catalog.Dataset, o Options) (*Store, error) {
	if o.MaxRecordBytes <= 0 {
		return nil, catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("max_record_bytes", o.MaxRecordBytes, "at least 1"))
	}
	d.Retain()
	waits, stop := context.WithCancel(context.Background())
	return &Store{waits: waits, stop: stop, dataset: d, options: o.Options, limit: o.MaxRecordBytes, checks: !o.Unverified,
		shards: newShards(d, o), blocks: blocks.NewCache(o.Blocks)}, nil
}

// kind returns the kind of the dataset that a sample belongs to.
func (s *Store) kind(sample catalog.Sample) catalog.Kind {
	return s.dataset.Holder(sample.Index).Kind()
}

// Close closes what is open and releases the dataset. Views stay readable until their Buffers are freed or used again;
// no Read may begin after Close.
func (s *Store) Close() {
	s.stop()
	s.left.Wait()
	s.spare.close()
	if s.shards.close() {
		s.dataset.Release()
	}
}

// Stop ends reads from stores of objects, which may take long; files can still be read.
func (s *Store) Stop() { s.stop() }

// Waits returns a context that ends with Stop and Close.
func (s *Store) Waits() context.Context { return s.waits }

// Read makes the encoded bytes of a sample readable until b is used again.
func (s *Store) Read(sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	return s.ReadWithin(s.waits, sample, b, nil)
}

// ReadWithin is Read with a context that ends the read of a file in a store of objects. Reading a block goes on,
// because others may wait for it. The time for reading it is added to fetched, which may be nil; the rest is CPU time.
func (s *Store) ReadWithin(ctx context.Context, sample catalog.Sample, b *mmap.Buffer, fetched *time.Duration) (mmap.View, error) {
	view, err := s.read(ctx, sample, b, fetched)
	if err != nil {
		s.addKey(err, sample.Index)
	}
	return view, err
}

// After is called when the bytes of a read in b were used. It returns err, or an error if the file was cut meanwhile.
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

// addKey adds the sample's key. If the index itself is wrong, there is only the number.
func (s *Store) addKey(err error, record int64) {
	var e *catalog.Error
	if errors.As(err, &e) && e.Key == "" {
		e.Key, _ = s.dataset.Key(record)
	}
}

// Lost says, without reading it, whether a sample's shard is missing or ends before it. For the files of a folder, and
// in a store, nothing is known before they are read.
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

// ReadSeek makes the seek points of a sample readable until b is used again; the View is empty if there are none.
// They only make decoding faster, so callers ignore an error. It always uses pread:
// that costs 1.1 us if the page is cached. madvise and fstat for a mapping cost 2.6 us, and 2 kB are copied quickly.
func (s *Store) ReadSeek(sample catalog.Sample, b *mmap.Buffer) (mmap.View, error) {
	place := &sample.Seek
	if place.Length == 0 {
		return mmap.View{}, nil
	}
	file := s.dataset.Holder(sample.Index).SeekFile()
	if file == nil {
		return mmap.View{}, nil
	}
	// Points take a few hundredths of their image; this limits what a damaged index may ask for.
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

// Listed says whether a sample is a file without an index.
func (s *Store) Listed(sample catalog.Sample) bool { return s.kind(sample) == catalog.Listed }

// ReadListed is Read for such a file. It also returns the file's path and version.
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

// ReadBeside makes another file of a sample readable until b is used again. It always uses pread.
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
	// A frame exists only without an index. With an index the image has its own checksum, which the decoder compares.
	frame, framed := s.dataset.Frame(sample.Index)
	framed = framed && s.checks
	if sample.Block.Codec != blocks.None {
		view, err := s.readBlock(sample, b, fetched)
		if err == nil && framed {
			err = s.checkFrame(sample, frame, view.Bytes())
		}
		return view, err
	}
	if framed && frame.Length <= s.limit {
		return s.readFramed(sample, frame, b)
	}
	return s.readStretch(sample, sample.Length, b, (*mmap.File).Read)
}

// readFramed reads the record around an image, and compares it with the container's checksum. The record is copied,
// because Go reads its bytes.
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
	if err := s.checkFrame(around, frame, view.Bytes()); err != nil {
		return mmap.View{}, err
	}
	return mmap.View{Pointer: unsafe.Add(view.Pointer, into), Length: sample.Length}, nil
}

// checkFrame compares a record, or an image that was decoded from its block, with the container's checksum of it.
func (s *Store) checkFrame(sample catalog.Sample, frame catalog.Frame, data []byte) error {
	found := frame.Checksum(data)
	if found == frame.CRC {
		return nil
	}
	return s.refuse(sample, fault.KindChecksum, "%s", fault.Differs("the checksum that the container has of the record differs",
		fmt.Sprintf("%08x", frame.CRC), fmt.Sprintf("%08x", found)))
}

// ReadInto copies an image of an array in files to the caller's memory, which has its length. For a tiny image that
// costs less than reading it where it is mapped.
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

// readStretch reads length bytes of a shard, from where a sample or its block begins.
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
		// The shard was closed between open and read, because another shard needed its place.
		if !isClosed(err) || s.shards.isClosed() {
			return mmap.View{}, explain(err, file.Path(), sample.Index)
		}
	}
}

// oversized makes the same error for a record in a shard and for a file in a folder.
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

// readIndexed reads a file of a folder with an index. A copy of a folder often has other times (cp -r), so if the time
// differs the checksum is compared. If the size differs it is another file.
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

// unreadable explains an error of a file in a folder. The length of a listed file is known only when it is opened.
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
