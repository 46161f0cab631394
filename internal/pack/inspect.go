package pack

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/native"
)

// record is a sample whose file was read: what the index will say about it, and its bytes.
// take makes it, one worker fills it, and the writer uses it until emit returns. No two of them use it at the same
// time.
type record struct {
	item
	facts   catalog.Facts
	verdict catalog.Verdict
	reason  string // of a fault
	offset  int64  // of the fault in the file, -1 if unknown
	data    []byte // nil if the file exceeds the record limit and lies in no block; it is then copied from path
	length  int64
	space   []byte // the buffer that data is part of, if it is larger
	seek    []byte // packed seek points; empty if there are none
	mtimeNs int64
	err     error // the job cannot go on

	recoded   recoded
	raw       bool   // the bytes are decoded pixels
	pillow    bool   // the pixels are Pillow's
	further   int64  // number of further images whose pixels are Pillow's
	unread    string // why neither the engine nor Pillow reads a further image
	original  int64  // size of the file before it was rewritten
	stored    uint32 // checksum of the pixels as stored in their container
	extension string // of the tar member; "": the file's own
}

// inspector is the decoder state of one thread.
// One goroutine uses its memory, context and process.
type inspector struct {
	context *native.Context
	limits  native.Limits
	seek    bool          // note seek points
	pillow  *pillow       // decodes what is unsupported; nil: nothing does
	file    *os.File      // the container that was read last
	blocks  *blocks.Cache // cache of the blocks of compressed containers
}

func newInspector(limits native.Limits, seek bool) (*inspector, error) {
	c, err := native.NewContext(limits)
	if err != nil {
		return nil, catalog.NewError(fault.KindMemory, "", "%v", err)
	}
	return &inspector{context: c, limits: limits, seek: seek}, nil
}

func (in *inspector) close() {
	in.context.Close()
	if in.pillow != nil {
		in.pillow.end()
	}
	if in.file != nil {
		in.file.Close()
	}
}

// read reads the file of r into buffer (grown as needed), unless the sample is in memory. wait is called with the
// number of bytes before memory is allocated.
// All that may be wrong with a file is noticed here: it is no file, grows, shrinks, or is larger than the memory.
func (in *inspector) read(r *record, buffer []byte, wait func(int64)) ([]byte, error) {
	if r.path == "" && r.inside == nil {
		r.data, r.length = r.item.data, int64(len(r.item.data))
		wait(r.length) // the bytes are in memory already; this holds back the samples after it
		return buffer, nil
	}
	if r.inside != nil {
		return in.readInside(r, buffer, wait)
	}
	if r.away != nil {
		return buffer, in.readAway(r, wait)
	}
	// O_NONBLOCK is set because a FIFO named like an image must not hang the job; regular files ignore it.
	f, err := os.OpenFile(r.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return buffer, recordError(r, fault.KindIO, "cannot open it", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return buffer, recordError(r, fault.KindIO, "cannot look at it", err)
	}
	if !info.Mode().IsRegular() {
		return buffer, recordError(r, fault.KindBadFile, "this is no regular file", nil)
	}
	// The time is read before the bytes, so that a file that changes afterwards has a later time than in the index.
	r.length, r.mtimeNs = info.Size(), info.ModTime().UnixNano()
	// No option allows such a file, because the index has 32 bits for a length.
	if r.length > maxRecordBytes {
		return buffer, recordError(r, fault.KindLimit, fault.Differs("the file is too large", fmt.Sprintf("at most %d bytes", int64(maxRecordBytes)), r.length), nil)
	}
	// Such a file becomes a sample with a verdict, so that numbers of samples do not depend on limits.
	if uint64(r.length) > in.limits.MaxRecordBytes {
		return buffer, in.oversized(r, f)
	}
	wait(r.length)
	if int64(cap(buffer)) < r.length+1 {
		if short := headroom.Memory(r.length + r.length/4); short != nil {
			return buffer, recordError(r, fault.KindMemory, short.Error(), nil)
		}
		buffer = make([]byte, r.length+r.length/4+1)
	}
	// One more byte is asked for, to notice a file that grows meanwhile.
	n, err := io.ReadFull(f, buffer[:r.length+1])
	if err == nil || int64(n) != r.length || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%d bytes were there, now %d or more", r.length, n)
		}
		return buffer, recordError(r, fault.KindIO, "the file cannot be read, or changed meanwhile", err)
	}
	r.data = buffer[:r.length:r.length]
	return buffer, nil
}

// maxRecordBytes is the largest number that the index's length column holds; tar would allow 8 GiB.
const maxRecordBytes = 1<<32 - 1

// oversized notes a file that exceeds the record limit. It is kept, with its checksum, but not inspected, and held in
// memory only if it was decoded from a block.
// n is compared with the length, because the file may have been cut or may have grown.
func (in *inspector) oversized(r *record, f io.Reader) error {
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, f)
	if err != nil || n != r.length {
		return recordError(r, fault.KindIO, "the file cannot be read, or changed meanwhile", err)
	}
	r.facts.CRC32C, r.verdict, r.offset = sum.Sum32(), catalog.Limit, -1
	r.reason = fmt.Sprintf("the record has %d bytes, max_record_bytes is %d", r.length, in.limits.MaxRecordBytes)
	return nil
}

// inspect sets facts and verdict.
// If there is a verdict already, it is that of the record limit, and nothing was read.
func (in *inspector) inspect(r *record) error {
	if r.verdict != catalog.Unknown {
		return nil
	}
	// This is the one pass over the entropy data: facts, checksum and verdict come from the same bytes that are written to
	// the shard. A record without bytes has no first byte to point at.
	var first unsafe.Pointer
	if r.length > 0 {
		first = unsafe.Pointer(unsafe.SliceData(r.data))
	}
	var f native.Facts
	var warnings uint32
	var err error
	// Seek points come from the same pass, because finding them later would decode all entropy data once more.
	if in.seek {
		f, r.seek, warnings, err = in.context.InspectSeek(first, r.length, native.SeekStep, nil)
	} else {
		f, warnings, err = in.context.Inspect(first, r.length, true)
	}
	r.facts = catalog.Facts{
		Width: f.Width, Height: f.Height, CRC32C: f.CRC32C, Channels: f.Channels, Codec: f.Codec,
		Sampling: f.Sampling, Process: f.Process, Orientation: f.Orientation,
	}
	r.verdict, r.offset = catalog.Good, -1
	// An image with a warning can be decoded, but another decoder may decode it differently.
	if err == nil {
		if warnings > 0 {
			r.verdict = catalog.Warnings
			r.reason = "the decoder gave 1 warning"
			if warnings > 1 {
				r.reason = fmt.Sprintf("the decoder gave %d warnings", warnings)
			}
		}
		return nil
	}
	var e *native.Error
	if !errors.As(err, &e) {
		return recordError(r, fault.KindInternal, "cannot inspect it", err)
	}
	r.reason, r.offset = e.Text, e.Offset
	if r.inside != nil && r.offset >= 0 { // the decoder counts from the image's first byte
		r.offset += r.inside.offset
	}
	switch e.Code {
	// These codes are verdicts on the file. The other ones are about us or this machine, and end the job.
	case native.Bad, native.Checksum:
		r.verdict = catalog.Bad
	case native.Truncated:
		r.verdict = catalog.Truncated
	case native.Unsupported:
		r.verdict = catalog.Unsupported
	case native.Limit:
		r.verdict = catalog.Limit
	case native.Memory:
		return recordError(r, fault.KindMemory, e.Text, nil)
	default:
		return recordError(r, fault.KindInternal, e.Text, nil)
	}
	return nil
}

// recordError makes an error with file and sample, and with the manifest's row if there is one, because the mistake may
// be there.
// Errors that end a job say all that is known about the place.
func recordError(r *record, kind fault.Kind, text string, err error) error {
	if r.from.manifest != "" {
		text += ", named by " + r.from.String()
	}
	return &catalog.Error{Kind: kind, File: r.path, Record: r.seq, Key: r.key, Offset: -1, Text: text, Err: err}
}

// refused adds the container to the error of a row that the index does not accept.
// A key or value that the index refuses came from the container, so the container is at fault, and not the caller's
// argument.
func (r *record) refused(err error) error {
	var e *catalog.Error
	if r.inside == nil || !errors.As(err, &e) || e.Kind != fault.KindArgument {
		return err
	}
	return recordError(r, fault.KindBadFile, e.Text, nil)
}

// faulty says whether a verdict belongs in the list of faults. Warnings do, because whoever trains on such a file
// should know about it.
func (r *record) faulty() bool { return r.verdict != catalog.Good }

// fault makes the entry for the list. A sample of the Writer has no file, so its key stands in its place.
func (r *record) fault() Fault {
	file := r.path
	if file == "" {
		file = r.key
	}
	return Fault{Record: r.seq, File: file, Offset: r.offset, Verdict: r.verdict.String(), Reason: r.reason}
}
