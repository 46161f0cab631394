package scan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

// scanRecordIO reads the records of an MXNet .rec file. Keys are those of the .idx file beside it, if there is one.
// A record without an image, such as InsightFace's first, which says where the others are, is passed over.
func scanRecordIO(p *part) error {
	p.plain = false
	keys, err := p.recordKeys()
	if err != nil {
		return err
	}
	// The frames are walked whether there are keys or not: the .idx file may name too few.
	w := formats.NewRecordIO(p.file, p.size)
	// Records without an image, and without a key.
	empty, unnamed := 0, 0
	for {
		record, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		header, err := w.Header(&record)
		if err != nil {
			return err
		}
		key := ""
		switch {
		// Keys are sorted and records stand in order, so one that was passed has none.
		// The second of two keys at one offset comes here as well, with the record behind that which took the first.
		case len(keys) > 0 && keys[0].Offset < record.Offset:
			return keyOfNone(keys[0])
		case len(keys) > 0 && keys[0].Offset == record.Offset:
			key, keys = keys[0].Key, keys[1:]
		default:
			unnamed++
		}
		// InsightFace's first record has the numbers of others for labels, and no image.
		if header.Bytes() == record.Length {
			empty++
			continue
		}
		cells, err := recordCells(w, &record, &header)
		if err == nil {
			err = p.add(key, record.Offset, cells)
		}
		if err != nil {
			return at(err, record.Offset)
		}
	}
	switch {
	case len(keys) > 0:
		return keyOfNone(keys[0])
	case p.keyed && unnamed > 0:
		p.warnings = append(p.warnings, fmt.Sprintf("%d records have no key in the .idx file", unnamed))
	}
	if empty > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("%d of %d records are headers without an image and passed over", empty, empty+p.rows()))
	}
	return nil
}

// keyOfNone is an error about the .idx file, with the offset that it names: each key has to be that of a record which
// begins there.
func keyOfNone(k formats.RecordKey) error {
	return &formats.WalkError{Offset: k.Offset, Err: fmt.Errorf("%w: the .idx file has the key %.80q twice, or at an offset where no record begins", formats.ErrBad, k.Key)}
}

// recordKeys are those of PREFIX.idx beside PREFIX.rec; none where there is no such file.
// MXRecordIO writes no such file.
func (p *part) recordKeys() ([]formats.RecordKey, error) {
	// MXIndexedRecordIO writes it: a line a record, its key and the byte that it begins at.
	path := strings.TrimSuffix(p.path, ".rec") + ".idx"
	open := p.beside
	if open == nil {
		open = func(path string) (io.ReadCloser, error) { return mmap.OpenRegular(path) }
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, catalog.IOError(path, "cannot open the keys of the records", err)
	}
	defer f.Close()
	p.keyed = true
	keys, err := formats.ReadRecordKeys(f)
	if err != nil {
		return nil, catalog.FormatError(path, err)
	}
	return keys, nil
}

// recordCells are the values of a record: what mxnet.recordio.pack_img packs, which is IRHeader(flag, label, id, id2) and
// behind it the image. A flag above 0 says how many float32 labels stand between the two; label itself counts for nothing
// then.
func recordCells(w *formats.RecordIO, r *formats.IORecord, h *formats.IRHeader) ([]cell, error) {
	begin := h.Bytes()
	// The record's content begins behind the frame's head of 8 bytes: the magic, and a word of flag and length (dmlc-core,
	// recordio.h).
	image := cell{name: "image", offset: r.Offset + blocks.RecordIOHead + begin, length: r.Length - begin}
	label := cell{name: "label", kind: floatCell, number: float64(h.Label)}
	if h.Labels > 1 {
		label = cell{name: "label", kind: arrayCell, dtype: "float32", shape: []int64{h.Labels},
			offset: r.Offset + blocks.RecordIOHead + formats.IRHeaderBytes, length: 4 * h.Labels}
	}
	// A record that has the format's magic inside is written in parts, without those four bytes (dmlc-core, recordio.h). So
	// the image does not lie in one piece, and the whole record becomes a block that is put together when it is read.
	if r.Split() {
		if r.Stored > blocks.MostBytes || r.Length > blocks.MostBytes {
			return nil, fmt.Errorf("%w: a record of %d bytes in several parts (expected at most %d)", formats.ErrLimit, r.Length, int64(blocks.MostBytes))
		}
		image.block = &formats.Block{Offset: r.Offset, Stored: r.Stored, Size: r.Length, Codec: blocks.RecordIO}
		image.offset = begin
		// The magic may stand among the labels, so they lie in the joined record, as its image does.
		if h.Labels > 1 {
			label.offset, label.block = formats.IRHeaderBytes, image.block
			var err error
			if label.data, err = w.Labels(r, h); err != nil {
				return nil, err
			}
		}
	}
	// The program that packed chose both; im2rec writes the image's number in its list as id.
	id, id2 := cell{name: "id"}, cell{name: "id2"}
	id.setUnsigned(h.ID)
	id2.setUnsigned(h.ID2)
	return []cell{image, label, id, id2}, nil
}
