package pack

import (
	"bufio"
	"io"
	"os"
	"strconv"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// shards writes records into a sequence of tar files. Where one ends depends on sizes alone.
// They have the same bytes for the same samples, whatever the number of threads: there is one writer, and no time or
// owner in a header (formats.TarWriter).
type shards struct {
	to    destination
	limit int64 // bytes, header blocks and padding included
	done  []catalog.ShardInfo

	file catalog.Made
	buf  *bufio.Writer
	tar  *formats.TarWriter
	rows int64

	syncing chan error // of the shard before, on its way to the disk or the store
}

// newShards makes no file yet. The limit is of bytes on disk: a tar's blocks of 512 bytes, and its end.
func newShards(to destination, limit int64) *shards {
	// Small images share a system call; of a photograph the most part is not copied here.
	return &shards{to: to, limit: limit, buf: bufio.NewWriterSize(nil, 1<<14)}
}

// add writes a record and notes its place.
func (s *shards) add(r *record, row *catalog.Row) error {
	// Decided before anything is written: image and label of a sample never part.
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
	// Readers of WebDataset put neighbours together whose names are the same up to the first dot (tariterators.py,
	// base_plus_ext), and take "cls" for a class number. Dots of a key are escaped for it (formats.MemberName).
	// The key may be of any bytes; a member's name is text that other readers take apart.
	ext := r.extension
	if ext == "" && r.inside != nil { // the container's extension says nothing of the image
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
	// An image of no bytes is a sample as well, with the verdict that it is bad.
	if r.data != nil || r.length == 0 {
		at, err := s.tar.MemberBytes(name, r.data)
		if err != nil {
			return 0, catalog.IOError(s.file.Name(), "cannot write the shard", err)
		}
		return at, nil
	}
	// Over the record limit: never held in memory, so it comes from where it lies once more.
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
	// Opened by its path, without the checks of inspect: a file that was replaced meanwhile has other bytes than its
	// checksum says, which verify finds.
	f, err := os.Open(r.path)
	if err != nil {
		return 0, catalog.IOError(r.path, "cannot open", err)
	}
	defer f.Close()
	from := io.Reader(f)
	if r.inside != nil {
		from = io.NewSectionReader(f, r.inside.offset, r.inside.length)
	}
	// The length is in the header already, so that the reader has to give as many bytes.
	at, err := s.tar.Member(name, r.length, from)
	if err == io.ErrUnexpectedEOF {
		return 0, catalog.IOError(r.path, "the file became shorter while it was read", err)
	}
	if err != nil {
		return 0, catalog.IOError(s.file.Name(), "cannot write the shard", err)
	}
	return at, nil
}

// extensionOf names the members of images that came without a file name.
// MDS, Arrow and others give images without a name; readers of WebDataset choose a decoder by the ending.
func extensionOf(codec uint8) string {
	switch name := catalog.CodecName(codec); name {
	case "jpeg":
		return "jpg"
	case "png", "ppm", "webp", "bmp", "gif", "tiff":
		return name
	}
	return "bin"
}

// open is called when a shard's first record comes, so that no dataset has an empty one.
func (s *shards) open() error {
	// One that holds a single record may be longer than the limit.
	f, err := s.to.create(catalog.ShardName(len(s.done)), max(s.limit, formats.ArchiveBytes(2*maxRecordBytes)))
	if err != nil {
		return err
	}
	s.file, s.rows = f, 0
	s.buf.Reset(f)
	s.tar = formats.NewTarWriter(s.buf)
	return nil
}

// finishShard ends the current shard and commits it while the next is written.
// The buffer is empty then, and serves the next shard.
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
	// From here on the commit has the file; abandon must not close it a second time.
	s.file, s.tar = nil, nil
	if err := s.wait(); err != nil {
		f.Abandon()
		return err
	}
	// One commit at a time is under way: a disk slower than the cores holds the writer back here,
	// not the page cache of the whole machine.
	s.syncing = make(chan error, 1)
	go func(result chan<- error) {
		err := f.Commit()
		if err != nil {
			f.Abandon()
			err = catalog.IOError(f.Name(), "cannot write the shard to disk", err)
		}
		// There is room for it: whoever gave up waits for nothing, and this goroutine ends all the same.
		result <- err
	}(s.syncing)
	return nil
}

// wait collects the result of the commit under way; a write error may show only there (fsync(2), EIO).
// It is called by the writer's goroutine alone, so that no lock is needed.
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

// abandon ends what is open; what was committed is removed by the destination.
// Its own errors are passed over, for the error that led here is the one to tell.
func (s *shards) abandon() {
	s.wait() // first, for what is removed has a time that begins with the first removal
	if s.file != nil {
		s.file.Abandon()
	}
}
