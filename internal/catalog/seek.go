package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// SeekFile is the file of all seek points as the manifest states it: a head of SeekHeadBytes, then the records of all
// samples that have one, in the order of rows and without gaps. The rows hold the checksum of each record. Only package
// native knows what a record contains.
type SeekFile struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`    // of the whole file
	Samples int64  `json:"samples"` // samples that have a record
}

const (
	seekPrefix  = "headrace-seek-"
	seekMagic   = "HRSEEK\x00\x00"
	seekVersion = 1

	// SeekHeadBytes is the size of the head: 8 bytes of magic, version and 0 as uint32.
	SeekHeadBytes = 16
)

// SeekFileName returns the name of seek file n; it has the same number as its index.
func SeekFileName(n int) string { return fmt.Sprintf("%s%05d.bin", seekPrefix, n) }

// SeekHead returns the beginning of every seek file.
func SeekHead() []byte {
	head := append(make([]byte, 0, SeekHeadBytes), seekMagic...)
	head = binary.LittleEndian.AppendUint32(head, seekVersion)
	return binary.LittleEndian.AppendUint32(head, 0)
}

// Bytes returns the size of all records.
func (s *SeekFile) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.Size - SeekHeadBytes
}

// SeekShare returns the bytes of seek points as a share of those of the images.
func (m *Manifest) SeekShare() float64 {
	if m.Bytes == 0 {
		return 0
	}
	return float64(m.Seek.Bytes()) / float64(m.Bytes)
}

func (m *Manifest) checkSeek() error {
	s := m.Seek
	switch {
	case s == nil:
		return nil
	case !plainName(s.Name) || !strings.HasPrefix(s.Name, seekPrefix):
		return fmt.Errorf("seek.name is %.80q (expected %q)", s.Name, SeekFileName(0))
	case s.Size <= SeekHeadBytes || s.Samples < 1 || s.Samples > m.Rows:
		return fmt.Errorf("seek has %d bytes with points of %d samples of %d", s.Size, s.Samples, m.Rows)
	}
	return nil
}

// seekCheck checks the rows of one batch in order.
type seekCheck struct {
	size, end uint64
}

func newSeekCheck(m *Manifest) seekCheck {
	if m.Seek == nil {
		return seekCheck{}
	}
	// This starts anew for each batch: batches are validated in any order, so the end of an earlier one is not known.
	return seekCheck{uint64(m.Seek.Size), SeekHeadBytes}
}

// check refuses a record outside the file or one that overlaps an earlier row's.
func (s *seekCheck) check(offset, length uint64, crc uint32) error {
	switch {
	case length == 0 && (offset != 0 || crc != 0):
		return fmt.Errorf("seek points of 0 bytes at offset %d with checksum %08x", offset, crc)
	case length == 0:
		return nil
	case s.size == 0:
		return fmt.Errorf("seek points of %d bytes, and the dataset has no seek file", length)
	case offset > s.size || length > s.size-offset: // unsigned, and compared before it is added to
		return fmt.Errorf("seek points at offset %d with %d bytes lie outside the seek file, which has %d", offset, length, s.size)
	case offset < s.end:
		return fmt.Errorf("seek points at offset %d overlap what ends at %d", offset, s.end)
	}
	s.end = offset + length
	return nil
}

// openSeek opens the seek file of a manifest and checks size and head. The Dataset keeps it open, because a new index
// may remove its name before a loader reads from it.
func openSeek(path string, m *Manifest) (*mmap.File, error) {
	// It is read by pread: the points of a sample are short and lie anywhere, and a mapping would read and keep whole
	// pages for them.
	f, err := mmap.Open(path, mmap.Options{Backend: mmap.Pread})
	if err != nil {
		return nil, IOError(path, "cannot open the seek file", err)
	}
	if err := checkSeekFile(f, m.Seek.Size); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkSeekFile(f *mmap.File, size int64) error {
	if found := f.Size(); found != size {
		return sizeError(f.Path(), "the seek file", size, found)
	}
	var b mmap.Buffer
	defer b.Free()
	view, err := f.Read(&b, 0, SeekHeadBytes)
	switch {
	case errors.Is(err, mmap.ErrTruncated):
		return &Error{Kind: fault.KindTruncated, File: f.Path(), Record: -1, Offset: 0, Text: "the seek file's head", Err: err}
	case err != nil:
		return IOError(f.Path(), "cannot read the seek file", err)
	case string(view.Bytes()) != string(SeekHead()):
		return &Error{Kind: fault.KindBadFile, File: f.Path(), Record: -1, Offset: 0, Text: "this is no seek file of version 1"}
	}
	return nil
}
