// Package blocks decompresses stretches of containers that are compressed as a whole, and keeps those that were used
// last. It allocates no more than a block's decoded length, which the caller has compared with a limit. It knows
// nothing of containers.
package blocks

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs stand in indexes, so their numbers never change. None stands for a stretch that is not a block.
const (
	None uint8 = iota
	Snappy
	Gzip
	Zstd
	LZ4 // a block without a frame
	LZ4Frame
	Deflate  // as in members of a zip, without a header
	RecordIO // parts of a RecordIO record, not compressed
	ZstdRaw  // blocks of a zstd frame that are not compressed
	Zlib
	LZ4Sized  // numcodecs': four bytes of length, and a block
	LZ4Pieces // HDF5's filter 32004: blocks with their lengths
	Blosc     // a frame of C-Blosc 1, of values of one byte
	Plain     // stored as it is, for a stretch that has a checksum
	Brotli
	Bzip2
	codecs
)

// Two bits of a codec say that the four bytes behind the stored bytes are their checksum.
const (
	CRC32C     uint8 = 1 << 6
	Fletcher32 uint8 = 1 << 7
	sums             = CRC32C | Fletcher32
)

// MostBytes bounds a block, stored and decoded.
const MostBytes = 256 << 20

// Known is true for a codec that is decoded here.
func Known(codec uint8) bool {
	plain := codec &^ sums
	return plain > None && plain < codecs && codec&sums != sums && codec != Plain
}

// zstds, gzips and zlibs hold decoders with their own buffers, because making one takes longer than decoding a small
// block. A zstd decoder is told not to grow what it is given.
var (
	// Each uses one thread, because blocks are decoded on the threads of a loader, and there are as many of these as
	// cores.
	zstds = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(MostBytes))
		if err != nil {
			return err
		}
		return d
	}}
	gzips    = sync.Pool{New: func() any { return new(gzip.Reader) }}
	deflates = sync.Pool{New: func() any { return flate.NewReader(nil) }}
	zlibs    sync.Pool // holds io.ReadCloser: a zlib reader can only be made with a stream
)

// Decode fills to with what from holds. The lengths must be equal.
func Decode(codec uint8, to, from []byte) (err error) {
	defer func() { // hostile bytes may make a library panic
		if r := recover(); r != nil {
			err = fmt.Errorf("the block is malformed: %v", r)
		}
	}()
	// The checksum covers the stored bytes. It is compared first, so that a changed byte is reported as such, and not
	// as a block that does not decode.
	if from, err = summed(codec, from); err != nil {
		return err
	}
	switch codec &^ sums {
	case Plain:
		if len(from) != len(to) {
			return differs(len(from), len(to))
		}
		copy(to, from)
		return nil
	case Zlib:
		return inflate(to, from)
	case LZ4Sized:
		return sizedLZ4(to, from)
	case LZ4Pieces:
		return piecesOfLZ4(to, from)
	case Blosc:
		return unblosc(to, from)
	case Snappy:
		return unsnap(to, from)
	case Gzip:
		return gunzip(to, from)
	case Deflate:
		return undeflate(to, from)
	case RecordIO, ZstdRaw:
		return join(codec, to, 0, int64(len(to)), from)
	case Zstd:
		return unzstd(to, from)
	case LZ4Frame:
		return fill(to, lz4.NewReader(bytes.NewReader(from)))
	case Brotli:
		return fill(to, brotli.NewReader(bytes.NewReader(from)))
	case Bzip2:
		return fill(to, bzip2.NewReader(bytes.NewReader(from)))
	case LZ4:
		return unLZ4(to, from)
	}
	return fmt.Errorf("a block of codec %d", codec)
}

func unsnap(to, from []byte) error {
	n, err := snappy.DecodedLen(from)
	if err != nil {
		return fmt.Errorf("the snappy block: %w", err)
	}
	if n != len(to) {
		return differs(n, len(to))
	}
	// This decodes into the given memory: if the length is right, the library allocates nothing.
	_, err = snappy.Decode(to, from)
	return err
}

func gunzip(to, from []byte) error {
	r := gzips.Get().(*gzip.Reader)
	defer gzips.Put(r)
	if err := r.Reset(bytes.NewReader(from)); err != nil {
		return fmt.Errorf("the gzip block: %w", err)
	}
	return fill(to, r)
}

func undeflate(to, from []byte) error {
	r := deflates.Get().(io.ReadCloser)
	defer deflates.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(from), nil); err != nil {
		return fmt.Errorf("the deflated member: %w", err)
	}
	return fill(to, r)
}

func unzstd(to, from []byte) error {
	d, ok := zstds.Get().(*zstd.Decoder)
	if !ok {
		return errors.New("no decoder of zstd can be made")
	}
	defer zstds.Put(d)
	// The capacity is the stated length, and the decoder may not grow it, so a decompression bomb ends as an error.
	out, err := d.DecodeAll(from, to[:0:len(to)])
	if err != nil {
		return fmt.Errorf("the zstd block: %w", err)
	}
	if len(out) != len(to) {
		return differs(len(out), len(to))
	}
	return nil
}

func unLZ4(to, from []byte) error {
	n, err := lz4.UncompressBlock(from, to)
	if err != nil {
		return fmt.Errorf("the LZ4 block: %w", err)
	}
	if n != len(to) {
		return differs(n, len(to))
	}
	return nil
}

// fill reads exactly as many bytes as there is room for.
func fill(to []byte, r io.Reader) error {
	if n, err := io.ReadFull(r, to); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return differs(n, len(to))
		}
		return err
	}
	// A stream that goes on decodes to another length than was stated. Reading past the end also makes the library
	// compare the checksum.
	var more [1]byte
	switch n, err := io.ReadFull(r, more[:]); {
	case n > 0:
		return fmt.Errorf("the block decodes to more than %d bytes", len(to))
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func differs(found, expected int) error {
	return fmt.Errorf("the block decodes to %d bytes (expected %d)", found, expected)
}

// Length returns how many bytes a block decodes to if nothing states it. It decodes the block piece by piece for that,
// and stops beyond most + 1 bytes.
func Length(codec uint8, from []byte, most int64) (length int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the block is malformed: %v", r)
		}
	}()
	if codec == Snappy { // a snappy block states its length
		n, err := snappy.DecodedLen(from)
		if err != nil {
			err = fmt.Errorf("the snappy block: %w", err)
		}
		return int64(n), err
	}
	r, err := Reader(codec, bytes.NewReader(from))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.Copy(io.Discard, io.LimitReader(r, most+1))
}

// Reader decodes a stream piece by piece. Snappy's blocks are not streams.
func Reader(codec uint8, from io.Reader) (io.ReadCloser, error) {
	var r io.ReadCloser
	var err error
	switch codec {
	case Zstd:
		d, wrong := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MostBytes))
		if err = wrong; err == nil {
			r = d.IOReadCloser()
		}
	case Gzip:
		r, err = gzip.NewReader(from)
	case Brotli:
		r = io.NopCloser(brotli.NewReader(from))
	case Bzip2:
		r = io.NopCloser(bzip2.NewReader(from))
	default:
		return nil, fmt.Errorf("a stream of codec %d", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("the %s block: %w", streams[codec], err)
	}
	return named{r, streams[codec]}, nil
}

var streams = map[uint8]string{Zstd: "zstd", Gzip: "gzip", Brotli: "brotli", Bzip2: "bzip2"}

// named adds to an error which codec met it.
type named struct {
	io.ReadCloser
	codec string
}

func (n named) Read(to []byte) (int, error) {
	read, err := n.ReadCloser.Read(to)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the %s block: %w", n.codec, err)
	}
	return read, err
}
