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

// WholeFile is a file that is compressed as a whole, decompressed. zstd stores what it cannot make smaller as raw
// blocks, so that most photographs stand in such a file as they are.
type WholeFile struct {
	Data []byte

	size  int64 // of the file
	codec uint8
	raw   []rawPart // of a frame of zstd (RFC 8878), in the order of the file
}

// rawPart is a raw block: its content stands in the file behind the head at that offset, and at at in Data.
type rawPart struct {
	offset, at, length int64
}

func (p *rawPart) end() int64 { return p.offset + zstdBlockHead + p.length }

const (
	zstdBlockHead = 3
	zstdMostBlock = 128 << 10
	zstdRawBlock  = 0
	zstdRLEBlock  = 1
	// Shorter stretches stand in photographs more than once.
	zstdKnownBytes = 64 // by which the place of a raw block is looked for
	zstdMostTries  = 16
)

// IsZstd recognises a frame.
func IsZstd(head []byte) bool { return strings.HasPrefix(string(head), wholeMagic[blocks.Zstd]) }

// wholeMagic are the first bytes of files in codecs that have such.
var wholeMagic = map[uint8]string{blocks.Zstd: "\x28\xb5\x2f\xfd", blocks.Gzip: "\x1f\x8b\x08", blocks.Bzip2: "BZh"}

// WholeEndings are what is behind the name of a file that is compressed as a whole.
var WholeEndings = map[string]uint8{".zstd": blocks.Zstd, ".gz": blocks.Gzip, ".bz2": blocks.Bzip2, ".br": blocks.Brotli, ".snappy": blocks.Snappy}

// WholeCodec is what compressed a file, by its first bytes, or by its name where these say nothing; 0 for none.
func WholeCodec(name string, head []byte) uint8 {
	for codec, magic := range wholeMagic {
		if strings.HasPrefix(string(head), magic) {
			return codec
		}
	}
	// Where the codec has no magic (brotli, snappy), the name decides. A file called .zstd that has no frame is not compressed.
	if codec := WholeEndings[path.Ext(name)]; wholeMagic[codec] == "" {
		return codec
	}
	return blocks.None
}

// ReadWhole decompresses a file, which may have up to most bytes before and after.
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
		// A frame to be skipped has nothing in it; who begins with one (pzstd) wrote no shard that is read here.
		if err := head.Decode(stored); err != nil || head.Skippable {
			return nil, &WalkError{0, fmt.Errorf("%w: no frame of zstd begins here (%v)", ErrBad, err)}
		}
	}
	length, more := int64(min(head.FrameContentSize, math.MaxInt64)), ""
	// A frame says how long it is itself. Several of them one behind the other, as `cat` makes, are one file (RFC
	// 8878, 3), of which the first one's length is no more than a part.
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

// zstdFrameEnd is where the frame ends that stored begins with: behind its last block, and its checksum if it has one;
// -1 where its blocks lead out of the file.
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

// findRaw goes through the blocks of the frame. How long a compressed block is once it is decompressed stands
// nowhere, so raw blocks behind it are looked for in what the frame became: equal bytes are all that is asked of a place.
func (z *WholeFile) findRaw(stored []byte, offset int64) {
	at, behind := int64(0), int64(0) // where the last raw block ended, and how much may stand between it and the next
	budget := 4 * int64(len(z.Data)) // bytes that may be looked through: hostile blocks stand nowhere, or everywhere
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
		// A compressed block decodes to 128 KiB at most (RFC 8878, 3.1.1.2.4), and nothing says to how much.
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

// placeOf is where a part stands in data, from byte at to most bytes behind it; -1 where it does not.
func placeOf(data, part []byte, at, most int64, budget *int64) int64 {
	is := func(at int64) bool { return at <= int64(len(data)) && bytes.HasPrefix(data[at:], part) }
	if is(at + most) { // blocks are mostly as long as they may be
		return at + most
	}
	end := min(at+most+int64(len(part)), int64(len(data)))
	known := part[:min(len(part), zstdKnownBytes)]
	for tries := 0; tries < zstdMostTries && at < end; tries, at = tries+1, at+1 {
		// A budget for all blocks: each may be looked for in vain through all that stands behind.
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

// Place is where a stretch of Data lies: in the file itself, if block is nil, or in a block, which is that of the
// raw blocks that it lies in or the whole file.
func (z *WholeFile) Place(at, length int64) (offset int64, block *Block) {
	first := sort.Search(len(z.raw), func(i int) bool { return z.raw[i].at+z.raw[i].length > at })
	for i := first; i < len(z.raw) && z.raw[first].at <= at; i++ {
		p := &z.raw[i]
		// Only blocks that follow each other in the file and in what it becomes are one stretch with heads between.
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

// Block is the whole file.
func (z *WholeFile) Block() *Block {
	return &Block{Stored: z.size, Size: int64(len(z.Data)), Codec: z.codec}
}

// WholeHead decompresses the first bytes of a file, as many as there are up to length. Of a codec that has no streams
// there are none.
func WholeHead(codec uint8, r io.ReaderAt, size, length int64) (head []byte, err error) {
	defer func() { // a library's panic over hostile bytes is theirs
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
