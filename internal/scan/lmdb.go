package scan

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// imageMagic has the first bytes of image files. Whether such an image can be decoded is decided elsewhere.
// Keys and values of an LMDB have no types, so only the first bytes show what a value is.
var imageMagic = []string{"\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "P5", "P6", "BM", "GIF8", "II*\x00", "MM\x00*"}

// maxDatumSide is the largest side of an image of pixels.
// Sides up to it can be multiplied without overflow. The number of pixels is checked after that.
const maxDatumSide = 1 << 20

// isImage judges by a few bytes, because nothing is decoded here. If a value only looks like an image, it becomes a
// sample with the verdict bad.
func isImage(head string) bool {
	for _, magic := range imageMagic {
		if !strings.HasPrefix(head, magic) {
			continue
		}
		// Two letters may begin a word as well. After P5 and P6 a width or a comment must follow. A BMP's header has the
		// length of its second part, which is below 256.
		switch magic {
		case "P5", "P6":
			rest := strings.TrimLeft(head[2:], " \t\r\n")
			return len(rest) < len(head)-2 && rest != "" && (rest[0] == '#' || rest[0] >= '0' && rest[0] <= '9')
		case "BM":
			return len(head) >= formats.HeadBytes && head[14] != 0 && head[15:18] == "\x00\x00\x00"
		}
		return true
	}
	return len(head) >= 12 && head[:4] == "RIFF" && head[8:12] == "WEBP"
}

// scanLMDB makes a sample of every value that is an image or a Datum of one. Other values, such as the lists of keys
// that programs store beside their images, are ignored and counted in a warning.
func scanLMDB(p *part) error {
	p.plain = false
	other, first := 0, ""
	// The tree is walked in the order of keys, and the pages of the keys may be anywhere.
	order := &jumps{ReaderAt: p.file, size: p.size}
	// On a disk, reading a distant page costs little; in a store it is a request of megabytes.
	pages := io.ReaderAt(p.file)
	if p.beside != nil {
		pages = order
	}
	err := formats.WalkLMDB(pages, p.size, p.database, func(e formats.LMDBEntry) error {
		// A long value has pages of its own (overflow pages), and a jump to them costs as much as one to a key's page.
		if p.beside != nil && order.many(e.Offset) {
			return errScattered
		}
		cells, err := p.valueOf(e)
		if err != nil {
			return at(err, e.Offset)
		}
		if cells == nil {
			if other++; other == 1 {
				first = e.Key
			}
			return nil
		}
		return at(p.add(e.Key, e.Offset, cells), e.Offset)
	})
	var several *formats.DatabasesError
	switch {
	// This case comes first, because the walker may have wrapped the reader's errScattered in an error about the database.
	case order.scattered:
		return errScattered
	case errors.As(err, &several) && p.database != "":
		return fault.New(fault.KindArgument, fault.Argument("split", p.database, fmt.Sprintf("one of %q, the databases of the environment", several.Names)))
	case several != nil:
		own := ""
		if several.Own {
			own = "; the entries of its own are for a dataset of yours, which headrace.pack takes"
		}
		return fault.New(fault.KindArgument, fmt.Sprintf("%v; split= chooses one of the databases%s", several, own))
	case err != nil:
		return withWayOut(err)
	// Some values without images may be a program's notes. If no value is an image, it is another kind of dataset.
	case other > 0 && p.rows() == 0:
		return fmt.Errorf("%w: none of %d values is an image or a Datum of one, as %.80q; serialised objects can be packed with headrace.pack", formats.ErrUnsupported, other, first)
	case other > 0:
		p.warnings = append(p.warnings, fmt.Sprintf("%d of %d values are no images and passed over, as %.80q", other, other+p.rows(), first))
	}
	return nil
}

// jumps reads pages of an object, and counts how often a page or value is far from the one before it.
type jumps struct {
	io.ReaderAt
	size, last, count int64
	scattered         bool
}

// Jumps are counted by the pieces of four megabytes in which a store is read (package tape), and not by pages of 4 KiB.
const (
	jumpBytes  = 32 << 20 // bytes around a place of an object that are in memory (package tape)
	jumpPieces = 4 << 20  // bytes that a read at a distant place fetches
	jumpsFew   = 64
)

// errScattered refuses such a database: samples are in the order of keys, so they cannot be read in the order of
// places.
var errScattered = fmt.Errorf("%w: its values are not in the order of their keys, so reading them from a store would fetch it many times; copy it to a local disk, or pack it there", formats.ErrUnsupported)

// ReadAt reads pages until their order turns out to be too expensive.
func (j *jumps) ReadAt(to []byte, offset int64) (int, error) {
	if j.many(offset) {
		return 0, errScattered
	}
	return j.ReaderAt.ReadAt(to, offset)
}

// many is true if reading in this order fetches more than twice the bytes of the object.
func (j *jumps) many(offset int64) bool {
	if offset < j.last-jumpBytes || offset > j.last+jumpBytes {
		j.count++
	}
	j.last = offset
	j.scattered = j.scattered || j.count > 2*j.size/jumpPieces+jumpsFew
	return j.scattered
}

// compressedValue returns the cells of a value that is a frame of LZ4, nil if it holds no image. The frame is a block
// of its own. Frames with other contents, such as pickles and messages of Arrow, are ignored.
func (p *part) compressedValue(e formats.LMDBEntry) ([]cell, error) {
	// The first bytes decide. If the frame holds no image, no more of it is decoded.
	image := func(head []byte) bool { return isImage(string(head)) }
	frame, err := formats.ReadLZ4(p.file, e.Offset, e.Length, p.mostBlock, image)
	if err != nil || !image(frame.Head) {
		return nil, err
	}
	return []cell{{name: "image", length: frame.Block.Size, block: &frame.Block}}, nil
}

// valueOf returns the cells of a value, nil if it is no image.
// A Datum is a message of Caffe's (caffe.proto, Datum).
func (p *part) valueOf(e formats.LMDBEntry) ([]cell, error) {
	// The longest sign needs this many bytes: for a BMP, up to the length of the header's second part (isImage).
	head := make([]byte, min(e.Length, formats.HeadBytes))
	if n, err := p.file.ReadAt(head, e.Offset); n < len(head) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	image := cell{name: "image", offset: e.Offset, length: e.Length}
	if isImage(string(head)) {
		return []cell{image}, nil
	}
	if formats.IsLZ4(head) {
		return p.compressedValue(e)
	}
	d, ok, err := formats.ReadDatum(p.file, e.Offset, e.Length)
	switch {
	case err != nil || !ok:
		return nil, err
	case !d.Encoded && d.Channels != 1 && d.Channels != 3:
		return nil, fmt.Errorf("%w: %.80q is a Datum of pixels of %d channels (expected 1 or 3); headrace.pack takes a dataset that makes images of them", formats.ErrUnsupported, e.Key, d.Channels)
	// The sides are checked before they become 32-bit numbers.
	case !d.Encoded && max(d.Height, d.Width) > maxDatumSide:
		return nil, fmt.Errorf("%w: %.80q is a Datum of %d x %d pixels", formats.ErrLimit, e.Key, d.Height, d.Width)
	case !d.Encoded:
		image.raw = catalog.RawSize{Width: uint32(d.Width), Height: uint32(d.Height), Channels: uint32(d.Channels), Planar: true}
	}
	image.offset, image.length = d.Offset, d.Length
	return []cell{image, {name: "label", kind: intCell, int: d.Label, number: float64(d.Label)}}, nil
}
