package pack

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/headroom"
)

// byContainer has the rows of a dataset by their containers, in the order of their places there. The rows of archives
// of class folders are in the order of the classes, and those of a selection in any order. If they were read from a
// store like that, every row would fetch a piece of another container.
// It takes 4 bytes a row as long as verify runs.
type byContainer struct {
	rows  []uint32
	first []int // where each container begins in rows, and the end
}

// orderByContainer returns nil if rows are in the order of their containers, as most are, or if that cannot be known.
// Then rows are read in their own order.
// It reads the index twice: once to see whether an order is needed and once to fill it in. Sorting rows alone would
// read the index at each comparison.
func (v *verifier) orderByContainer(ctx context.Context) *byContainer {
	total := v.dataset.Len()
	if v.dataset.Kind() != catalog.Contained || total > math.MaxUint32 {
		return nil
	}
	shards := len(v.dataset.Shards())
	counts, ordered, last, end := make([]int, shards+1), true, uint32(0), int64(0)
	for i := range total {
		s, err := v.dataset.Sample(i)
		if err != nil || ctx.Err() != nil {
			return nil // the index is damaged there, which checkRows reports
		}
		counts[s.Shard+1]++
		ordered = ordered && (s.Shard > last || s.Shard == last && s.Offset >= end)
		last, end = s.Shard, s.Offset
	}
	// Sorting takes 4 bytes for each row and 8 for its offset. Without that memory rows are read in their own order.
	if ordered || headroom.Memory(12*total) != nil {
		return nil
	}
	for n := range shards {
		// counts now has the first row of each container. While rows are filled in below, it has the next one.
		counts[n+1] += counts[n]
	}
	order := &byContainer{rows: make([]uint32, total), first: slices.Clone(counts)}
	offsets := make([]int64, total)
	for i := range total {
		s, err := v.dataset.Sample(i)
		if err != nil || ctx.Err() != nil {
			return nil
		}
		offsets[i] = s.Offset
		order.rows[counts[s.Shard]] = uint32(i)
		counts[s.Shard]++
	}
	for n := range shards {
		slices.SortFunc(order.of(n), func(a, b uint32) int { return cmp.Or(cmp.Compare(offsets[a], offsets[b]), cmp.Compare(a, b)) })
	}
	return order
}

// of returns the rows of container n.
func (o *byContainer) of(n int) []uint32 { return o.rows[o.first[n]:o.first[n+1]] }

// checkRowsOf is checkRecords for container n. Its rows are first to end if rows are in the order of their containers.
func (v *verifier) checkRowsOf(ctx context.Context, r *reader, n int, first, end int64) {
	if v.order == nil {
		v.checkRecords(ctx, r, first, end)
		return
	}
	for _, row := range v.order.of(n) {
		v.checkRecords(ctx, r, int64(row), int64(row)+1)
	}
}
