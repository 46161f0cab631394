package formats

import (
	"io"
)

// TarWriter writes a ustar archive: one header block for each member, in which only name and size vary.
// It counts bytes, so that the caller knows where each content is.
type TarWriter struct {
	w   io.Writer
	n   int64
	err error
}

// NewTarWriter begins an archive; w should be buffered.
func NewTarWriter(w io.Writer) *TarWriter { return &TarWriter{w: w} }

// Len is the number of bytes written so far.
func (t *TarWriter) Len() int64 { return t.n }

// Member writes a member and returns where its content begins. The content is read from content, which must have
// exactly size bytes.
func (t *TarWriter) Member(name string, size int64, content io.Reader) (int64, error) {
	at, err := t.header(name, size)
	if err != nil {
		return 0, err
	}
	// The header has the length already. A shorter content would shift all later members; what exceeds it is not written.
	n, err := io.Copy(t.w, io.LimitReader(content, size))
	t.n += n
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, t.fail(err)
	}
	return at, t.zeros(padding(size))
}

// MemberBytes is Member for a content in memory.
func (t *TarWriter) MemberBytes(name string, content []byte) (int64, error) {
	at, err := t.header(name, int64(len(content)))
	if err != nil {
		return 0, err
	}
	if err := t.write(content); err != nil {
		return 0, err
	}
	return at, t.zeros(padding(int64(len(content))))
}

// Close writes the two blocks of zeros that end an archive and fills its last record. It does not close the underlying
// writer.
func (t *TarWriter) Close() error {
	return t.zeros(ArchiveBytes(t.n) - t.n)
}

// ArchiveBytes is the size of an archive whose members take that many bytes.
func ArchiveBytes(members int64) int64 {
	n := members + 2*TarBlock
	return n + (tarRecord-n%tarRecord)%tarRecord
}

// MemberBytesOnDisk is how much a member of that size takes in an archive.
func MemberBytesOnDisk(size int64) int64 { return TarBlock + size + padding(size) }

func (t *TarWriter) header(name string, size int64) (int64, error) {
	if t.err != nil {
		return 0, t.err
	}
	var block [TarBlock]byte
	if err := putTarHeader(&block, name, size); err != nil {
		return 0, err // nothing was written, so the archive is still valid
	}
	err := t.write(block[:])
	return t.n, err
}

var zeroBlocks [tarRecord]byte

func (t *TarWriter) zeros(n int64) error {
	for n > 0 {
		part := min(n, tarRecord)
		if err := t.write(zeroBlocks[:part]); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (t *TarWriter) write(b []byte) error {
	if t.err != nil {
		return t.err
	}
	n, err := t.w.Write(b)
	t.n += int64(n)
	return t.fail(err)
}

// fail keeps the first error, because an archive with a gap must not be continued.
func (t *TarWriter) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}
