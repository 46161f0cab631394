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

// reader is one thread's state: a buffer, the shard read last, and a decoder if one is wanted.
// It is a worker's own. Buffers grow to the largest record that it met and are used for all of them.
type reader struct {
	decode *inspector // nil where no image is looked into
	buffer []byte
	image  []byte      // whole, where it is looked into
	seek   mmap.Buffer // the seek points stored of it
	points []byte      // and those found
	path   string
	file   readable
	size   int64
}

// readChunk is how much is read at once: large enough that a disk reads in one go.
const readChunk = 1 << 20

// newReader makes what a worker keeps from one task to the next.
// The decoder is made at once where any record may need one, so that a machine without memory for it fails at the beginning.
func newReader(c VerifyConfig, seek bool) (*reader, error) {
	r := &reader{buffer: make([]byte, readChunk)}
	if c.Decode || seek {
		return r, r.needDecoder(c)
	}
	return r, nil
}

// needDecoder makes the decoder at the first record that needs one: a dataset without seek points and
// without known faults needs none.
func (r *reader) needDecoder(c VerifyConfig) (err error) {
	if r.decode == nil {
		r.decode, err = newInspector(c.Limits.Native(), false)
	}
	return err
}

// close ends what the worker has open.
func (r *reader) close() {
	if r.decode != nil {
		r.decode.close()
	}
	r.seek.Free()
	if r.file != nil {
		r.file.Close()
	}
}

// open makes path the file that is read, or the shard where it lies in a store.
// A file stays open for the next record, which mostly lies in it as well.
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
	// Links are followed: a dataset may be put together of links to files elsewhere.
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
// A row is passed over where its own batch is wrong: that has been named once, and its place would be a guess.
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
			if v.dataset.Kind() == catalog.Indexed { // of a missing shard, checkShard speaks once
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
// Other fields stand in the index itself, whose batches have checksums.
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

// checkRecord compares one record. In folders the size comes first: it says that the file is another one, which is a
// better answer than two checksums. Its time may be another, as of a copy: the checksum says more.
// The checks go from what is cheap and says most to what is dear: size, checksum, seek points, verdict.
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
	// Without decode= an image is looked at only where its checksum alone would not say what a user wants to know.
	if !v.config.Decode && seek == nil && !known {
		return
	}
	if err := r.needDecoder(v.config); err != nil {
		v.note(err)
		return
	}
	// The limit holds here as well: what is over it is in no one's memory.
	if uint64(s.Length) > r.decode.limits.MaxRecordBytes {
		// Not held in memory, so nothing but its checksum can be said of it anew.
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

// checksum is that of a sample, wherever it lies.
// A block is decoded to be summed; its sample stays in r.image for what follows.
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

// fetchesAnew forgets what a store gave for a sample, which may not be what it has; false of files, which say the same again.
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
// It is called behind the checksum, so that length has been read once already.
func (r *reader) load(offset, length int64) error {
	if int64(cap(r.image)) < length {
		// The length is checked against a limit before; with room to spare, as in roomFor.
		r.image = make([]byte, length+length/4)
	}
	r.image = r.image[:length]
	if n, err := r.file.ReadAt(r.image, offset); n < len(r.image) {
		return err
	}
	return nil
}

// checksum reads in pieces, so that memory does not depend on what the index claims.
// A record may be of gigabytes by an index that is wrong; a megabyte at a time finds the end of the file.
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

// Castagnoli's polynomial has an instruction on x86-64 and arm64, which Go's library uses.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkVerdict reads all entropy data once more: of every sample where the caller asks for it, and
// always of those with a fault on record, to say what and where it is, which no index holds. Limits
// may have changed since, so a verdict that is about a limit is not compared.
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
	// Its bytes are those that were recorded (the checksum held), so this is no fault of the dataset,
	// and yet whoever trains on it should know.
	if s.Verdict != catalog.Good {
		known := p
		known.Found, known.Text = s.Verdict.String(), again.reason
		if again.offset >= 0 {
			known.Offset += again.offset
		}
		if again.reason == "" { // a limit that is higher now
			known.Text = "found " + s.Verdict.String() + " when it was packed or indexed"
		}
		v.findings.addKnown(known)
	}
	if s.Pixels != nil { // pixels have no facts but their size, which stands in the index alone
		again.facts = s.Facts
	}
	if again.verdict == catalog.Limit || s.Verdict == catalog.Limit {
		return
	}
	// The bytes are those of then (the checksum), so another answer is another decoder, or an index that somebody
	// changed.
	if again.verdict != s.Verdict || again.facts != s.Facts {
		p.Expected, p.Found = fmt.Sprintf("%s %+v", s.Verdict, s.Facts), fmt.Sprintf("%s %+v", again.verdict, again.facts)
		p.Text = "verdict or facts are not those of the index"
		if again.reason != "" {
			p.Text += ": " + again.reason
		}
		v.findings.add(p)
	}
}
