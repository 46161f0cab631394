package pack

import (
	"bufio"
	"io"
	"os"
	"strconv"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// shards writes records into a sequence of tar files. Where a file ends depends only on sizes.
// The bytes are the same for the same samples, whatever the number of threads: there is one writer, and headers have
// neither time nor owner (formats.TarWriter).
type shards struct {
	to    destination
	limit int64 // in bytes, with header blocks and padding
	done  []catalog.ShardInfo

	file catalog.Made
	buf  *bufio.Writer
	tar  *formats.TarWriter
	rows int64

	syncing chan error // result of committing the shard before, to the disk or the store
}

// newShards makes no file yet. The limit counts bytes on disk, with a tar's blocks of 512 bytes and its end.
func newShards(to destination, limit int64) *shards {
	// Small images share a system call; most of a photograph is not copied into this buffer.
	return &shards{to: to, limit: limit, buf: bufio.NewWriterSize(nil, 1<<14)}
}

// add writes a record and sets its place.
func (s *shards) add(r *record, row *catalog.Row) error {
	// Whether the shard is full is decided before anything is written, so image and label of a sample are never separated.
	label := strconv.AppendInt(nil, r.label, 10)
	need := formats.MemberBytesOnDisk(r.length)
	if r.hasCls {
		need += formats.MemberBytesOnDisk(int64(len(label)))
	}
	if s.tar != nil && formats.ArchiveBytes(s.tar.Len()+need) > s.limit {
		if err := s.finishShard(); err != nil {
			return err
		}
	}
	if s.tar == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	// Readers of WebDataset group neighbours whose names are the same up to the first dot (tariterators.py,
	// base_plus_ext), and take "cls" for a class number. So dots of a key are escaped (formats.MemberName).
	// The key may be any bytes, but a member's name is text that other readers split.
	ext := r.extension
	if ext == "" && r.inside != nil { // the container's extension says nothing about the image
		ext = extensionOf(r.facts.Codec)
	}
	if ext == "" {
		ext = formats.MemberExtension(r.path, extensionOf(r.facts.Codec))
	}
	name := formats.MemberName(r.key, max(len(ext), len("cls")))
	var err error
	row.Shard = uint32(len(s.done))
	if row.Offset, err = s.image(r, name+"."+ext); err != nil {
		return err
	}
	if r.hasCls {
		if _, err := s.tar.MemberBytes(name+".cls", label); err != nil {
			return catalog.IOError(s.file.Name(), "cannot write the shard", err)
		}
	}
	s.rows++
	return nil
}

// image writes the member that the index points to.
func (s *shards) image(r *record, name string) (int64, error) {
	// An image without bytes is a sample as well, with the verdict bad.
	if r.data != nil || r.length == 0 {
		at, err := s.tar.MemberBytes(name, r.data)
		if err != nil {
			return 0, catalog.IOError(s.file.Name(), "cannot write the shard", err)
		}
		return at, nil
	}
	// The image exceeds the record limit and was never held in memory, so it is read again from its source.
	// It lies in no block, because what is in a block is held (readBlock).
	var away io.Reader
	if r.away != nil {
		away = sequential(r.away, 0, r.length)
	} else if r.inside != nil && r.inside.away != nil {
		away = sequential(r.inside.away, r.inside.offset, r.inside.length)
	}
	if away != nil {
		at, err := s.tar.Member(name, r.length, away)
		if err != nil {
			return 0, catalog.IOError(s.file.Name(), "cannot write the shard", err)
		}
		return at, nil
	}
	// The file is opened by its path, without the checks of inspect. If it was replaced meanwhile, its bytes do not match
	// its checksum, which verify notices.
	f, err := os.Open(r.path)
	if err != nil {
		return 0, catalog.IOError(r.path, "cannot open", err)
	}
	defer f.Close()
	from := io.Reader(f)
	if r.inside != nil {
		from = io.NewSectionReader(f, r.inside.offset, r.inside.length)
	}
	// The header has the length already, so the reader has to return as many bytes.
	at, err := s.tar.Member(name, r.length, from)
	if err == io.ErrUnexpectedEOF {
		return 0, catalog.IOError(r.path, "the file became shorter while it was read", err)
	}
	if err != nil {
		return 0, catalog.IOError(s.file.Name(), "cannot write the shard", err)
	}
	return at, nil
}

// extensionOf returns the extension for images without a file name.
// MDS, Arrow and others have such images; readers of WebDataset choose a decoder by the extension.
func extensionOf(codec uint8) string {
	switch name := catalog.CodecName(codec); name {
	case "jpeg":
		return "jpg"
	case "png", "ppm", "webp", "bmp", "gif", "tiff":
		return name
	}
	return "bin"
}

// open begins a shard when its first record comes, so that no shard is empty.
func (s *shards) open() error {
	// A shard with a single record may exceed the limit.
	f, err := s.to.create(catalog.ShardName(len(s.done)), max(s.limit, formats.ArchiveBytes(2*maxRecordBytes)))
	if err != nil {
		return err
	}
	s.file, s.rows = f, 0
	s.buf.Reset(f)
	s.tar = formats.NewTarWriter(s.buf)
	return nil
}

// finishShard ends the current shard and commits it while the next one is written.
// The buffer is then empty and is used for the next shard.
func (s *shards) finishShard() error {
	f := s.file
	err := s.tar.Close()
	if err == nil {
		err = s.buf.Flush()
	}
	if err != nil {
		return catalog.IOError(f.Name(), "cannot write the shard", err)
	}
	s.done = append(s.done, catalog.ShardInfo{Name: catalog.ShardName(len(s.done)), Size: s.tar.Len(), Rows: s.rows})
	// From here on the commit owns the file; abandon must not close it a second time.
	s.file, s.tar = nil, nil
	if err := s.wait(); err != nil {
		f.Abandon()
		return err
	}
	// Only one commit is under way at a time. So if the disk is slower than the cores, the writer waits here, instead of
	// filling the page cache of the whole machine.
	s.syncing = make(chan error, 1)
	go func(result chan<- error) {
		err := f.Commit()
		if err != nil {
			f.Abandon()
			err = catalog.IOError(f.Name(), "cannot write the shard to disk", err)
		}
		// The channel has room, so this goroutine ends even if nobody waits for the result any more.
		result <- err
	}(s.syncing)
	return nil
}

// wait returns the result of the commit under way; a write error may appear only there (fsync(2), EIO).
// Only the writer's goroutine calls it, so it needs no lock.
func (s *shards) wait() error {
	if s.syncing == nil {
		return nil
	}
	err := <-s.syncing
	s.syncing = nil
	return err
}

// finish ends the last shard and waits until all are on disk or in the store.
func (s *shards) finish() error {
	if s.tar != nil {
		if err := s.finishShard(); err != nil {
			return err
		}
	}
	return s.wait()
}

// abandon ends what is open; the destination removes what was committed.
// It ignores its own errors, because the error that led here is reported.
func (s *shards) abandon() {
	s.wait() // this comes first, because the time for a removal begins with the first one
	if s.file != nil {
		s.file.Abandon()
	}
}
