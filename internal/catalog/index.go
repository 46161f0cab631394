package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

func outsideText(rows int64) string {
	return fmt.Sprintf("there is no such sample; the dataset has %d", rows)
}

// index is the mapped Arrow IPC file of a dataset.
type index struct {
	file     string
	manifest *Manifest
	kind     Kind
	bytes    *mmap.Index
	mapped   []byte     // bytes.Bytes(), for guarded code
	seek     *mmap.File // nil if no sample has seek points

	columns  []arrow.Field  // as columnsOf returns them
	fieldAt  map[string]int // the number in columns of a field's first column
	inBlocks []int          // fields whose values may lie in blocks, by their numbers in the manifest
	batches  []batchSlot
	starts   []int64 // first rows of the batches, and at the end the number of rows; nil if each batch has RowsPerBatch
}

// batchSlot holds a record batch once it has been validated.
type batchSlot struct {
	valid atomic.Pointer[batch]
	once  sync.Mutex // one validates, the others wait
}

// openIndexed opens the dataset at path whose manifest lies in dir.
func openIndexed(path, dir string, o Options) (*Dataset, error) {
	// Between reading a manifest and opening its index, `headrace index` may have replaced both. If the old index is
	// gone, the new manifest is read.
	var d *Dataset
	var err error
	for range 3 {
		var m *Manifest
		if m, err = ReadManifest(filepath.Join(dir, ManifestName)); err != nil {
			return nil, err
		}
		if d, err = openWith(path, dir, o, m); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return d, err
}

// openWith opens the index that a manifest names. root is where containers lie, if they are not where the manifest
// says.
func openWith(path, dir string, o Options, m *Manifest) (*Dataset, error) {
	root := o.Root
	filesAway := m.Kind == Indexed.String() && m.Root != ""
	if root != "" && m.Kind != Contained.String() && (!filesAway || !remote.IsURL(root)) {
		return nil, NewError(fault.KindArgument, path, "root is for an index of containers, this dataset is %s", m.Kind)
	}
	x, err := openIndex(filepath.Join(dir, m.Index.Name), m)
	if err != nil {
		return nil, err
	}
	if m.Seek != nil {
		if x.seek, err = openSeek(filepath.Join(dir, m.Seek.Name), m); err != nil {
			x.close()
			return nil, err
		}
	}
	d := &Dataset{path: path, kind: x.kind, rows: m.Rows, info: m, index: x, classes: m.Classes}
	d.fingerprint = func() string { return m.Fingerprint }
	if d.kind == Contained {
		if d.root = root; root == "" {
			d.root = m.ContainersBelow(dir)
		}
		if remote.IsURL(d.root) {
			d.away = newAway(d.root, o.Storage, m.Shards, root == "")
			d.root = remote.Display(d.root)
		}
	}
	if filesAway {
		d.away = newAway(cmp.Or(root, string(m.Root)), o.Storage, nil, false)
	}
	d.refs.Store(1)
	return d, nil
}

func openIndex(file string, m *Manifest) (*index, error) {
	bytes, err := mmap.OpenIndex(file)
	if err != nil {
		return nil, IOError(file, "cannot open the index", err)
	}
	x, err := newIndex(file, m, bytes)
	if err != nil {
		bytes.Close()
		return nil, err
	}
	return x, nil
}

// newIndex reads an index whose manifest has been checked.
func newIndex(file string, m *Manifest, bytes *mmap.Index) (*index, error) {
	x := &index{file: file, manifest: m, kind: Packed, bytes: bytes, mapped: bytes.Bytes(),
		fieldAt: make(map[string]int), batches: make([]batchSlot, len(m.Index.Batches))}
	switch m.Kind {
	case Indexed.String():
		x.kind = Indexed
	case Contained.String():
		x.kind = Contained
	}
	if m.Index.short() {
		x.starts = make([]int64, 1, len(x.batches)+1)
		for _, b := range m.Index.Batches {
			x.starts = append(x.starts, x.starts[len(x.starts)-1]+b.Rows)
		}
	}
	// This comes before any batch is read, because every offset of the manifest was compared with this size.
	if found := int64(len(x.mapped)); found != m.Index.Size {
		return nil, sizeError(file, "the index", m.Index.Size, found)
	}
	if err := x.guard(x.readEnds); err != nil {
		return nil, err
	}
	return x, nil
}

// guard runs code that reads mapped bytes: a page that cannot be read becomes an error.
func (x *index) guard(read func() error) error {
	err := x.bytes.Guard(read)
	if err == nil {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return IOError(x.file, "cannot read the index", err)
}

// readEnds verifies the head and tail of the file and checks the schema. It reads a few kilobytes, whatever the number
// of rows. The manifest says where the batches lie. The footer says so for other readers, and only its checksum is
// compared.
func (x *index) readEnds() error {
	m := &x.manifest.Index
	last := m.Batches[len(m.Batches)-1]
	head := x.mapped[:m.Batches[0].Offset]
	tail := x.mapped[last.Offset+last.Length:]
	if err := x.checksum(head, 0, m.Head, "the index's schema"); err != nil {
		return err
	}
	if err := x.checksum(tail, last.Offset+last.Length, m.Tail, "the index's footer"); err != nil {
		return err
	}
	// The order of columns follows from the manifest, and is compared with the schema. Otherwise a column that is
	// looked up by number could be another one.
	x.columns = columnsOf(x.kind, x.manifest.inBlocks(), x.manifest.Fields)
	if err := checkSchema(head, x.columns); err != nil {
		return NewError(fault.KindBadFile, x.file, "the index's schema: %v", err)
	}
	if !bytes.HasSuffix(tail, arrowMagic) {
		return NewError(fault.KindBadFile, x.file, "the index does not end with %q", arrowMagic)
	}
	for i, c := range x.columns {
		if name, ok := strings.CutPrefix(c.Name, fieldPrefix); ok {
			x.fieldAt[name] = i
		}
	}
	for i := range x.manifest.Fields {
		if x.manifest.Fields[i].Blocks {
			x.inBlocks = append(x.inBlocks, i)
		}
	}
	return nil
}

// checksum compares a part of the file with the manifest. The pages are populated first, so that a file that was cut
// meanwhile gives an errno and not a signal.
func (x *index) checksum(part []byte, offset int64, want, what string) error {
	crc, err := parseCRC(want)
	if err != nil {
		return NewError(fault.KindBadFile, x.file, "%s: %v", what, err)
	}
	// MADV_POPULATE_READ gives EFAULT if the file no longer has such a page (Linux 5.14).
	if err := x.bytes.Populate(part); err != nil {
		return IOError(x.file, "cannot read "+what, err)
	}
	if found := crc32.Checksum(part, castagnoli); found != crc {
		return &Error{Kind: fault.KindChecksum, File: x.file, Record: -1, Offset: offset,
			Text: fault.Differs("the checksum of "+what+" differs", fmt.Sprintf("%08x", crc), fmt.Sprintf("%08x", found))}
	}
	return nil
}

// batchOf returns the number of the record batch with row i.
func (x *index) batchOf(i int64) int {
	if x.starts == nil {
		return int(i / RowsPerBatch)
	}
	n, found := slices.BinarySearch(x.starts, i)
	if !found {
		n--
	}
	return n
}

// firstOf returns the first row of record batch n; for the number behind the last batch, the number of rows.
func (x *index) firstOf(n int) int64 {
	if x.starts == nil {
		return min(int64(n)*RowsPerBatch, x.manifest.Rows)
	}
	return x.starts[n]
}

// batch returns the record batch with row i; it is validated when it is first asked for.
func (x *index) batch(i int64) (*batch, error) {
	n := x.batchOf(i)
	if b := x.batches[n].valid.Load(); b != nil {
		return b, nil
	}
	return x.validate(n)
}

// read calls take with the record batch of row i and the row's number in it. take copies what it needs.
func (x *index) read(i int64, take func(b *batch, n int)) error {
	b, err := x.batch(i)
	if err != nil {
		return err
	}
	return x.guard(func() error {
		take(b, int(i-b.first))
		return nil
	})
}

func (x *index) sample(i int64) (s Sample, err error) {
	err = x.read(i, func(b *batch, _ int) { s = b.sample(i) })
	return s, err
}

func (x *index) key(i int64) (key string, err error) {
	err = x.read(i, func(b *batch, n int) { key = string(b.key.row(n)) })
	return key, err
}

func (x *index) path(i int64) (path string, err error) {
	err = x.read(i, func(b *batch, n int) { path = string(b.path.row(n)) })
	return path, err
}

// field returns a value of one of the user's fields, copied.
func (x *index) field(i int64, name string) (any, error) {
	at, ok := x.fieldAt[name]
	if !ok {
		return nil, NewError(fault.KindArgument, x.file, "there is no field %q", name)
	}
	for f := range x.manifest.Fields {
		if field := &x.manifest.Fields[f]; field.Name == name {
			var v any
			var wrong error
			err := x.read(i, func(b *batch, n int) { v, wrong = field.decode(b.columns[at:], n) })
			if err == nil && wrong != nil {
				err = &Error{Kind: fault.KindBadFile, File: x.file, Record: i, Offset: -1, Text: wrong.Error()}
			}
			return v, err
		}
	}
	return nil, NewError(fault.KindInternal, x.file, "field %q has a column and no description", name)
}

// mostBytes returns the bytes of the longest value of a field.
func (x *index) mostBytes(name string) (int64, error) {
	at, ok := x.fieldAt[name]
	if !ok {
		return 0, NewError(fault.KindArgument, x.file, "there is no field %q", name)
	}
	most := 0
	for number := range x.batches {
		err := x.read(x.firstOf(number), func(b *batch, _ int) {
			for n := range b.shard {
				most = max(most, len(b.columns[at].row(n)))
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return int64(most), nil
}

func (x *index) close() {
	if x.seek != nil {
		x.seek.Close()
	}
	// A method that is called too late then finds an empty index and not unmapped memory.
	x.batches = nil
	x.bytes.Close()
}
