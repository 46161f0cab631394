package pipeline

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// fieldAlignment is the alignment of everything in a slot: a cache line, and what DLPack consumers may require.
const fieldAlignment = 64

// DType is the type of a field's elements.
type DType uint8

// These are the types of elements.
const (
	Uint8 DType = iota
	Float16
	BFloat16
	Float32
	Int64
	Int32
	Float64
)

// Bytes is the size of one element.
func (d DType) Bytes() int64 { return [...]int64{1, 2, 2, 4, 8, 4, 8}[d] }

// Field is one tensor of a batch: its samples follow each other, and have the same shape.
type Field struct {
	Name        string
	DType       DType
	Shape       []int64 // of one sample; empty for a number
	SampleBytes int64
	Offset      int64 // of the first sample, in the slot
}

// Layout says where the fields of a batch are in its slot: the images of each view, then labels, then indices, then
// labels that move with the images, or the fields of a mixed batch (never both).
// Each begins at a multiple of 64 bytes. The layout of a partial batch is the same.
type Layout struct {
	BatchSize int64
	Fields    []Field
	SlotBytes int64 // the same in all phases
	views     int   // number of fields that are images
}

// Views returns the fields that are images.
func (l *Layout) Views() []Field { return l.Fields[:l.views] }

func (l *Layout) labelsOffset() int64  { return l.Fields[l.views].Offset }
func (l *Layout) indicesOffset() int64 { return l.Fields[l.views+1].Offset }

// behind returns the fields after labels and indices: labels that move, or those of a mixed batch.
func (l *Layout) behind() []Field { return l.Fields[l.views+2:] }

// newLayouts makes the layouts of all phases. A slot has room for the largest.
func newLayouts(r *Recipe, moved []Label, batchSize int64) ([]Layout, error) {
	var layouts []Layout
	largest := int64(0)
	for _, phase := range r.Phases {
		l, err := newLayout(phase.Views, moved, batchSize)
		if err != nil {
			return nil, err
		}
		layouts = append(layouts, l)
		largest = max(largest, l.SlotBytes)
	}
	for i := range layouts {
		layouts[i].SlotBytes = largest
	}
	return layouts, nil
}

func newLayout(views []*native.Plan, moved []Label, batchSize int64) (Layout, error) {
	l := Layout{BatchSize: batchSize, views: len(views)}
	for i, plan := range views {
		field, err := imageField(plan)
		if err != nil {
			return Layout{}, err
		}
		field.Name = "images"
		if len(views) > 1 {
			field.Name = fmt.Sprintf("images.%d", i)
		}
		l.Fields = append(l.Fields, field)
	}
	for _, name := range []string{"labels", "indices"} {
		l.Fields = append(l.Fields, Field{Name: name, DType: Int64, SampleBytes: Int64.Bytes()})
	}
	for i := range moved {
		l.Fields = append(l.Fields, moved[i].fields(i, views[0])...)
	}
	if mix := views[0].Mix(); mix != nil {
		l.Fields = append(l.Fields, mixedFields(mix)...)
	}
	return l, l.place()
}

// imageField returns the field of a view, without its name and place.
func imageField(plan *native.Plan) (Field, error) {
	size, fixed := plan.FixedSize()
	if !fixed {
		return Field{}, errSizes
	}
	output := plan.Output()
	channels := int64(3)
	if output.Grey {
		channels = 1
	}
	shape := []int64{channels, int64(size.Height), int64(size.Width)}
	if output.Layout == native.NHWC {
		shape = []int64{int64(size.Height), int64(size.Width), channels}
	}
	if size.Images > 0 {
		shape = append([]int64{int64(size.Images)}, shape...)
	}
	return Field{DType: imageTypes[output.DType], Shape: shape, SampleBytes: int64(size.Bytes)}, nil
}

var imageTypes = map[int32]DType{native.Uint8: Uint8, native.Float16: Float16,
	native.BFloat16: BFloat16, native.Float32: Float32}

// mostBytes limits the size of a field and of the fields before it, so that sums of a few fit an int64.
const mostBytes = math.MaxInt64 / 4

// place puts the fields one after the other. Sizes may come from a user's transforms, so every product is checked for
// overflow.
func (l *Layout) place() error {
	for i := range l.Fields {
		f := &l.Fields[i]
		high, bytes := bits.Mul64(uint64(f.SampleBytes), uint64(l.BatchSize))
		if high != 0 || bytes > mostBytes || l.SlotBytes > mostBytes {
			return l.tooLarge()
		}
		f.Offset = l.SlotBytes
		l.SlotBytes = align(f.Offset + int64(bytes))
	}
	return nil
}

func (l *Layout) tooLarge() error {
	sample := int64(0) // the sum is of a few dozen fields of at most 2^52 bytes
	for _, f := range l.Fields {
		sample += f.SampleBytes
	}
	return catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("batch_size", l.BatchSize,
		fmt.Sprintf("at most %d samples of %d bytes each", mostBytes/sample, sample)))
}

func align(offset int64) int64 { return (offset + fieldAlignment - 1) &^ (fieldAlignment - 1) }

// int64s returns n numbers in a slot. The garbage collector neither moves nor scans a slot's memory.
func int64s(slot unsafe.Pointer, offset, n int64) []int64 {
	return unsafe.Slice((*int64)(unsafe.Add(slot, offset)), n)
}
