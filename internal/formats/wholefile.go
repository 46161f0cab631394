package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/headroom"
)

// WholeFile is the decompressed content of a file that is compressed as a whole. zstd stores what it cannot make
// smaller as raw blocks, so most photographs are in such a file unchanged.
type WholeFile struct {
	Data []byte

	size  int64 // size of the file
	codec uint8
	raw   []rawPart // for a frame of zstd (RFC 8878), in the order of the file
}

// rawPart is a raw block: in the file its content follows the block head at offset, and in Data it is at at.
type rawPart struct {
	offset, at, length int64
}

func (p *rawPart) end() int64 { return p.offset + zstdBlockHead + p.length }

const (
	zstdBlockHead = 3
	zstdMostBlock = 128 << 10
	zstdRawBlock  = 0
	zstdRLEBlock  = 1
	// Shorter stretches occur more than once in photographs.
	zstdKnownBytes = 64 // how many first bytes are used to search the place of a raw block
	zstdMostTries  = 16
)

// IsZstd recognises a frame of zstd.
func IsZstd(head []byte) bool { return strings.HasPrefix(string(head), wholeMagic[blocks.Zstd]) }

// wholeMagic has the first bytes of files in codecs with a magic.
var wholeMagic = map[uint8]string{blocks.Zstd: "\x28\xb5\x2f\xfd", blocks.Gzip: "\x1f\x8b\x08", blocks.Bzip2: "BZh"}

// WholeEndings are the extensions of files that are compressed as a whole.
var WholeEndings = map[string]uint8{".zstd": blocks.Zstd, ".gz": blocks.Gzip, ".bz2": blocks.Bzip2, ".br": blocks.Brotli, ".snappy": blocks.Snappy}

// WholeCodec returns the codec of a file, by its first bytes, or by its name if they say nothing; 0 for none.
func WholeCodec(name string, head []byte) uint8 {
	for codec, magic := range wholeMagic {
		if strings.HasPrefix(string(head), magic) {
			return codec
		}
	}
	// If the codec has no magic (brotli, snappy), the name decides. A file called .zstd without a frame is not compressed.
	if codec := WholeEndings[path.Ext(name)]; wholeMagic[codec] == "" {
		return codec
	}
	return blocks.None
}

// ReadWhole decompresses a file, which may have up to most bytes both before and after.
func ReadWhole(codec uint8, r io.ReaderAt, size, most int64) (*WholeFile, error) {
	if size > most {
		return nil, fmt.Errorf("%w: a file of %d bytes that is compressed as a whole (expected at most %d, %s)", ErrLimit, size, most, blocks.NameOfBlock)
	}
	if short := headroom.Memory(size); short != nil {
		return nil, short
	}
	stored := make([]byte, size)
	if err := readAt(r, stored, 0); err != nil {
		return nil, err
	}
	var head zstd.Header
	if codec == blocks.Zstd {
		// A skippable frame has no data. A writer that begins with one (pzstd) wrote no shard that is read here.
		if err := head.Decode(stored); err != nil || head.Skippable {
			return nil, &WalkError{0, fmt.Errorf("%w: no frame of zstd begins here (%v)", ErrBad, err)}
		}
	}
	length, more := int64(min(head.FrameContentSize, math.MaxInt64)), ""
	// A frame states its own length. Several frames one after the other, as `cat` makes them, are one file (RFC 8878, 3),
	// and then the length of the first is only that of a part.
	if !head.HasFCS || zstdFrameEnd(stored, &head) != int64(len(stored)) {
		more = " or more"
		var err error
		if length, err = blocks.Length(codec, stored, most); err != nil {
			return nil, &WalkError{0, fmt.Errorf("%w: %v", ErrBad, err)}
		}
	}
	if length > most {
		return nil, &WalkError{0, fmt.Errorf("%w: a file of %d bytes%s once it is decompressed (expected at most %d, %s)", ErrLimit, length, more, most, blocks.NameOfBlock)}
	}
	if short := headroom.Memory(length); short != nil {
		return nil, short
	}
	z := &WholeFile{Data: make([]byte, length), size: size, codec: codec}
	if err := blocks.Decode(codec, z.Data, stored); err != nil {
		return nil, &WalkError{0, fmt.Errorf("%w: %v", ErrBad, err)}
	}
	if codec == blocks.Zstd {
		z.findRaw(stored, int64(head.HeaderSize))
	}
	return z, nil
}

// zstdFrameEnd returns where the first frame of stored ends: after its last block, and its checksum if it has one;
// -1 if its blocks lead out of the file.
func zstdFrameEnd(stored []byte, head *zstd.Header) int64 {
	at := int64(head.HeaderSize)
	for last := false; !last; {
		if at+zstdBlockHead > int64(len(stored)) {
			return -1
		}
		last = stored[at]&1 != 0
		kind, length := blocks.ParseZstdBlock(stored[at:])
		if kind == zstdRLEBlock { // one byte stands for all
			length = 1
		}
		at += zstdBlockHead + length
	}
	if head.HasCheckSum {
		at += 4
	}
	return at
}

// findRaw goes through the blocks of the frame. The decompressed size of a compressed block is stated nowhere, so raw
// blocks after it are searched in the decompressed data. Any place with equal bytes is right.
func (z *WholeFile) findRaw(stored []byte, offset int64) {
	at, behind := int64(0), int64(0) // end of the last raw block, and the most that may lie between it and the next
	budget := 4 * int64(len(z.Data)) // limit of the bytes that are searched: hostile blocks occur nowhere, or everywhere
	for last := false; !last && offset+zstdBlockHead <= int64(len(stored)); {
		head := stored[offset:]
		last = head[0]&1 != 0
		kind, length := blocks.ParseZstdBlock(head)
		next := offset + zstdBlockHead + length
		switch {
		case kind == zstdRLEBlock:
			next, behind = offset+zstdBlockHead+1, behind+length
		case next > int64(len(stored)):
			return
		// A compressed block decodes to at most 128 KiB (RFC 8878, 3.1.1.2.4), and nothing states its size.
		case kind != zstdRawBlock:
			behind += zstdMostBlock
		case length > 0:
			content := stored[offset+zstdBlockHead : next]
			found := placeOf(z.Data, content, at, behind, &budget)
			if found < 0 {
				behind += length
				break
			}
			at, behind = found+length, 0
			if length >= zstdKnownBytes { // no image is smaller
				z.raw = append(z.raw, rawPart{offset, found, length})
			}
		}
		offset = next
	}
}

// placeOf returns where a part is in data, from byte at on and at most `most` bytes after it; -1 if it is not there.
func placeOf(data, part []byte, at, most int64, budget *int64) int64 {
	is := func(at int64) bool { return at <= int64(len(data)) && bytes.HasPrefix(data[at:], part) }
	if is(at + most) { // mostly blocks have their greatest size
		return at + most
	}
	end := min(at+most+int64(len(part)), int64(len(data)))
	known := part[:min(len(part), zstdKnownBytes)]
	for tries := 0; tries < zstdMostTries && at < end; tries, at = tries+1, at+1 {
		// The budget is for all blocks, because each may be searched in vain through all of the rest.
		if *budget -= end - at; *budget < 0 {
			break
		}
		found := bytes.Index(data[at:end], known)
		if found < 0 {
			break
		}
		if at += int64(found); is(at) {
			return at
		}
	}
	return -1
}

// Place returns where a stretch of Data is. If block is nil, it is in the file itself; otherwise in a block, which
// consists of the raw blocks around it or is the whole file.
func (z *WholeFile) Place(at, length int64) (offset int64, block *Block) {
	first := sort.Search(len(z.raw), func(i int) bool { return z.raw[i].at+z.raw[i].length > at })
	for i := first; i < len(z.raw) && z.raw[first].at <= at; i++ {
		p := &z.raw[i]
		// Only blocks that are adjacent both in the file and in its content form one stretch with heads in between.
		if i > first && (p.at != z.raw[i-1].at+z.raw[i-1].length || p.offset != z.raw[i-1].end()) {
			break
		}
		if at+length > p.at+p.length {
			continue
		}
		begin := &z.raw[first]
		if i == first {
			return begin.offset + zstdBlockHead + at - begin.at, nil
		}
		return at - begin.at, &Block{Offset: begin.offset, Stored: p.end() - begin.offset, Size: p.at + p.length - begin.at, Codec: blocks.ZstdRaw}
	}
	return at, z.Block()
}

// Block returns the whole file as a block.
func (z *WholeFile) Block() *Block {
	return &Block{Stored: z.size, Size: int64(len(z.Data)), Codec: z.codec}
}

// WholeHead decompresses the first bytes of a file, up to length. If the codec has no streams, there are none.
func WholeHead(codec uint8, r io.ReaderAt, size, length int64) (head []byte, err error) {
	defer func() { // a library may panic on hostile bytes
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrBad, r)
		}
	}()
	d, err := blocks.Reader(codec, io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBad, err)
	}
	defer d.Close()
	head, err = io.ReadAll(io.LimitReader(d, length))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %v", ErrBad, err)
	}
	return head, nil
}
