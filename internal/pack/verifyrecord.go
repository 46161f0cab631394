package pack

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/tape"
	"github.com/headrace/headrace/mmap"
)

// reader is the state of one thread: a buffer, the shard read last, and a decoder if needed.
// Only its worker uses it. Buffers grow to the largest record so far and are used for all records.
type reader struct {
	decode *inspector // nil if no image is decoded
	buffer []byte
	image  []byte      // a whole image, if it is decoded
	seek   mmap.Buffer // its stored seek points
	points []byte      // the seek points that were found in it
	path   string
	file   readable
	size   int64
}

// readChunk is how much is read at once: large enough for a disk to read sequentially.
const readChunk = 1 << 20

// newReader makes what a worker keeps from one task to the next.
// If any record may need a decoder, it is made at once, so that a machine without memory for it fails at the beginning.
func newReader(c VerifyConfig, seek bool) (*reader, error) {
	r := &reader{buffer: make([]byte, readChunk)}
	if c.Decode || seek {
		return r, r.needDecoder(c)
	}
	return r, nil
}

// needDecoder makes the decoder at the first record that needs one: a dataset without seek points and without known
// faults needs none.
func (r *reader) needDecoder(c VerifyConfig) (err error) {
	if r.decode == nil {
		r.decode, err = newInspector(c.Limits.Native(), false)
	}
	return err
}

// close closes what the worker has open.
func (r *reader) close() {
	if r.decode != nil {
		r.decode.close()
	}
	r.seek.Free()
	if r.file != nil {
		r.file.Close()
	}
}

// open opens the file at path for reading, or the shard if it is in a store.
// A file stays open for the next record, which is mostly in it as well.
func (r *reader) open(ctx context.Context, path string, away *catalog.Shard) error {
	if r.file != nil && r.path == path {
		return nil
	}
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
	if away != nil {
		r.file, r.path, r.size = tape.New(ctx, away), path, away.Size()
		return nil
	}
	// Links are followed, because a dataset may consist of links to files elsewhere.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("this is no regular file")
	}
	if err != nil {
		f.Close()
		return err
	}
	r.file, r.path, r.size = f, path, info.Size()
	return nil
}

// checkRecords reads the records of some rows and compares their checksums.
// It ignores rows of a damaged batch: the batch was reported once, and the rows' places would be guesses.
func (v *verifier) checkRecords(ctx context.Context, r *reader, first, end int64) {
	for i := first; i < end && ctx.Err() == nil; i++ {
		s, key, ok := v.sample(i)
		if !ok {
			continue
		}
		path, err := v.dataset.Path(i)
		if err != nil {
			continue
		}
		record := v.seekRecord(r, s, key)
		p := Finding{File: path, Record: i, Key: key, Offset: s.Offset}
		var away *catalog.Shard
		if int(s.Shard) < len(v.ends) {
			away = v.dataset.Shard(int(s.Shard))
		}
		if err := r.open(ctx, path, away); err != nil {
			if v.dataset.Kind() == catalog.Indexed { // checkShard reports a missing shard once
				p.Expected, p.Found, p.Text = "the file that was indexed", catalog.Reason(err), "the file cannot be read"
				v.findings.add(p)
			}
			continue
		}
		v.checkRecord(r, s, p, record)
		v.checkValues(ctx, s, p)
		v.findings.track.add(1, s.Length, 0)
		v.bytes.Add(s.Length)
	}
}

// checkValues reads the fields of a sample that lie in compressed blocks, and compares them with the index's checksums.
// Other fields are in the index itself, whose batches have checksums.
func (v *verifier) checkValues(ctx context.Context, s catalog.Sample, p Finding) {
	for _, f := range v.dataset.Fields() {
		if !f.Blocks || ctx.Err() != nil {
			continue
		}
		away := func(container *catalog.Shard, to []byte, offset int64) error {
			return container.ReadAt(ctx, to, offset)
		}
		_, err := v.dataset.FieldValueBy(s.Index, f.Name, catalog.FieldReader{Away: away, Block: v.dataset.BlockReader(v.blocks, away)})
		if e := (*catalog.Error)(nil); errors.As(err, &e) {
			p.Offset, p.Text = e.Offset, e.Clause()
		} else if err != nil {
			p.Text = err.Error()
		}
		if err != nil && ctx.Err() == nil {
			v.findings.add(p)
		}
	}
}

// checkRecord compares one record. In folders the size comes first: it shows that the file is another one, which says
// more than two checksums. A different time is ignored, because a copy has another one and the checksum says more.
// Cheap checks that say much come first: size, checksum, seek points, verdict.
func (v *verifier) checkRecord(r *reader, s catalog.Sample, p Finding, seek []byte) {
	if v.dataset.Kind() == catalog.Indexed && r.size != s.Length {
		p.Expected, p.Found, p.Text = fmt.Sprint(s.Length), fmt.Sprint(r.size), "the file's size in bytes is not that it was indexed with"
		v.findings.add(p)
		return
	}
	crc, err := v.checksum(r, &s)
	if malformed := (*blocks.MalformedError)(nil); (err == nil && crc != s.CRC32C || errors.As(err, &malformed)) && v.fetchesAnew(r, &s) {
		crc, err = v.checksum(r, &s)
	}
	if err != nil {
		p.Expected, p.Found, p.Text = fmt.Sprintf("%d bytes", s.Length), catalog.Reason(err), "the record cannot be read"
		v.findings.add(p)
		return
	}
	if crc != s.CRC32C {
		p.Expected, p.Found, p.Text = fmt.Sprintf("%08x", s.CRC32C), fmt.Sprintf("%08x", crc), "the record's CRC-32C differs"
		v.findings.add(p)
		return
	}
	known := s.Verdict != catalog.Good
	// Without decode= an image is decoded only if its checksum alone would not tell the user enough.
	if !v.config.Decode && seek == nil && !known {
		return
	}
	if err := r.needDecoder(v.config); err != nil {
		v.note(err)
		return
	}
	// The limit applies here as well: a larger record is never held in memory.
	if uint64(s.Length) > r.decode.limits.MaxRecordBytes {
		// Without its bytes in memory, only its checksum can be checked again.
		if known {
			p.Found, p.Text = s.Verdict.String(), fmt.Sprintf("the record has %d bytes, max_record_bytes is %d", s.Length, r.decode.limits.MaxRecordBytes)
			v.findings.addKnown(p)
		}
		return
	}
	if short := headroom.Memory(s.Length + s.Length/4); short != nil {
		v.note(catalog.NewError(fault.KindMemory, p.File, "%v", short))
		return
	}
	if s.Block.Codec != blocks.None {
		// checksum has loaded it
	} else if err := r.load(s.Offset, s.Length); err != nil {
		p.Text = err.Error()
		v.findings.add(p)
		return
	}
	if seek != nil {
		v.checkPoints(r, s, p.Key, r.image, seek)
	}
	if v.config.Decode || known {
		v.checkVerdict(r, s, p)
	}
}

// checksum returns the checksum of a sample, wherever it lies.
// A block is decoded for it; the sample stays in r.image for the later checks.
func (v *verifier) checksum(r *reader, s *catalog.Sample) (uint32, error) {
	if s.Block.Codec == blocks.None {
		return r.checksum(s.Offset, s.Length)
	}
	image, err := blockSample(v.blocks, r.file, s, r.image)
	if err != nil {
		return 0, err
	}
	r.image = image
	return crc32.Checksum(image, castagnoli), nil
}

// fetchesAnew drops what a store sent for a sample, because the store may have other bytes. It returns false for files
// on disk, which would give the same bytes again.
func (v *verifier) fetchesAnew(r *reader, s *catalog.Sample) bool {
	switch f := r.file.(type) {
	case *tape.Tape:
		f.Forget()
	case *fileAway:
		f.forget()
	default:
		return false
	}
	v.blocks.Forget(s.InBlock())
	return true
}

// load reads a whole image.
// It is called after the checksum, so the length was read once already.
func (r *reader) load(offset, length int64) error {
	if int64(cap(r.image)) < length {
		// The length was compared with a limit before. As in roomFor, the buffer gets a quarter more.
		r.image = make([]byte, length+length/4)
	}
	r.image = r.image[:length]
	if n, err := r.file.ReadAt(r.image, offset); n < len(r.image) {
		return err
	}
	return nil
}

// checksum reads in pieces, so that memory does not depend on the length in the index.
// A wrong index may claim gigabytes; reading a megabyte at a time reaches the end of the file first.
func (r *reader) checksum(offset, length int64) (uint32, error) {
	crc := uint32(0)
	for length > 0 {
		part := r.buffer[:min(length, readChunk)]
		n, err := r.file.ReadAt(part, offset)
		if n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("the end of the file after %d bytes", offset+int64(n))
			}
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, part)
		offset, length = offset+int64(n), length-int64(n)
	}
	return crc, nil
}

// x86-64 and arm64 have an instruction for Castagnoli's polynomial, which Go's library uses.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkVerdict reads all entropy data once more. It does so for every sample if the caller asks for it, and always for
// those with a recorded fault, to say what it is and where, which no index holds. Limits may have changed since, so a
// verdict about a limit is not compared.
func (v *verifier) checkVerdict(r *reader, s catalog.Sample, p Finding) {
	again := &record{item: item{seq: s.Index, key: p.Key, path: p.File}, data: r.image, length: s.Length}
	if s.Pixels != nil {
		file, err := s.Pixels.PPM(r.image)
		if err != nil {
			v.note(catalog.NewError(fault.KindMemory, p.File, "%v", err))
			return
		}
		again.data, again.length = file, int64(len(file))
	}
	if err := r.decode.inspect(again); err != nil {
		v.note(err)
		return
	}
	// The bytes are those that were recorded, because the checksum matched. So this is no fault of the dataset, but
	// whoever trains on it should know.
	if s.Verdict != catalog.Good {
		known := p
		known.Found, known.Text = s.Verdict.String(), again.reason
		if again.offset >= 0 {
			known.Offset += again.offset
		}
		if again.reason == "" { // the limit is higher now
			known.Text = "found " + s.Verdict.String() + " when it was packed or indexed"
		}
		v.findings.addKnown(known)
	}
	if s.Pixels != nil { // pixels have no facts except their size, which only the index has
		again.facts = s.Facts
	}
	if again.verdict == catalog.Limit || s.Verdict == catalog.Limit {
		return
	}
	// The bytes are the same as then, because the checksum matched. So another verdict means another decoder, or an index
	// that somebody changed.
	if again.verdict != s.Verdict || again.facts != s.Facts {
		p.Expected, p.Found = fmt.Sprintf("%s %+v", s.Verdict, s.Facts), fmt.Sprintf("%s %+v", again.verdict, again.facts)
		p.Text = "verdict or facts are not those of the index"
		if again.reason != "" {
			p.Text += ": " + again.reason
		}
		v.findings.add(p)
	}
}
