package formats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/headrace/headrace/internal/flat"
)

// Arrow walks the rows of Arrow's IPC formats (https://arrow.apache.org/docs/format/Columnar.html): the stream, a
// sequence of messages, and the file, whose footer says where they are. It reads metadata, offsets and numbers; of
// bytes and texts it finds only the places.
type Arrow struct {
	Leaves   []Leaf
	Metadata map[string]string // of the schema

	r      io.ReaderAt
	size   int64
	most   int64 // largest size of a buffer that is decoded
	fields []arrowField
	at     int64   // place of the next message of a stream
	blocks []int64 // for a file, places of its record batches; nil for a stream
	first  []int64 // for a file, places of the dictionaries that are not read yet
	file   bool
	early  bool  // it may be older than 0.15, when messages had no marker before them
	walked int64 // bytes of all messages so far
	total  int64 // number of rows of all batches so far
	batch  arrowBatch
	chunk  []arrowChunk // for each leaf, some rows that were read together
	base   int64        // the first row of the chunk
	next   int64        // the next row

	dictionaries map[int64]*arrowDictionary // by their number
	held         int64                      // size of the dictionaries in memory
}

const (
	// A file begins and ends with the magic. Since Arrow 0.15 a stream begins with the marker that precedes each message
	// ("Encapsulated message format"). Before that a message, and so a stream, began with its length.
	arrowMagic       = "ARROW1"
	arrowContinues   = 0xffffffff
	maxArrowMetadata = 64 << 20
	// MetadataVersion (Schema.fbs): V4 is that of Arrow 0.8 to 0.17, V5 that of 1.0 and later. Earlier ones have other
	// buffers.
	arrowV4 = 3
	// Rows are read this many at a time. It is a multiple of 8, so that the bits that say what is null begin with a byte.
	arrowChunkRows = 4096
	maxArrowChunk  = 1 << 20 // bytes of texts that are read together
)

// IsArrow recognises a stream or a file.
func IsArrow(head []byte) bool {
	return len(head) >= 8 && (string(head[:6]) == arrowMagic || binary.LittleEndian.Uint32(head) == arrowContinues)
}

// IsEarlyArrow recognises a stream from before Arrow 0.15 by its first message: a length, which together with its own
// four bytes is a multiple of eight, and a schema without a body.
func IsEarlyArrow(r io.ReaderAt, size int64) bool {
	const most = 64 << 10 // a message's own numbers come before the fields of its schema
	var head [4]byte
	if size < 8 || readAt(r, head[:], 0) != nil {
		return false
	}
	length := int64(binary.LittleEndian.Uint32(head[:]))
	if length%8 != 4 || length > min(maxArrowMetadata, size-4) {
		return false
	}
	data := make([]byte, min(length, most))
	if readAt(r, data, 4) != nil {
		return false
	}
	message := flat.Root(data)
	return message.U16(flat.MessageVersion) <= arrowV4 && message.U8(flat.MessageHeaderType) == flat.HeaderSchema &&
		message.I64(flat.MessageBodyLength) == 0 && message.Table(flat.MessageHeader).Field(flat.SchemaFields) != 0
}

// NewArrow reads the schema. Compressed buffers of more than most bytes are not decoded.
func NewArrow(r io.ReaderAt, size, most int64) (*Arrow, error) {
	a := &Arrow{r: r, size: size, most: most, Metadata: make(map[string]string)}
	var head [8]byte
	if size < int64(len(head)) {
		return nil, &WalkError{0, fmt.Errorf("%w: an Arrow stream of %d bytes", ErrTruncated, size)}
	}
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	// Hugging Face's save_to_disk writes streams; Feather and most tools write files. The two begin differently, so the
	// file's name does not matter.
	if a.file = string(head[:6]) == arrowMagic; a.file {
		return a, a.openFile()
	}
	a.early = binary.LittleEndian.Uint32(head[:]) != arrowContinues
	message, body, err := a.message(0)
	if errors.Is(err, io.EOF) {
		err = &WalkError{0, fmt.Errorf("%w: an Arrow stream without a schema", ErrTruncated)}
	}
	if err != nil {
		return nil, err
	}
	a.at = body + message.I64(flat.MessageBodyLength)
	if message.U8(flat.MessageHeaderType) != flat.HeaderSchema {
		return nil, &WalkError{0, fmt.Errorf("%w: an Arrow stream that does not begin with a schema", ErrBad)}
	}
	return a, a.schema(message.Table(flat.MessageHeader), 0)
}

// openFile reads the footer of a file: metadata, its length, and the magic again.
func (a *Arrow) openFile() error {
	var tail [10]byte
	// The file ends with the footer's length and the magic; a file that was cut has neither.
	at := a.size - int64(len(tail))
	if at < 8 {
		return &WalkError{a.size, fmt.Errorf("%w: an Arrow file of %d bytes", ErrTruncated, a.size)}
	}
	if err := readAt(a.r, tail[:], at); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(tail[4:]) != arrowMagic:
		return &WalkError{at + 4, fmt.Errorf("%w: an Arrow file without its footer at the end", ErrTruncated)}
	case length > at-8:
		return &WalkError{at, fmt.Errorf("%w: a footer of %d bytes in a file of %d", ErrBad, length, a.size)}
	case length > maxArrowMetadata:
		return &WalkError{at, fmt.Errorf("%w: a footer of %d bytes (expected at most %d)", ErrLimit, length, maxArrowMetadata)}
	}
	data := make([]byte, length)
	if err := readAt(a.r, data, at-length); err != nil {
		return err
	}
	footer := flat.Root(data)
	a.early = true // decided by the messages, because writers put their own latest version into any footer
	// A Block of File.fbs has 24 bytes: the offset of the message, and the lengths of its metadata and of its body. The
	// message itself has both lengths, and they are compared with the file there.
	places := func(field uint64) (at []int64) {
		blocks, _, count := footer.Vector(field, 24)
		for i := range count {
			at = append(at, flat.I64(blocks, uint64(24*i)))
		}
		return at
	}
	a.first, a.blocks = places(flat.FooterDictionaries), places(flat.FooterBatches)
	return a.schema(footer.Table(flat.FooterSchema), at-length)
}

// message reads the metadata of the message at a place, and returns where its body begins. A stream ends with a message
// without metadata, or with the file.
func (a *Arrow) message(at int64) (flat.Table, int64, error) {
	var head [8]byte
	if at == a.size {
		return flat.Table{}, 0, io.EOF
	}
	wrong := func(kind error, format string, v ...any) (flat.Table, int64, error) {
		return flat.Table{}, 0, &WalkError{at, fmt.Errorf("%w: "+format, append([]any{kind}, v...)...)}
	}
	least := int64(len(head))
	if a.early { // the end mark of such a stream has four bytes
		least = 4
	}
	if at < 0 || at > a.size-least {
		return wrong(ErrTruncated, "a message at byte %d of %d", at, a.size)
	}
	if err := readAt(a.r, head[:min(int64(len(head)), a.size-at)], at); err != nil {
		return flat.Table{}, 0, err
	}
	marker, length := binary.LittleEndian.Uint32(head[:]), int64(binary.LittleEndian.Uint32(head[4:]))
	begin := at + int64(len(head))
	if a.early && marker != arrowContinues {
		begin, length = at+4, int64(marker)
	}
	// The place is inside the file and the length is below 2^32, so the sum cannot overflow.
	body := begin + length
	switch {
	case marker != arrowContinues && (!a.early || marker > maxArrowMetadata):
		return wrong(ErrBad, "no message of Arrow stands here")
	// This is the end of a stream ("IPC Streaming Format").
	case length == 0:
		return flat.Table{}, 0, io.EOF
	case length > maxArrowMetadata:
		return wrong(ErrLimit, "metadata of %d bytes (expected at most %d)", length, maxArrowMetadata)
	case body > a.size:
		return wrong(ErrTruncated, "metadata up to byte %d of %d", body, a.size)
	}
	data := make([]byte, length)
	if err := readAt(a.r, data, begin); err != nil {
		return flat.Table{}, 0, err
	}
	message := flat.Root(data)
	version := message.U16(flat.MessageVersion)
	switch n := message.I64(flat.MessageBodyLength); {
	case marker != arrowContinues && (message.U8(flat.MessageHeaderType) == 0 || version > arrowV4):
		return wrong(ErrBad, "no message of Arrow stands here")
	case marker != arrowContinues && version < arrowV4:
		return wrong(ErrUnsupported, "metadata of version V%d, of Arrow before 0.8 (expected V4 or V5); read the file with an Arrow of before 0.15 and write it anew", version+1)
	case n < 0:
		return wrong(ErrBad, "a body of %d bytes", n)
	case n > a.size-body:
		return wrong(ErrTruncated, "a body of %d bytes that ends behind the file's %d", n, a.size)
	}
	return message, body, nil
}

// Next fills values, one for each leaf, with those of the next row, and returns where its batch begins; io.EOF after
// the last row.
func (a *Arrow) Next(values []Value) (int64, error) {
	for a.next == a.batch.rows {
		if err := a.nextBatch(); err != nil {
			return 0, err
		}
	}
	if a.next == a.base+arrowChunkRows || a.next == 0 {
		if err := a.readChunk(); err != nil {
			return 0, a.wrong(err)
		}
	}
	for i := range a.Leaves {
		if a.Leaves[i].Kind == RefusedLeaf || a.Leaves[i].Skip {
			values[i] = Value{Null: true}
			continue
		}
		var err error
		if values[i], err = a.chunk[i].value(a.r, int(a.next-a.base), &a.Leaves[i]); err != nil {
			return 0, a.wrong(err)
		}
	}
	a.next++
	return a.batch.at, nil
}

// wrong adds the batch's place to an error that has none.
func (a *Arrow) wrong(err error) error {
	var already *WalkError
	if errors.As(err, &already) {
		return err
	}
	return &WalkError{a.batch.at, err}
}

// nextBatch goes to the next message with rows.
func (a *Arrow) nextBatch() error {
	at, dictionary := a.at, len(a.first) > 0
	switch {
	// In a file a row may refer to any dictionary, wherever that is; in a stream the dictionary comes first.
	case dictionary: // all dictionaries are read before all rows
		at, a.first = a.first[0], a.first[1:]
	case a.file && len(a.blocks) == 0:
		return io.EOF
	case a.file:
		at, a.blocks = a.blocks[0], a.blocks[1:]
	}
	message, body, err := a.message(at)
	switch {
	case errors.Is(err, io.EOF) && a.file:
		return &WalkError{at, fmt.Errorf("%w: the footer names a batch at byte %d, where none stands", ErrBad, at)}
	case err != nil:
		return err
	}
	// What dictionaries hold counts with what the batch will hold, because both are in memory together.
	a.next, a.base, a.batch = 0, 0, arrowBatch{at: at, body: body, most: a.most, held: a.held, length: message.I64(flat.MessageBodyLength)}
	a.at = body + a.batch.length
	// A footer may name one batch without rows millions of times, so its bytes count each time. The batches of a real
	// writer together are no larger than the file.
	if a.walked += a.at - at; a.walked > a.size {
		return a.wrong(fmt.Errorf("%w: record batches that overlap: up to this one they have %d bytes in a file of %d", ErrBad, a.walked, a.size))
	}
	switch kind := message.U8(flat.MessageHeaderType); {
	case kind == flat.HeaderDictionaryBatch && (!a.file || dictionary):
		if err := a.readDictionary(message); err != nil {
			return a.wrong(err)
		}
		return nil
	case kind != flat.HeaderRecordBatch || dictionary:
		return a.wrong(fmt.Errorf("%w: a message of type %d (expected a batch of rows, or a dictionary where the footer says so)", ErrBad, kind))
	}
	if err := a.batch.open(a.r, message.Table(flat.MessageHeader), a.fields); err != nil {
		return a.wrong(err)
	}
	if a.total += a.batch.rows; tooManyRows(a.total, int64(len(a.Leaves)), a.size) {
		return a.wrong(fmt.Errorf("%w: %d rows of %d columns in a file of %d bytes", ErrLimit, a.total, len(a.Leaves), a.size))
	}
	return nil
}

// readChunk reads the next rows of every leaf.
func (a *Arrow) readChunk() error {
	a.base = a.next
	rows := min(arrowChunkRows, a.batch.rows-a.base)
	for i := range a.fields {
		f := &a.fields[i]
		if f.leaf < 0 || a.Leaves[f.leaf].Kind == RefusedLeaf || a.Leaves[f.leaf].Skip {
			continue
		}
		c := &a.chunk[f.leaf]
		c.field, c.body = f, a.batch.body
		if err := a.batch.read(a.r, c, i, a.base, rows, a.Leaves[f.leaf].Want); err != nil {
			return fmt.Errorf("the column %.80q: %w", a.Leaves[f.leaf].Path[0], err)
		}
	}
	return nil
}
