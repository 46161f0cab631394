package pack

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/headroom"
)

// byContainer are the rows of a dataset by the containers that they lie in, in the order of their places there. Rows of
// archives of class folders stand in the order of the classes, and those of a selection in any: read so, out of a store,
// every row would fetch a piece of another container.
// 4 bytes a row, for as long as verify runs.
type byContainer struct {
	rows  []uint32
	first []int // of each container in rows, and the end
}

// orderByContainer is nil where rows stand as they lie in their containers, as most do, and where that cannot be known: then they are
// read as they stand.
// It goes through the index twice, once to see whether it is needed and once to fill it in; a sort by rows alone would
// need the index for each comparison.
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
			return nil // the index is wrong there, which checkRows says
		}
		counts[s.Shard+1]++
		ordered = ordered && (s.Shard > last || s.Shard == last && s.Offset >= end)
		last, end = s.Shard, s.Offset
	}
	// 4 bytes for the row and 8 for its offset while they are sorted. Without that memory rows are read as they stand.
	if ordered || headroom.Memory(12*total) != nil {
		return nil
	}
	for n := range shards {
		// Now the first row of each container, and below, as they are filled in, the next one.
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

// of is the rows of container n.
func (o *byContainer) of(n int) []uint32 { return o.rows[o.first[n]:o.first[n+1]] }

// checkRowsOf is checkRecords of what lies in container n, which has the rows from first to end where rows stand by their
// containers.
func (v *verifier) checkRowsOf(ctx context.Context, r *reader, n int, first, end int64) {
	if v.order == nil {
		v.checkRecords(ctx, r, first, end)
		return
	}
	for _, row := range v.order.of(n) {
		v.checkRecords(ctx, r, int64(row), int64(row)+1)
	}
}
