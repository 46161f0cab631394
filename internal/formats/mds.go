package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// MDS is a shard of MosaicML's streaming (streaming/base/format/mds, version 2):
//
//	uint32 samples N | uint32 offsets[N+1] in the file | the configuration as JSON | samples
//
// A sample has the uint32 size of each column of variable size, in their order, and then all columns. All numbers are
// little-endian. A shard describes itself as its folder's index.json does.
type MDS struct {
	Columns []MDSColumn

	r       io.ReaderAt
	size    int64
	samples int64
	next    int64
	end     int64  // end of the sample before the next
	table   []byte // offsets of samples from the next on; they are read ahead, because table and samples are far apart
	head    []byte // sizes of one sample's columns
}

// tableAhead is for how many samples offsets are read at once.
const tableAhead = 1024

// MDSColumn is one column of a shard.
type MDSColumn struct {
	Name, Encoding string
	Size           int64 // in bytes, of every value; 0 if sizes vary
}

const (
	maxMDSConfig  = 1 << 20
	maxMDSColumns = 1024
)

type mdsConfig struct {
	Format    string   `json:"format"`
	Version   int      `json:"version"`
	Names     []string `json:"column_names"`
	Encodings []string `json:"column_encodings"`
	Sizes     []*int64 `json:"column_sizes"`
}

// IsMDS recognises a shard by its configuration, because it has no magic.
func IsMDS(r io.ReaderAt, size int64) bool {
	c, _, err := readMDSConfig(r, size)
	return err == nil && c.Format == "mds"
}

// mostWholeHead limits the table and the configuration of a compressed shard that is only being recognised.
const mostWholeHead = 64 << 20

// IsWholeMDS recognises a shard that is compressed as a whole.
func IsWholeMDS(codec uint8, r io.ReaderAt, size int64) bool {
	head, err := WholeHead(codec, r, size, 8)
	if err != nil || len(head) < 8 {
		return false
	}
	first := int64(binary.LittleEndian.Uint32(head[4:]))
	if table := 4 + 4*(int64(binary.LittleEndian.Uint32(head))+1); first <= table || first > min(table+maxMDSConfig, mostWholeHead) {
		return false
	}
	head, err = WholeHead(codec, r, size, first)
	return err == nil && IsMDS(bytes.NewReader(head), int64(len(head)))
}

// readMDSConfig reads the configuration, which is between the table of offsets and the first sample.
func readMDSConfig(r io.ReaderAt, size int64) (c mdsConfig, samples int64, err error) {
	var head [8]byte
	if size < int64(len(head)) {
		return c, 0, fmt.Errorf("%w: a shard of %d bytes", ErrTruncated, size)
	}
	if err := readAt(r, head[:], 0); err != nil {
		return c, 0, err
	}
	samples = int64(binary.LittleEndian.Uint32(head[:4]))
	table, first := 4+4*(samples+1), int64(binary.LittleEndian.Uint32(head[4:]))
	// The configuration fills the room between the table and the first sample; nothing else gives its length.
	switch length := first - table; {
	case first > size:
		return c, 0, &WalkError{4, fmt.Errorf("%w: the first sample begins at %d of %d", ErrTruncated, first, size)}
	case length < 2:
		return c, 0, &WalkError{4, fmt.Errorf("%w: the first of %d samples begins at %d, inside the table of them", ErrBad, samples, first)}
	case length > maxMDSConfig:
		return c, 0, &WalkError{table, fmt.Errorf("%w: a configuration of %d bytes (expected at most %d)", ErrLimit, length, maxMDSConfig)}
	default:
		text := make([]byte, length)
		if err := readAt(r, text, table); err != nil {
			return c, 0, err
		}
		if err := json.Unmarshal(text, &c); err != nil {
			return c, 0, &WalkError{table, fmt.Errorf("%w: the configuration: %v", ErrBad, err)}
		}
		return c, samples, nil
	}
}

// NewMDS reads the configuration of a shard.
func NewMDS(r io.ReaderAt, size int64) (*MDS, error) {
	c, samples, err := readMDSConfig(r, size)
	if err != nil {
		return nil, err
	}
	m := &MDS{r: r, size: size, samples: samples}
	at := 4 + 4*(samples+1)
	switch {
	case c.Format != "mds" || c.Version != 2:
		return nil, &WalkError{at, fmt.Errorf("%w: a shard of format %.40q and version %d (expected \"mds\" of version 2)", ErrUnsupported, c.Format, c.Version)}
	case len(c.Names) != len(c.Encodings) || len(c.Names) != len(c.Sizes) || len(c.Names) == 0:
		return nil, &WalkError{at, fmt.Errorf("%w: %d column_names, %d column_encodings and %d column_sizes", ErrBad, len(c.Names), len(c.Encodings), len(c.Sizes))}
	case len(c.Names) > maxMDSColumns:
		return nil, &WalkError{at, fmt.Errorf("%w: %d columns (expected at most %d)", ErrLimit, len(c.Names), maxMDSColumns)}
	}
	for i, name := range c.Names {
		column := MDSColumn{Name: name, Encoding: c.Encodings[i]}
		if c.Sizes[i] != nil { // streaming's reader takes a size of 0 for a variable one, too
			column.Size = *c.Sizes[i]
		}
		// The size must not exceed the file's, because otherwise sums in a sample could overflow.
		if column.Size < 0 || column.Size > size || !utf8.ValidString(name) {
			return nil, &WalkError{at, fmt.Errorf("%w: the column %.80q of %d bytes", ErrBad, name, column.Size)}
		}
		m.Columns = append(m.Columns, column)
	}
	return m, nil
}

// Next fills places with the offset and length of each column of the next sample, and returns where the sample begins;
// io.EOF after the last.
func (m *MDS) Next(places [][2]int64) (int64, error) {
	if m.next == m.samples {
		return 0, io.EOF
	}
	// A sample needs a pair of offsets, so the last one is read again together with the next ones.
	if len(m.table) < 8 {
		m.table = make([]byte, 4*(min(tableAhead, m.samples-m.next)+1))
		if err := readAt(m.r, m.table, 4+4*m.next); err != nil {
			return 0, err
		}
	}
	begin, end := int64(binary.LittleEndian.Uint32(m.table)), int64(binary.LittleEndian.Uint32(m.table[4:]))
	m.table = m.table[4:]
	wrong := func(format string, a ...any) (int64, error) {
		return 0, &WalkError{begin, fmt.Errorf("%w: "+format, append([]any{ErrBad}, a...)...)}
	}
	switch {
	// The format's own reader takes the difference without a check (MDSReader.get_sample_data). Here a sample must follow
	// the one before it and lie inside the file.
	case end < begin || begin < m.end:
		return wrong("a sample from byte %d to %d, the one before ends at %d", begin, end, m.end)
	case end > m.size:
		return 0, &WalkError{begin, fmt.Errorf("%w: a sample that ends at byte %d of %d", ErrTruncated, end, m.size)}
	}
	sizes := int64(0)
	for i := range m.Columns {
		if m.Columns[i].Size == 0 {
			sizes += 4
		}
	}
	if sizes > end-begin {
		return wrong("a sample of %d bytes, the sizes of its columns are %d", end-begin, sizes)
	}
	if int64(len(m.head)) < sizes {
		m.head = make([]byte, sizes)
	}
	head := m.head[:sizes]
	if err := readAt(m.r, head, begin); err != nil {
		return 0, err
	}
	at := begin + sizes
	for i := range m.Columns {
		length := m.Columns[i].Size
		if length == 0 {
			length, head = int64(binary.LittleEndian.Uint32(head)), head[4:]
		}
		if length > end-at {
			return wrong("the column %.80q of %d bytes ends behind its sample at %d", m.Columns[i].Name, length, end)
		}
		places[i] = [2]int64{at, length}
		at += length
	}
	// If the sizes do not fill the sample, the columns are not those of the configuration.
	if at != end {
		return wrong("the columns of a sample end at %d, the sample at %d", at, end)
	}
	m.next, m.end = m.next+1, end
	return begin, nil
}
