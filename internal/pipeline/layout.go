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

// fieldAlignment of everything in a slot: a cache line, and what DLPack consumers may ask for.
const fieldAlignment = 64

// Layout says where the fields of a batch lie in its slot: images, then labels, then indices
// (both int64), then what only a mixed batch has, each from a multiple of 64 bytes. It is the same
// for a partial batch.
type Layout struct {
	Width, Height               uint32
	BatchSize                   int64
	SampleBytes                 int64
	LabelsOffset, IndicesOffset int64
	SlotBytes                   int64
	Mixed                       MixedLayout
}

func newLayout(plan *native.Plan, batchSize int64) (Layout, error) {
	// Sizes may come from a user's transform list, so every product is checked.
	size, fixed := plan.FixedSize()
	if !fixed {
		return Layout{}, errSizes
	}
	high, images := bits.Mul64(size.Bytes, uint64(batchSize))
	// The labels and indices of 2^56 samples would fit beside images of 2^62 bytes.
	if high != 0 || images > math.MaxInt64/2 || batchSize > 1<<56 {
		return Layout{}, catalog.NewError(catalog.KindArgument, "", "%s",
			fault.Argument("batch_size", batchSize, fmt.Sprintf("at most %d samples of %d bytes each", min(math.MaxInt64/2/size.Bytes, 1<<56), size.Bytes)))
	}
	l := Layout{Width: size.Width, Height: size.Height, BatchSize: batchSize, SampleBytes: int64(size.Bytes)}
	l.LabelsOffset = align(int64(images))
	l.IndicesOffset = align(l.LabelsOffset + 8*batchSize)
	l.SlotBytes = align(l.IndicesOffset + 8*batchSize)
	return l, l.addMixed(plan.Mix())
}

func align(offset int64) int64 { return (offset + fieldAlignment - 1) &^ (fieldAlignment - 1) }

// int64s shows n numbers of a slot. Slot memory is neither moved nor scanned by the collector.
func int64s(slot unsafe.Pointer, offset, n int64) []int64 {
	return unsafe.Slice((*int64)(unsafe.Add(slot, offset)), n)
}
