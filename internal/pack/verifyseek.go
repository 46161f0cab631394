package pack

import (
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// stepAt is the place of the number of MCUs between two seek points in a record of seek points (native/jpeg/seek.h).
// The first byte of a record is its version.
const stepAt = 1

// checkSeekPlaces checks that the records of all rows together are the seek file, to the last byte.
// checkRows has compared each row with the one before, so only the sum and the count are left.
func (v *verifier) checkSeekPlaces(last catalog.SeekPlace, samples int64) {
	m := v.dataset.Manifest().Seek
	if m == nil {
		return // then no row has seek points, because its batch was checked
	}
	if end := last.Offset + last.Length; end != m.Size || samples != m.Samples {
		v.findings.add(Finding{File: m.Name, Record: -1, Offset: end, Expected: fmt.Sprintf("%d samples, %d bytes", m.Samples, m.Size),
			Found: fmt.Sprintf("%d samples, %d bytes", samples, end), Text: "the rows' seek points are not all of the file"})
	}
}

// seekRecord reads the seek points of a sample and compares their checksum; nil if there are none, or if they are
// faulty.
// Without seek points a sample is decoded from its beginning, so a fault here costs time but no pixels. It is a finding
// nevertheless.
func (v *verifier) seekRecord(r *reader, s catalog.Sample, key string) []byte {
	if s.Seek.Length == 0 {
		return nil
	}
	file := v.dataset.SeekFile()
	if file == nil { // the seek file stays in its store of objects
		return nil
	}
	p := Finding{File: file.Path(), Record: s.Index, Key: key, Offset: s.Seek.Offset}
	if most := r.decode.limits.MaxRecordBytes; uint64(s.Seek.Length) > most {
		p.Expected, p.Found, p.Text = fmt.Sprintf("at most %d bytes", most), fmt.Sprint(s.Seek.Length), "the seek points' length in bytes"
		v.findings.add(p)
		return nil
	}
	view, err := file.Read(&r.seek, s.Seek.Offset, s.Seek.Length)
	if err != nil {
		p.Expected, p.Found, p.Text = fmt.Sprintf("%d bytes", s.Seek.Length), err.Error(), "the seek points cannot be read"
		v.findings.add(p)
		return nil
	}
	record := view.Bytes() // the Dataset's file is read by pread, so these are our own bytes
	if crc := crc32.Checksum(record, castagnoli); crc != s.Seek.CRC32C {
		p.Expected, p.Found, p.Text = fmt.Sprintf("%08x", s.Seek.CRC32C), fmt.Sprintf("%08x", crc), "the seek points' CRC-32C"
		v.findings.add(p)
		return nil
	}
	return record
}

// checkPoints finds the seek points again in the image's bytes, whose checksum matched. If the results are equal, the
// record's structure is right too.
// They are found with the record's own step, because another version may have used another one.
func (v *verifier) checkPoints(r *reader, s catalog.Sample, key string, image, record []byte) {
	p := Finding{File: v.dataset.SeekFile().Path(), Record: s.Index, Key: key, Offset: s.Seek.Offset}
	step := uint32(0)
	if len(record) > stepAt {
		step = uint32(record[stepAt])
	}
	if step == 0 {
		p.Expected, p.Found, p.Text = "a step of 1 to 255 MCUs", "none", "this is no record of seek points"
		v.findings.add(p)
		return
	}
	_, points, _, err := r.decode.context.InspectSeek(unsafe.Pointer(unsafe.SliceData(image)), int64(len(image)), step, r.points[:0])
	var e *native.Error
	switch {
	case errors.As(err, &e) && e.Code == native.Limit:
		return // limits may be lower than before; nothing is wrong with the file
	case errors.As(err, &e) && e.Code == native.Memory:
		v.note(catalog.NewError(fault.KindMemory, p.File, "%s", e.Text))
		return
	case len(points) == 0:
		p.Expected, p.Found, p.Text = "none", fmt.Sprintf("%d bytes", len(record)), "seek points of an image that can have none"
		v.findings.add(p)
		return
	}
	r.points = points
	if string(points) == string(record) {
		return
	}
	at := 0
	for at < len(points) && at < len(record) && points[at] == record[at] {
		at++
	}
	p.Offset += int64(at)
	p.Expected, p.Found = hexFrom(points, at), hexFrom(record, at)
	p.Text = fmt.Sprintf("the seek points differ from those of the image at byte %d of %d", at, len(record))
	v.findings.add(p)
}

// hexFrom shows a few bytes.
// Eight bytes are enough to see whether a value or a position differs.
func hexFrom(b []byte, at int) string {
	if at == len(b) {
		return "its end"
	}
	return fmt.Sprintf("%x", b[at:min(len(b), at+8)])
}
