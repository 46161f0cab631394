package catalog

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// batch is a validated record batch: plain arrays in the mapping, with one entry for each row.
type batch struct {
	first   int64
	columns []*column // in the order of columnsOf

	shard, length, width, height, crc, seekLength, seekCRC   []uint32
	offset, seekOffset                                       []uint64
	label, mtime                                             []int64
	codec, sampling, process, channels, orientation, verdict []uint8
	key, path                                                *column

	blockStored, blockSize, blockInner []uint32 // for containers with compressed parts, else nil
	blockCodec                         []uint8
	contained                          bool // images may be raw pixels
}

// sample is on the hot path: it reads arrays, with the compiler's bounds checks as a last guard.
func (b *batch) sample(i int64) Sample {
	n := i - b.first
	s := Sample{
		Index: i, Shard: b.shard[n], Offset: int64(b.offset[n]), Length: int64(b.length[n]), Label: b.label[n],
		HasCRC: true, Verdict: Verdict(b.verdict[n]),
		Seek: SeekPlace{Offset: int64(b.seekOffset[n]), Length: int64(b.seekLength[n]), CRC32C: b.seekCRC[n]},
		Facts: Facts{
			Width: b.width[n], Height: b.height[n], CRC32C: b.crc[n], Channels: b.channels[n], Codec: b.codec[n],
			Sampling: b.sampling[n], Process: b.process[n], Orientation: b.orientation[n],
		},
	}
	if b.mtime != nil {
		s.MTimeNs = b.mtime[n]
	}
	if b.blockCodec != nil {
		s.Block = BlockPlace{b.blockStored[n], b.blockSize[n], b.blockInner[n], b.blockCodec[n]}
	}
	if s.Codec == codecRaw && b.contained {
		s.MakeRaw(s.RawSize())
	}
	return s
}

// validate reads record batch n for the first time, and checks checksum, shape and every row.
func (x *index) validate(n int) (*batch, error) {
	slot := &x.batches[n]
	// A batch that is wrong stays unset, so every reader gets the error and none gets the rows. Validation takes
	// milliseconds, and all threads of a loader wait for it once for each batch.
	slot.once.Lock()
	defer slot.once.Unlock()
	if b := slot.valid.Load(); b != nil {
		return b, nil
	}
	var b *batch
	err := x.guard(func() (err error) {
		b, err = x.load(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	slot.valid.Store(b)
	return b, nil
}

// load takes the batch apart from the outside in: checksum, message, columns, rows.
func (x *index) load(n int) (*batch, error) {
	info := x.manifest.Index.Batches[n]
	// The range is inside the file, as the manifest's check has made sure. The slice has no capacity behind it, so no
	// later slice leads beyond it.
	region := x.mapped[info.Offset : info.Offset+info.Length : info.Offset+info.Length]
	if err := x.checksum(region, info.Offset, info.CRC32C, fmt.Sprintf("record batch %d of the index", n)); err != nil {
		return nil, err
	}
	bad := func(format string, a ...any) error {
		return &Error{Kind: fault.KindBadFile, File: x.file, Record: -1, Offset: info.Offset,
			Text: fmt.Sprintf("record batch %d of the index: ", n) + fmt.Sprintf(format, a...)}
	}
	r, err := openBatch(region)
	if err != nil {
		return nil, bad("%v", err)
	}
	b := &batch{first: x.firstOf(n)}
	if rows := x.firstOf(n+1) - b.first; int64(r.rows) != rows {
		return nil, bad("it has %d rows (expected %d)", r.rows, rows)
	}
	for _, c := range x.columns {
		col, err := readColumn(r, c.Type)
		if err != nil {
			return nil, bad("column %q: %v", c.Name, err)
		}
		b.columns = append(b.columns, col)
	}
	b.bind(x.kind, x.manifest.inBlocks())
	if i, err := b.check(x); err != nil {
		return nil, &Error{Kind: fault.KindBadFile, File: x.file, Record: i, Offset: -1, Text: err.Error()}
	}
	return b, nil
}

// bind names the columns, in the order of sampleColumns, folderColumns and blockColumns.
func (b *batch) bind(kind Kind, inBlocks bool) {
	c := b.columns
	b.shard, b.offset, b.length = sliceOf[uint32](c[0]), sliceOf[uint64](c[1]), sliceOf[uint32](c[2])
	b.codec, b.sampling, b.process = c[3].values, c[4].values, c[5].values
	b.channels, b.orientation, b.verdict = c[6].values, c[7].values, c[8].values
	b.width, b.height, b.crc = sliceOf[uint32](c[9]), sliceOf[uint32](c[10]), sliceOf[uint32](c[11])
	b.seekOffset, b.seekLength, b.seekCRC = sliceOf[uint64](c[12]), sliceOf[uint32](c[13]), sliceOf[uint32](c[14])
	b.label, b.key = sliceOf[int64](c[15]), c[16]
	b.contained = kind == Contained
	if kind == Indexed {
		b.path, b.mtime = c[17], sliceOf[int64](c[18])
	}
	if inBlocks {
		b.blockStored, b.blockSize, b.blockInner = sliceOf[uint32](c[17]), sliceOf[uint32](c[18]), sliceOf[uint32](c[19])
		b.blockCodec = c[20].values
	}
}

// check looks at every row once, so that the hot path need not. It returns the number of the first impossible row.
func (b *batch) check(x *index) (int64, error) {
	classes, seek := int64(len(x.manifest.Classes)), newSeekCheck(x.manifest)
	for n := range b.shard {
		i := b.first + int64(n)
		v := Verdict(b.verdict[n])
		switch {
		// The meaning of a later version's verdict would be unknown. min_reader should keep such an index away.
		case v == Unknown || v >= verdicts:
			return i, fmt.Errorf("the verdict is %d (expected 1 to %d)", v, verdicts-1)
		case classes > 0 && (b.label[n] < NoLabel || b.label[n] >= classes):
			return i, fmt.Errorf("the label is %d, there are %d classes", b.label[n], classes)
		case (v == Good || v == Warnings) && (b.length[n] == 0 || b.width[n] == 0 || b.height[n] == 0):
			return i, fmt.Errorf("an image that is marked good has %d x %d pixels in %d bytes", b.width[n], b.height[n], b.length[n])
		}
		if err := b.checkPlace(x, n); err != nil {
			return i, err
		}
		if err := b.checkValues(x, n); err != nil {
			return i, err
		}
		if err := seek.check(b.seekOffset[n], uint64(b.seekLength[n]), b.seekCRC[n]); err != nil {
			return i, err
		}
		if err := checkName("key", b.key.row(n)); err != nil {
			return i, err
		}
		if b.path != nil {
			if err := checkName("path", b.path.row(n)); err != nil {
				return i, err
			}
			if p := string(b.path.row(n)); !filepath.IsLocal(p) {
				return i, fmt.Errorf("the path %.80q leads out of the folder", p)
			}
		}
	}
	return 0, nil
}

// checkPlace refuses rows outside their shard, and rows that go backwards or overlap: the records of a shard are in the
// order of rows.
func (b *batch) checkPlace(x *index, n int) error {
	offset, length := b.offset[n], uint64(b.length[n])
	// Files have no shards. Other numbers here would be unused, and could hide something.
	if x.kind == Indexed {
		if b.shard[n] != 0 || offset != 0 {
			return fmt.Errorf("shard %d, offset %d in an indexed folder", b.shard[n], offset)
		}
		return nil
	}
	if int64(b.shard[n]) >= int64(len(x.manifest.Shards)) {
		return fmt.Errorf("shard %d of %d", b.shard[n], len(x.manifest.Shards))
	}
	// The numbers are unsigned and compared before they are added, so offset + length cannot wrap around.
	size := uint64(x.manifest.Shards[b.shard[n]].Size)
	// The block lies in the container, and the image has to lie inside the block.
	if b.blockCodec != nil && b.blockCodec[n] != 0 {
		place := BlockPlace{b.blockStored[n], b.blockSize[n], b.blockInner[n], b.blockCodec[n]}
		if err := place.Check(length); err != nil {
			return err
		}
		length = uint64(place.Stored)
	}
	if offset > size || length > size-offset {
		return fmt.Errorf("offset %d with %d bytes lies outside %s, which has %d", offset, length, x.manifest.Shards[b.shard[n]].Name, size)
	}
	if x.kind == Contained && b.codec[n] == codecRaw {
		s := Sample{Facts: Facts{Width: b.width[n], Height: b.height[n], Channels: b.channels[n], Process: b.process[n]}}
		size := s.RawSize()
		if stored := b.length[n]; size == (RawSize{}) || !size.Fills(stored) {
			return fmt.Errorf("an image of %d x %d pixels without a header in %d bytes", size.Width, size.Height, stored)
		}
	}
	if x.kind == Contained {
		return nil // containers of other formats hold records in any order and at any place
	}
	if offset < formats.TarBlock || offset%formats.TarBlock != 0 {
		return fmt.Errorf("offset %d is no place for the content of a tar member", offset)
	}
	if n == 0 {
		return nil
	}
	if b.shard[n] < b.shard[n-1] {
		return fmt.Errorf("shard %d follows shard %d", b.shard[n], b.shard[n-1])
	}
	if end := b.offset[n-1] + uint64(b.length[n-1]); b.shard[n] == b.shard[n-1] && offset < end {
		return fmt.Errorf("offset %d overlaps the record before, which ends at %d", offset, end)
	}
	return nil
}

// checkValues refuses values of fields that lie outside their blocks, and values whose blocks lie outside the
// container. Values of other located fields are compared with the container when they are read.
func (b *batch) checkValues(x *index, n int) error {
	for _, at := range x.inBlocks {
		f := &x.manifest.Fields[at]
		value, err := f.decode(b.columns[x.fieldAt[f.Name]:], n)
		if err != nil {
			return err
		}
		in, ok := value.(BlockExtent)
		if !ok {
			return fmt.Errorf("field %q lies in no container", f.Name)
		}
		container := &x.manifest.Shards[b.shard[n]] // checkPlace has checked the shard's number
		if err := in.Check(container.Size); err != nil {
			return fmt.Errorf("field %q: %w of %s", f.Name, err, container.Name)
		}
	}
	return nil
}

// checkName checks text that ends up in paths, messages and Python strings.
func checkName(what string, name []byte) error {
	if len(name) == 0 || len(name) > formats.MaxNameBytes || !utf8.Valid(name) || strings.IndexByte(string(name), 0) >= 0 {
		return fmt.Errorf("the %s %.80q is not 1 to %d bytes of UTF-8 without NUL", what, name, formats.MaxNameBytes)
	}
	return nil
}
