package catalog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
)

// The names on disk are those of plain files: ImageFolder makes a class of every directory, so an index beside a
// folder's images must not be a directory.
const (
	ManifestName = "headrace.json"
	indexPrefix  = "headrace-index-"
)

// IndexFileName returns the name of index file n. A new index beside an old one takes a free number, so that the old
// pair of manifest and index stays whole until the last rename.
func IndexFileName(n int) string { return fmt.Sprintf("%s%05d.arrow", indexPrefix, n) }

// ShardName returns the name of shard n.
func ShardName(n int) string { return fmt.Sprintf("shard-%05d.tar", n) }

const (
	formatName    = "headrace"
	formatVersion = 2 // of what is written; 2: two file names never make the same key (formats.TextName)
	// readerVersion is the highest min_reader that this package understands. 2 came with indexes of containers, 3 with
	// containers in blocks, and 4 with an index of single files that lies elsewhere than the files. 5 came with pixels
	// of containers that have alpha or lie in blocks, and values of fields in blocks. 6 came with record batches of
	// fewer rows.
	readerVersion = 6

	containedVersion = 3 // format version of an index of containers
	containedReader  = 2 // the reader that this needs; everything else is still for readers of version 1
	blocksVersion    = 4 // of an index of containers with compressed parts
	blocksReader     = 3
	belowVersion     = 5 // of an index of a folder in a store
	belowReader      = 4
	inBlocksVersion  = 6 // of an index with pixels that have alpha, or with pixels or field values in blocks
	inBlocksReader   = 5
	shortVersion     = 7 // of an index with a record batch whose bytes are full before its rows
	shortReader      = 6

	// A record batch of the index has RowsPerBatch rows, except the last one: row i is lane i % RowsPerBatch of batch
	// number i / RowsPerBatch. A first touch of a batch costs milliseconds. If values are so long that a batch has
	// fewer rows, the manifest says how many (BatchInfo.Rows).
	RowsPerBatch = 1 << 16

	maxManifestBytes = 100 << 20 // the same bound as safetensors has for a header
	maxTailBytes     = 100 << 20 // the index's footer: the schema and an entry for each batch
	maxFields        = 1024
	maxFieldName     = 256
)

// CreatedBy is what the manifest says about the program that wrote it.
const CreatedBy = "headrace 0.1.0"

// RawImages counts images that are stored as decoded pixels, and their bytes.
type RawImages struct {
	Images    int64 `json:"images"`
	Bytes     int64 `json:"bytes"`      // stored
	FromBytes int64 `json:"from_bytes"` // of the files that they come from
}

// Manifest is headrace.json. A reader ignores keys that it does not know; a change that a reader must understand raises
// min_reader.
type Manifest struct {
	Format       string                      `json:"format"`
	Version      int                         `json:"version"`
	MinReader    int                         `json:"min_reader"`
	CreatedBy    string                      `json:"created_by"`
	Kind         string                      `json:"kind"`
	Rows         int64                       `json:"rows"`
	Bytes        int64                       `json:"bytes"` // of all encoded images
	Fingerprint  string                      `json:"fingerprint"`
	Lossy        string                      `json:"lossy,omitempty"`          // how images were re-encoded
	Reencoded    int64                       `json:"reencoded,omitempty"`      // how many of them
	Pillow       int64                       `json:"through_pillow,omitempty"` // images that Pillow decoded
	ToBaseline   int64                       `json:"to_baseline,omitempty"`    // files made baseline without loss
	Raw          *RawImages                  `json:"raw,omitempty"`            // stored as decoded pixels
	Counts       map[string]map[string]int64 `json:"counts"`                   // samples by verdict, codec, ...
	Fields       []Field                     `json:"fields"`
	Shards       []ShardInfo                 `json:"shards"`           // or of the containers
	Root         pathjson.Text               `json:"root,omitempty"`   // where names of containers or objects begin
	Source       *SourceInfo                 `json:"source,omitempty"` // for containers
	RowsPerBatch int64                       `json:"rows_per_batch"`
	Index        IndexFile                   `json:"index"`
	Seek         *SeekFile                   `json:"seek,omitempty"` // nil: no sample has seek points
	Classes      []string                    `json:"classes"`
}

// IndexFile is the Arrow IPC file. Head and tail are the checksums of the bytes before the first and behind the last
// record batch, so that checksums cover every byte of the file.
type IndexFile struct {
	Name    string      `json:"name"`
	Size    int64       `json:"size"`
	Head    string      `json:"head_crc32c"`
	Tail    string      `json:"tail_crc32c"`
	Batches []BatchInfo `json:"batches"`
}

// BatchInfo is one record batch, metadata and body. Batches follow each other without a gap.
type BatchInfo struct {
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	CRC32C string `json:"crc32c"`
	Rows   int64  `json:"rows,omitempty"` // 0: RowsPerBatch, or the rest
}

// Below records that the files of an index of single files lie below an address.
func (m *Manifest) Below(address string) {
	m.Root, m.Version, m.MinReader = pathjson.Text(address), max(m.Version, belowVersion), max(m.MinReader, belowReader)
}

// inBlocks is true if the index has columns of blocks.
func (m *Manifest) inBlocks() bool { return m.Source != nil && m.Source.Blocks }

// check refuses anything that later code relies on not being there.
func (m *Manifest) check() error {
	switch {
	case m.Format != formatName:
		return fmt.Errorf("format is %.40q (expected %q)", m.Format, formatName)
	case m.Version < 1 || m.MinReader < 1 || m.MinReader > m.Version:
		return fmt.Errorf("version %d with min_reader %d is impossible", m.Version, m.MinReader)
	case m.Kind != Packed.String() && m.Kind != Indexed.String() && m.Kind != Contained.String():
		return fmt.Errorf("kind is %.40q (expected %q, %q or %q)", m.Kind, Packed, Indexed, Contained)
	// An older reader would take containers for our shards, so an index that allows such a reader is refused.
	case m.Kind == Contained.String() && (m.MinReader < containedReader || m.Source == nil || !checkRoot(string(m.Root))):
		return fmt.Errorf("an index of containers with min_reader %d, root %.80q and source %v", m.MinReader, m.Root, m.Source)
	case m.Kind == Indexed.String() && m.Root != "" && (m.MinReader < belowReader || !remote.IsURL(string(m.Root)) || !checkRoot(string(m.Root))):
		return fmt.Errorf("an index of files with min_reader %d and root %.80q", m.MinReader, m.Root)
	case m.Source != nil && m.Source.Blocks && (m.Kind != Contained.String() || m.MinReader < blocksReader):
		return fmt.Errorf("blocks in an index of kind %s with min_reader %d", m.Kind, m.MinReader)
	case m.RowsPerBatch != RowsPerBatch:
		return fmt.Errorf("rows_per_batch is %d (expected %d)", m.RowsPerBatch, RowsPerBatch)
	case m.Rows < 0 || m.Bytes < 0:
		return fmt.Errorf("rows is %d and bytes is %d, neither can be negative", m.Rows, m.Bytes)
	case m.Kind == Indexed.String() && len(m.Shards) > 0:
		return fmt.Errorf("an indexed folder has no shards, %d are listed", len(m.Shards))
	case int64(len(m.Shards)) > m.Rows && m.Kind != Contained.String():
		return fmt.Errorf("there are %d shards for %d rows", len(m.Shards), m.Rows)
	}
	for _, check := range []func() error{m.checkShards, m.checkIndex, m.checkSeek, m.checkFields} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkShards checks that names stay in the directory and occur once, and that rows add up.
func (m *Manifest) checkShards() error {
	names := make(map[string]bool, len(m.Shards))
	var rows int64
	if m.Kind == Contained.String() {
		return m.checkContainers()
	}
	for i, s := range m.Shards {
		switch {
		case !plainName(s.Name) || !strings.HasSuffix(s.Name, ".tar"):
			return fmt.Errorf("shards[%d].name is %.80q (expected a plain name that ends in .tar)", i, s.Name)
		case names[s.Name]:
			return fmt.Errorf("shards[%d].name is %q, which stands there twice", i, s.Name)
		// The number is compared with what is left, so that the sum of rows cannot overflow.
		case s.Size < 0 || s.Rows < 1 || s.Rows > m.Rows-rows:
			return fmt.Errorf("shards[%d] has size %d and %d rows of %d", i, s.Size, s.Rows, m.Rows)
		}
		names[s.Name] = true
		rows += s.Rows
	}
	if m.Kind == Packed.String() && rows != m.Rows {
		return fmt.Errorf("the shards have %d rows, the dataset %d", rows, m.Rows)
	}
	return nil
}

// checkContainers checks that names stay below the root and that rows add up. A container may hold no sample.
func (m *Manifest) checkContainers() error {
	var rows int64
	for i, s := range m.Shards {
		switch {
		case len(s.Name) > formats.MaxNameBytes || !utf8.ValidString(s.Name) || strings.IndexByte(s.Name, 0) >= 0 || !filepath.IsLocal(s.Name):
			return fmt.Errorf("shards[%d].name is %.80q (expected a name below the root)", i, s.Name)
		case s.Size < 0 || s.Rows < 0 || s.Rows > m.Rows-rows:
			return fmt.Errorf("shards[%d] has size %d and %d rows of %d", i, s.Size, s.Rows, m.Rows)
		}
		if _, err := parseCRC(s.Ends); err != nil {
			return fmt.Errorf("shards[%d].ends_crc32c: %w", i, err)
		}
		rows += s.Rows
	}
	if rows != m.Rows {
		return fmt.Errorf("the containers have %d rows, the dataset %d", rows, m.Rows)
	}
	return nil
}

// checkRoot checks that a root may be joined with names. The user who trusts the index decides where it may lead.
func checkRoot(root string) bool {
	return root != "" && len(root) <= formats.MaxNameBytes && strings.IndexByte(root, 0) < 0
}

// checkIndex checks that batches fill the file between schema and footer without gap or overlap.
func (m *Manifest) checkIndex() error {
	x := &m.Index
	if !plainName(x.Name) || !strings.HasPrefix(x.Name, indexPrefix) {
		return fmt.Errorf("index.name is %.80q (expected %q)", x.Name, IndexFileName(0))
	}
	if err := m.checkRows(); err != nil {
		return err
	}
	if len(x.Batches) == 0 {
		return fmt.Errorf("rows is 0: a dataset has at least one sample")
	}
	if x.Size < 0 { // a subtraction below would wrap around
		return fmt.Errorf("index.size is %d, it cannot be negative", x.Size)
	}
	// Without gaps and overlaps, exactly one checksum covers every byte of the file.
	at := x.Batches[0].Offset
	for i, b := range x.Batches {
		// The sum cannot overflow, because length is compared with what is left first.
		if b.Offset != at || at < 8 || at%8 != 0 || b.Length < 8 || b.Length%8 != 0 || b.Length > x.Size-at {
			return fmt.Errorf("index.batches[%d] at %d with %d bytes does not fit a file of %d", i, b.Offset, b.Length, x.Size)
		}
		at += b.Length
	}
	if x.Batches[0].Offset > maxTailBytes || x.Size-at > maxTailBytes {
		return fmt.Errorf("index.batches leave %d bytes of schema and %d of footer (expected at most %d)", x.Batches[0].Offset, x.Size-at, maxTailBytes)
	}
	return nil
}

// short is true for an index with record batches that state their rows.
func (x *IndexFile) short() bool {
	return slices.ContainsFunc(x.Batches, func(b BatchInfo) bool { return b.Rows != 0 })
}

// checkRows checks that record batches have as many rows as the dataset, RowsPerBatch each unless a batch states
// another number.
func (m *Manifest) checkRows() error {
	x := &m.Index
	if !x.short() {
		if want := (m.Rows + RowsPerBatch - 1) / RowsPerBatch; int64(len(x.Batches)) != want {
			return fmt.Errorf("index.batches has %d entries, %d rows need %d", len(x.Batches), m.Rows, want)
		}
		return nil
	}
	if m.MinReader < shortReader {
		return fmt.Errorf("index.batches say their rows, in an index with min_reader %d", m.MinReader)
	}
	left := m.Rows
	for i, b := range x.Batches {
		if b.Rows < 1 || b.Rows > min(RowsPerBatch, left) {
			return fmt.Errorf("index.batches[%d] has %d rows (expected 1 to %d)", i, b.Rows, min(RowsPerBatch, left))
		}
		left -= b.Rows
	}
	if left != 0 {
		return fmt.Errorf("index.batches have %d rows, the dataset %d", m.Rows-left, m.Rows)
	}
	return nil
}

// checkFields checks the names by which columns of the index are looked up.
func (m *Manifest) checkFields() error {
	if err := CheckFields(m.Fields); err != nil {
		return err
	}
	for _, f := range m.Fields {
		if f.Located && m.Kind != Contained.String() {
			return fmt.Errorf("field %q lies in a container, and the dataset is %s", f.Name, m.Kind)
		}
		if f.Blocks && m.MinReader < inBlocksReader {
			return fmt.Errorf("field %q lies in blocks, in an index with min_reader %d", f.Name, m.MinReader)
		}
	}
	for i, c := range m.Classes {
		if len(c) > formats.MaxNameBytes {
			return fmt.Errorf("classes[%d] has %d bytes (expected at most %d)", i, len(c), formats.MaxNameBytes)
		}
	}
	return nil
}

// plainName reports whether a name stays in its directory. This matters because files that a manifest names are opened.
func plainName(name string) bool {
	return name != "" && name[0] != '.' && len(name) <= 255 && utf8.ValidString(name) &&
		!strings.ContainsAny(name, "/\\\x00")
}
