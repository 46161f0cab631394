package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

// PairsConfig says where pairs of images are, and how their second image is called.
type PairsConfig struct {
	First, Second string // folders
	Field         string
	formats.PairRule
}

// pairs are the second files of a listed dataset whose images are the first ones. The bytes of each are the value of
// one field.
type pairs struct {
	root  string
	names formats.Names
	field Field
}

// pairedFiles are the first files of pairs.
type pairedFiles struct{ names formats.Names }

func (p *pairedFiles) Len() int64          { return p.names.Len() }
func (p *pairedFiles) Path(i int64) string { return string(p.names.Bytes(i)) }
func (p *pairedFiles) Label(int64) int64   { return NoLabel }

// FromPairs lists the images of two folders that form pairs. No file is touched: a missing or damaged one is an error
// when it is read.
func FromPairs(c PairsConfig) (*Dataset, error) {
	if c.Second == "" || c.Field == "" {
		return nil, NewError(fault.KindArgument, c.First, "pairs: the second folder or the field has no name")
	}
	first, second, err := formats.ListPairs(c.First, c.Second, c.PairRule)
	if err != nil {
		return nil, FormatError(c.First, err)
	}
	files := &pairedFiles{names: first}
	d := &Dataset{path: c.First, kind: Listed, rows: files.Len(), files: files,
		pairs: &pairs{root: c.Second, names: second, field: Field{Name: c.Field, Type: Bytes}}}
	if err := CheckFields([]Field{d.pairs.field}); err != nil {
		return nil, NewError(fault.KindArgument, "", "pairs: %s", err)
	}
	d.fingerprint = sync.OnceValue(func() string { return d.pairs.fingerprint(files) })
	d.refs.Store(1)
	return d, nil
}

// fingerprint covers the names of both files of each pair, in order.
func (p *pairs) fingerprint(first fileList) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", p.field.Name)
	for i := range p.names.Len() {
		fmt.Fprintf(h, "%q %q\n", first.Path(i), p.names.Bytes(i))
	}
	return "pairs-" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (p *pairs) path(i int64) string { return p.root + "/" + string(p.names.Bytes(i)) }

// FieldFile returns the file whose bytes are the value of a field of sample i; "" if the value lies in an index or in a
// container.
func (d *Dataset) FieldFile(i int64, field string) (string, error) {
	if uint64(i) >= uint64(d.rows) {
		return "", d.outside(i)
	}
	if d.parts != nil {
		return within(d.parts, i, func(part *Dataset, row int64) (string, error) { return part.FieldFile(row, field) })
	}
	if d.pairs == nil || d.pairs.field.Name != field {
		return "", nil
	}
	return d.pairs.path(i), nil
}

// mostFileBytes bounds what is read of a file that is the value of a field: as much as a column of an index may hold.
const mostFileBytes = 1 << 30

// value reads the second file of a pair.
func (p *pairs) value(i int64, field string) (any, error) {
	path := p.path(i)
	if field != p.field.Name {
		return nil, NewError(fault.KindArgument, path, "there is no field %q; pairs have %q", field, p.field.Name)
	}
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, renamed(IOError(path, "cannot open it", err), i)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, renamed(IOError(path, "cannot look at it", err), i)
	}
	if info.Size() > mostFileBytes {
		return nil, renamed(NewError(fault.KindLimit, path, "the file has %d bytes (expected at most %d)", info.Size(), mostFileBytes), i)
	}
	if short := headroom.Memory(info.Size()); short != nil {
		return nil, short
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, renamed(IOError(path, "cannot read it", err), i)
	}
	return data, nil
}
