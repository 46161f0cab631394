package pack

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

// readInside reads the bytes of a sample in a container. If the container has a checksum of the whole record, the
// record is read and compared, as the container's own reader would do.
// It runs on a worker, which owns the record and its open file.
func (in *inspector) readInside(r *record, buffer []byte, wait func(int64)) ([]byte, error) {
	x := r.inside
	r.length = x.length
	if x.memory != nil {
		wait(x.length)
		return buffer, in.takePixels(r, unsafe.Slice((*byte)(x.memory), x.length))
	}
	f, err := in.container(r)
	if err != nil {
		return buffer, err
	}
	// A block is decoded as a whole, and mostly serves several samples (blocks.Cache).
	if x.sample.Block.Codec != blocks.None {
		return in.readBlock(r, f, buffer, wait)
	}
	if x.pixels == nil && uint64(r.length) > in.limits.MaxRecordBytes {
		return buffer, in.oversized(r, io.NewSectionReader(f, x.offset, x.length))
	}
	// Without a frame the image's own bytes are read; with one, the whole record around them.
	at := catalog.Extent{Offset: x.offset, Length: x.length}
	if x.framed {
		at = x.frame.Extent
	}
	// One walk found both the frame and the image, so this is no fault of the file.
	if x.offset < at.Offset || x.length > at.Length-(x.offset-at.Offset) {
		return buffer, recordError(r, fault.KindInternal, "the image lies outside its record", nil)
	}
	wait(at.Length)
	if int64(cap(buffer)) < at.Length {
		if short := headroom.Memory(at.Length + at.Length/4); short != nil {
			return buffer, recordError(r, fault.KindMemory, short.Error(), nil)
		}
		// The buffer gets a quarter more than needed, because the next image may be larger.
		buffer = make([]byte, at.Length+at.Length/4)
	}
	data := buffer[:at.Length]
	// If the file was cut, ReadAt returns fewer bytes and io.EOF.
	if n, err := f.ReadAt(data, at.Offset); n < len(data) {
		if x.away != nil {
			return buffer, awayError(r, err)
		}
		return buffer, recordError(r, fault.KindIO, "the container cannot be read, or changed meanwhile", err)
	}
	if err := r.checkFrame(data, at.Offset); err != nil {
		return buffer, err
	}
	if x.pixels != nil {
		return buffer, in.takePixels(r, data)
	}
	r.space = data
	r.data = data[x.offset-at.Offset:][:x.length:x.length]
	return buffer, nil
}

// awayError adds the sample to an error of a store.
// The store's error names only the object.
func awayError(r *record, err error) error {
	var e *catalog.Error
	if !errors.As(catalog.OutOfStore(err), &e) {
		return recordError(r, fault.KindIO, "it cannot be read", err)
	}
	own := *e
	own.Record, own.Key = r.seq, r.key
	return &own
}

// checkFrame compares the record around the sample, which begins at offset, with the container's checksum of it.
// The algorithm is the container's: masked CRC-32C for a TFRecord, CRC-32 for a zip (catalog.Frame).
func (r *record) checkFrame(data []byte, offset int64) error {
	x := r.inside
	if !x.framed {
		return nil
	}
	found := x.frame.Checksum(data)
	if found == x.frame.CRC {
		return nil
	}
	e := recordError(r, fault.KindChecksum, fault.Differs("the checksum that the container has of the record differs", fmt.Sprintf("%08x", x.frame.CRC), fmt.Sprintf("%08x", found)), nil)
	e.(*catalog.Error).Offset = offset
	return e
}

// takePixels makes a file of an array's image, which has none. If the image exceeds the record limit, it is not
// inspected and only gets that verdict.
// The file is a PPM, because its head is a few bytes and its pixels are unchanged (netpbm's ppm(5)). The index has the
// facts of that file.
func (in *inspector) takePixels(r *record, data []byte) error {
	file, err := r.inside.pixels.PPM(data)
	if err != nil {
		return recordError(r, fault.KindMemory, err.Error(), nil)
	}
	if len(file) > maxRecordBytes {
		return recordError(r, fault.KindLimit, fault.Differs("the image is too large", fmt.Sprintf("at most %d bytes", int64(maxRecordBytes)), len(file)), nil)
	}
	// This is the checksum of the stored pixels, because verify reads those and not the file that is made here.
	r.stored = crc32.Checksum(data, castagnoli)
	r.data, r.length, r.raw, r.original = file, int64(len(file)), true, r.inside.length
	if uint64(r.original) > in.limits.MaxRecordBytes {
		r.facts.CRC32C, r.verdict, r.offset = crc32.Checksum(file, castagnoli), catalog.Limit, -1
		r.reason = fmt.Sprintf("the record has %d bytes, max_record_bytes is %d", r.original, in.limits.MaxRecordBytes)
	}
	return nil
}

// readBlock reads a sample out of its block.
// If the block cannot be decoded, the file is at fault; if it cannot be read, the disk; if it is too large, it exceeds
// a limit.
func (in *inspector) readBlock(r *record, f io.ReaderAt, buffer []byte, wait func(int64)) ([]byte, error) {
	wait(r.length)
	data, err := buffer, error(nil)
	if r.inside.tiles != nil {
		data, err = in.tiledSample(r, buffer)
	} else {
		data, err = blockSample(in.blocks, f, &r.inside.sample, buffer)
	}
	if err != nil {
		if away := (*catalog.Error)(nil); r.inside.away != nil && errors.As(err, &away) {
			return buffer, awayError(r, err)
		}
		kind, text := fault.KindIO, "the block cannot be read or decoded"
		if malformed := (*blocks.MalformedError)(nil); errors.As(err, &malformed) {
			kind = fault.KindBadFile
		} else if large := (*blocks.TooLargeError)(nil); errors.As(err, &large) {
			kind, text, err = fault.KindLimit, large.Error(), nil
		}
		e := &catalog.Error{Kind: kind, File: r.path, Record: r.seq, Key: r.key, Offset: r.inside.offset, Text: text, Err: err}
		return buffer, e
	}
	if err := r.checkFrame(data, r.inside.offset); err != nil {
		return buffer, err
	}
	if r.inside.pixels != nil {
		return data, in.takePixels(r, data)
	}
	// The bytes are held even if they exceed the record limit. The shard gets them from here, because the container has
	// them only inside the block.
	r.space, r.data = data, data[:len(data):len(data)]
	if uint64(r.length) > in.limits.MaxRecordBytes {
		return buffer, in.oversized(r, bytes.NewReader(data))
	}
	return buffer, nil
}

// blockSample reads a sample that lies in a block of an open container, into buffer if it fits.
// The cache decodes a block once for all threads that need it at the same time.
func blockSample(cache *blocks.Cache, f io.ReaderAt, s *catalog.Sample, buffer []byte) ([]byte, error) {
	data, err := roomFor(s.Length, buffer)
	if err != nil {
		return nil, err
	}
	return data, cache.Copy(data, int64(s.Block.Inner), s.InBlock(), func() ([]byte, error) {
		stored := make([]byte, s.Block.Stored)
		_, err := f.ReadAt(stored, s.Offset)
		return stored, err
	})
}

// roomFor returns length bytes of buffer, or of a new and larger one.
// A new one has a quarter more than needed, for the same reason as in readInside.
func roomFor(length int64, buffer []byte) ([]byte, error) {
	if int64(cap(buffer)) >= length {
		return buffer[:length], nil
	}
	if short := headroom.Memory(length + length/4); short != nil {
		return nil, short
	}
	return make([]byte, length, length+length/4), nil
}

// tiledSample reads a sample of an array that is assembled from chunks, which may lie in several files.
// Each chunk is read from its own file, one after the other, and decoded into its part of the image.
func (in *inspector) tiledSample(r *record, buffer []byte) ([]byte, error) {
	s := &r.inside.sample
	data, err := roomFor(s.Length, buffer)
	if err != nil {
		return nil, err
	}
	var stored []byte
	return data, in.blocks.CopyTiled(data, int64(s.Block.Inner), s.InBlock(), r.inside.tiles, func(tile blocks.Block) ([]byte, error) {
		path, size := r.inside.file(tile)
		f, err := in.opened(r, path, size)
		if err != nil {
			return nil, err
		}
		if stored, err = roomFor(int64(tile.Stored), stored); err != nil {
			return nil, err
		}
		_, err = f.ReadAt(stored, tile.Offset)
		return stored, err
	})
}

// container returns the open file of a record. It is kept for the next record, because neighbours share it.
func (in *inspector) container(r *record) (io.ReaderAt, error) {
	if r.inside.away != nil {
		return r.inside.away, nil
	}
	return in.opened(r, r.path, r.inside.size)
}

// opened opens a file for a record and checks its size.
// mmap.OpenRegular adds O_NONBLOCK and refuses other files than regular ones.
func (in *inspector) opened(r *record, path string, size int64) (io.ReaderAt, error) {
	if in.file != nil && in.file.Name() == path {
		return in.file, nil
	}
	if in.file != nil {
		in.file.Close()
		in.file = nil
	}
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, recordError(r, fault.KindIO, "cannot open the container", err)
	}
	info, err := f.Stat()
	// The places were found in a file of that size; in another one they may hold anything.
	if err == nil && info.Size() != size {
		err = fmt.Errorf("it had %d bytes, now %d", size, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, recordError(r, fault.KindIO, "the container has changed since it was scanned", err)
	}
	in.file = f
	return f, nil
}
