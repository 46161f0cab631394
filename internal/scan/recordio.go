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

// scanRecordIO reads the records of an MXNet .rec file. Keys come from the .idx file beside it, if there is one.
// A record without an image is ignored, such as InsightFace's first one, which says where the others are.
func scanRecordIO(p *part) error {
	p.plain = false
	keys, err := p.recordKeys()
	if err != nil {
		return err
	}
	// The frames are walked even if there are keys, because the .idx file may name too few records.
	w := formats.NewRecordIO(p.file, p.size)
	// These count records without an image, and records without a key.
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
		// Keys are sorted and records are in order. So a key whose offset was passed belongs to no record.
		// The second of two keys with one offset also comes here, with the record after the one that took the first key.
		case len(keys) > 0 && keys[0].Offset < record.Offset:
			return keyOfNone(keys[0])
		case len(keys) > 0 && keys[0].Offset == record.Offset:
			key, keys = keys[0].Key, keys[1:]
		default:
			unnamed++
		}
		// InsightFace's first record has no image; its labels are the numbers of other records.
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

// keyOfNone makes the error about a key in the .idx file, with the offset that it names: a record has to begin there.
func keyOfNone(k formats.RecordKey) error {
	return &formats.WalkError{Offset: k.Offset, Err: fmt.Errorf("%w: the .idx file has the key %.80q twice, or at an offset where no record begins", formats.ErrBad, k.Key)}
}

// recordKeys returns the keys in PREFIX.idx beside PREFIX.rec; none if there is no such file.
// MXRecordIO writes no such file.
func (p *part) recordKeys() ([]formats.RecordKey, error) {
	// MXIndexedRecordIO writes it: a line for each record, with its key and the byte at which it begins.
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

// recordCells returns the values of a record that mxnet.recordio.pack_img made: IRHeader(flag, label, id, id2),
// followed by the image. A flag above 0 is the number of float32 labels between the two; label itself is then unused.
func recordCells(w *formats.RecordIO, r *formats.IORecord, h *formats.IRHeader) ([]cell, error) {
	begin := h.Bytes()
	// The record's content begins after the frame's head of 8 bytes: the magic, and a word of flag and length (dmlc-core,
	// recordio.h).
	image := cell{name: "image", offset: r.Offset + blocks.RecordIOHead + begin, length: r.Length - begin}
	label := cell{name: "label", kind: floatCell, number: float64(h.Label)}
	if h.Labels > 1 {
		label = cell{name: "label", kind: arrayCell, dtype: "float32", shape: []int64{h.Labels},
			offset: r.Offset + blocks.RecordIOHead + formats.IRHeaderBytes, length: 4 * h.Labels}
	}
	// If a record contains the format's magic, it is written in parts, without those four bytes (dmlc-core, recordio.h).
	// So the image is not in one piece, and the whole record becomes a block that is joined when it is read.
	if r.Split() {
		if r.Stored > blocks.MostBytes || r.Length > blocks.MostBytes {
			return nil, fmt.Errorf("%w: a record of %d bytes in several parts (expected at most %d)", formats.ErrLimit, r.Length, int64(blocks.MostBytes))
		}
		image.block = &formats.Block{Offset: r.Offset, Stored: r.Stored, Size: r.Length, Codec: blocks.RecordIO}
		image.offset = begin
		// The magic may be among the labels, so their place is in the joined record as well.
		if h.Labels > 1 {
			label.offset, label.block = formats.IRHeaderBytes, image.block
			var err error
			if label.data, err = w.Labels(r, h); err != nil {
				return nil, err
			}
		}
	}
	// The program that packed the file chose both; im2rec writes the image's number in its list as id.
	id, id2 := cell{name: "id"}, cell{name: "id2"}
	id.setUnsigned(h.ID)
	id2.setUnsigned(h.ID2)
	return []cell{image, label, id, id2}, nil
}
