package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/headrace/headrace/internal/fault"
)

// parts are the datasets of a concatenation, in order.
type parts struct {
	list   []*Dataset
	ends   []int64 // the number of samples up to the end of each part
	shards []int   // the number of shards before each part's
}

// Concat makes a dataset of the samples of several datasets, one dataset after the other, each sample with its own
// label. Nothing is copied: row i is looked up in the part that holds it. The parts are retained.
//
// classes are the names of the labels of all parts together. If it is nil, the parts' own names are used. They must
// then be the same in all parts that have any, because labels are numbers and would otherwise mean another class in
// each part.
func Concat(list []*Dataset, classes []string) (*Dataset, error) {
	if len(list) == 0 {
		return nil, NewError(fault.KindArgument, "", "parts is an empty list (expected one dataset at least)")
	}
	p := &parts{list: slices.Clone(list)}
	rows, shards := int64(0), 0
	for _, part := range list {
		// Rows of arrays take no memory, so even a few parts could make the sum overflow.
		if part.rows > math.MaxInt64-rows || len(part.Shards()) > math.MaxUint32-shards {
			return nil, NewError(fault.KindLimit, part.path, "the parts together have more than 2^63 - 1 samples or 2^32 - 1 shards")
		}
		p.shards = append(p.shards, shards)
		rows, shards = rows+part.rows, shards+len(part.Shards())
		p.ends = append(p.ends, rows)
	}
	names, err := p.classes(classes)
	if err != nil {
		return nil, err
	}
	d := &Dataset{kind: Concatenated, rows: rows, parts: p, classes: names}
	d.fingerprint = sync.OnceValue(p.fingerprint)
	d.refs.Store(1)
	for _, part := range list {
		part.Retain()
	}
	return d, nil
}

// classes returns the names of the labels of all parts.
func (p *parts) classes(given []string) ([]string, error) {
	// An empty list says that labels have no names, even if the parts have some.
	if given != nil {
		for _, part := range p.list {
			if len(given) > 0 && len(part.classes) > len(given) {
				return nil, NewError(fault.KindArgument, part.path, "classes has %d names (expected at least %d, the classes of this part)", len(given), len(part.classes))
			}
		}
		return slices.Clone(given), nil
	}
	var first *Dataset
	for _, part := range p.list {
		switch {
		case len(part.classes) == 0:
		case first == nil:
			first = part
		default:
			if err := sameClasses(first, part); err != nil {
				return nil, err
			}
		}
	}
	if first == nil {
		return nil, nil
	}
	return first.classes, nil
}

func sameClasses(first, part *Dataset) error {
	const remedy = "; with classes=[], as in Dataset.concat(..., classes=[]), each part keeps its labels, which then have no names"
	for i := range min(len(first.classes), len(part.classes)) {
		if expected, found := first.classes[i], part.classes[i]; expected != found {
			return NewError(fault.KindArgument, part.path, "%s%s", fault.Differs(
				fmt.Sprintf("class %d is another one than in %s", i, first.name()), fmt.Sprintf("%q", expected), fmt.Sprintf("%q", found)), remedy)
		}
	}
	if expected, found := len(first.classes), len(part.classes); expected != found {
		return NewError(fault.KindArgument, part.path, "%s%s", fault.Differs(
			"the number of classes is another one than in "+first.name(), fmt.Sprint(expected), found), remedy)
	}
	return nil
}

// name returns the dataset's name for errors.
func (d *Dataset) name() string {
	switch {
	case d.path != "":
		return d.path
	case d.parts != nil:
		return "a concatenation"
	case d.kind == InMemory:
		return "an array in memory"
	}
	return "a list of files"
}

// fingerprint covers the datasets that hold the samples, in order and regardless of how they were grouped.
func (p *parts) fingerprint() string {
	h := sha256.New()
	var add func(p *parts)
	add = func(p *parts) {
		for _, part := range p.list {
			// However parts were grouped, the samples are the same in the same order.
			if part.parts != nil {
				add(part.parts)
				continue
			}
			fmt.Fprintf(h, "%d %s\n", part.rows, part.Fingerprint())
		}
	}
	add(p)
	return "concat-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// of returns the number of the part that holds row i, and the row's number there.
func (p *parts) of(i int64) (n int, row int64) {
	n = sort.Search(len(p.ends), func(n int) bool { return p.ends[n] > i })
	return n, i - (p.ends[n] - p.list[n].rows)
}

// sample returns row i, with the numbers that sample and shard have in the concatenation.
func (p *parts) sample(i int64) (Sample, error) {
	n, row := p.of(i)
	s, err := p.list[n].Sample(row)
	if err != nil {
		return Sample{}, renumbered(err, i-row)
	}
	s.Index, s.Shard = i, s.Shard+uint32(p.shards[n])
	return s, nil
}

// within returns what `ask` says of row i in the part that holds it.
func within[T any](p *parts, i int64, ask func(part *Dataset, row int64) (T, error)) (T, error) {
	n, row := p.of(i)
	found, err := ask(p.list[n], row)
	return found, renumbered(err, i-row)
}

// renumbered counts an error's record from the first sample of the concatenation, as its caller does.
func renumbered(err error, before int64) error {
	var e *Error
	if !errors.As(err, &e) || e.Record < 0 {
		return err
	}
	moved := *e
	moved.Record += before
	return &moved
}

// shard returns the part that has shard n of the concatenation, and the shard's number there.
func (p *parts) shard(n int) (part *Dataset, number int) {
	// The last part that begins at n or before is the right one: parts without shards begin where the next part does.
	at := sort.Search(len(p.shards), func(i int) bool { return p.shards[i] > n }) - 1
	return p.list[at], n - p.shards[at]
}

// reader adapts a FieldReader for the part that has row i as its own row, because sample and container have other
// numbers there.
func (p *parts) reader(i, row int64, read FieldReader) FieldReader {
	block := read.Block
	if block == nil {
		return read
	}
	n, _ := p.of(i)
	read.Block = func(to []byte, value Sample) error {
		value.Index, value.Shard = value.Index+i-row, value.Shard+uint32(p.shards[n])
		return block(to, value)
	}
	return read
}

// fields returns the fields that all parts have, in the order of the first part. If an array field does not have the
// same shape in all of them, its shape is left open.
func (p *parts) fields() []Field {
	var common []Field
	for _, field := range p.list[0].Fields() {
		everywhere := true
		for _, part := range p.list[1:] {
			i := slices.IndexFunc(part.Fields(), func(f Field) bool {
				return f.Name == field.Name && f.Type == field.Type && f.DType == field.DType
			})
			if i < 0 {
				everywhere = false
				break
			}
			if !slices.Equal(part.Fields()[i].Shape, field.Shape) {
				field.Shape = nil
			}
		}
		if everywhere {
			common = append(common, field)
		}
	}
	return common
}

// Parts returns the datasets of a concatenation; nil for any other dataset.
func (d *Dataset) Parts() []*Dataset {
	if d.parts == nil {
		return nil
	}
	return d.parts.list
}

// Holder returns the dataset that holds sample i and knows how it lies on disk: a part of a concatenation, or d itself.
// For a sample out of range it is d.
func (d *Dataset) Holder(i int64) *Dataset {
	d, _ = d.held(i)
	return d
}

// held returns the dataset that holds sample i, and the sample's number there.
func (d *Dataset) held(i int64) (*Dataset, int64) {
	for d.parts != nil && uint64(i) < uint64(d.rows) {
		var n int
		n, i = d.parts.of(i)
		d = d.parts.list[n]
	}
	return d, i
}
