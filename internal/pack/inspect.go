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

// record is a sample whose file was read: what the index says of it, and its bytes.
// It is made by take, filled by one worker, and handed to the writer, which is done with it when emit returns. Nothing
// of it is shared in between.
type record struct {
	item
	facts   catalog.Facts
	verdict catalog.Verdict
	reason  string // of a fault
	offset  int64  // of the fault in the file, -1 where unknown
	data    []byte // nil where the file is over the record limit: it is copied from path
	length  int64
	space   []byte // what data lies in, where that is more
	seek    []byte // packed seek points; empty where there are none
	mtimeNs int64
	err     error // the job cannot go on

	recoded   recoded
	raw       bool   // the bytes are decoded pixels
	pillow    bool   // the pixels are Pillow's
	further   int64  // further images whose pixels are Pillow's
	unread    string // why one of them is read by nobody
	original  int64  // bytes of the file before it was written anew
	stored    uint32 // checksum of the pixels as their container has them
	extension string // of the member; "": by the file's name
}

// inspector is one thread's decoder state.
// Its memory, context and process are used by one goroutine.
type inspector struct {
	context *native.Context
	limits  native.Limits
	seek    bool          // note seek points
	pillow  *pillow       // decodes what is unsupported; nil: nobody does
	file    *os.File      // the container that was read last
	blocks  *blocks.Cache // of containers that are compressed in places
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

// read loads the file of r into buffer (grown as needed), unless the sample is in memory. wait
// is asked before memory is taken, with the bytes that are needed.
// Everything that a caller may not rely on is caught here: a file that is no file, grows, shrinks, or is larger than memory.
func (in *inspector) read(r *record, buffer []byte, wait func(int64)) ([]byte, error) {
	if r.path == "" && r.inside == nil {
		r.data, r.length = r.item.data, int64(len(r.item.data))
		wait(r.length) // it is in memory already; this holds back the samples behind it
		return buffer, nil
	}
	if r.inside != nil {
		return in.readInside(r, buffer, wait)
	}
	if r.away != nil {
		return buffer, in.readAway(r, wait)
	}
	// O_NONBLOCK: a FIFO named like an image must not hang the job; regular files ignore it.
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
	// Taken before the bytes: a file that changes afterwards shows a later time than the index.
	r.length, r.mtimeNs = info.Size(), info.ModTime().UnixNano()
	// No option lets it through: the index has 32 bits for a length.
	if r.length > maxRecordBytes {
		return buffer, recordError(r, fault.KindLimit, fault.Differs("the file is too large", fmt.Sprintf("at most %d bytes", int64(maxRecordBytes)), r.length), nil)
	}
	// Such a file is a sample with a verdict, so that numbers of samples do not depend on limits.
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
	// One byte more than there should be shows a file that grows meanwhile.
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

// maxRecordBytes is what the index's length column holds; tar would take 8 GiB.
const maxRecordBytes = 1<<32 - 1

// oversized notes a file that is over the record limit: it is kept, with its checksum, but
// neither held in memory nor looked into.
// n is compared with the length, for the file may have been cut or grown.
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

// inspect fills in facts and verdict.
// A verdict that is there already is of the record limit, and nothing was read.
func (in *inspector) inspect(r *record) error {
	if r.verdict != catalog.Unknown {
		return nil
	}
	// The one pass over the entropy data: facts, checksum and verdict come from the same bytes
	// that are written to the shard.
	// A record without bytes has no first one to point at.
	var first unsafe.Pointer
	if r.length > 0 {
		first = unsafe.Pointer(unsafe.SliceData(r.data))
	}
	var f native.Facts
	var warnings uint32
	var err error
	// In the same pass: to find seek points later is to decode all entropy data once more.
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
	// An image with a warning decodes; another decoder may decode it otherwise.
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
	// A verdict on the file; the codes behind these are about us or this machine, and end the job.
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

// recordError names the file, the sample, and of a manifest's the row, for there the mistake may be.
// Errors that end a job carry all that is known of the place.
func recordError(r *record, kind fault.Kind, text string, err error) error {
	if r.from.manifest != "" {
		text += ", named by " + r.from.String()
	}
	return &catalog.Error{Kind: kind, File: r.path, Record: r.seq, Key: r.key, Offset: -1, Text: text, Err: err}
}

// refused says of a row that the index does not take in which container its sample lies.
// An index refuses a key or a value that was the container's: it is the container that is wrong, and not the caller's
// argument.
func (r *record) refused(err error) error {
	var e *catalog.Error
	if r.inside == nil || !errors.As(err, &e) || e.Kind != fault.KindArgument {
		return err
	}
	return recordError(r, fault.KindBadFile, e.Text, nil)
}

// faulty reports whether a verdict belongs in the list of faults: warnings do, for whoever
// trains on such a file should know of it.
func (r *record) faulty() bool { return r.verdict != catalog.Good }

// fault has the key in the place of the file for a sample of the Writer, which has no file.
func (r *record) fault() Fault {
	file := r.path
	if file == "" {
		file = r.key
	}
	return Fault{Record: r.seq, File: file, Offset: r.offset, Verdict: r.verdict.String(), Reason: r.reason}
}
