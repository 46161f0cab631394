package pipeline

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/native"
	"github.com/headrace/headrace/pinned"
)

// mixture is the additional state of a draft whose samples are mixed with each other. With CutMix each sample writes
// its visible parts itself. With MixUp samples wait in the mixture's memory, and the worker that decodes the second of
// two writes the result into its row of the slot. Partners in other ranks' rows are decoded here too.
type mixture struct {
	plan    *native.Plan
	pairing order.Pairing
	step    order.Step
	first   int64   // first row of the draft in the step
	count   int64   // number of its samples
	foreign []int64 // rows in the step of partners that belong to other ranks

	lacks []atomic.Int32 // for each sample, how many of the two that it is made of are not decoded yet

	// These are written before the draft is open.
	slot *pinned.Slot
	base unsafe.Pointer
	each int64 // bytes of one sample

	// These have the draft's own samples first, then the foreign ones. Whoever decodes a sample writes its entries. spots
	// says where each sample waits.
	labels, indices, spots []int64
}

// mostForeign is the largest number of partners of a batch in other ranks' rows.
const mostForeign = 2

// newMixture makes the mixture of rows [first, first+count) of a step.
func newMixture(plan *native.Plan, step order.Step, first, count int64) *mixture {
	m := &mixture{plan: plan, step: step, first: first, count: count, each: plan.UnmixedBytes()}
	if plan.Mix().Neighbours {
		m.pairing = order.Neighbours
	}
	m.foreign = m.pairing.Foreign(first, count, step.Total)
	m.lacks = make([]atomic.Int32, count)
	for i := range m.lacks {
		m.lacks[i].Store(2)
		if m.partner(int64(i)) == int64(i) {
			m.lacks[i].Store(1)
		}
	}
	all := count + int64(len(m.foreign))
	m.labels, m.indices, m.spots = make([]int64, all), make([]int64, all), make([]int64, all)
	return m
}

// row returns the row of sample i in the step.
func (m *mixture) row(i int64) int64 {
	if i >= m.count {
		return m.foreign[i-m.count]
	}
	return m.first + i
}

// local is the inverse of row; -1 if the row's sample is not decoded here.
func (m *mixture) local(row int64) int64 {
	if i := row - m.first; i >= 0 && i < m.count {
		return i
	}
	for k, foreign := range m.foreign {
		if foreign == row {
			return m.count + int64(k)
		}
	}
	return -1
}

func (m *mixture) partner(i int64) int64 {
	return m.local(m.pairing.Partner(m.row(i), m.step.Total))
}

// taker returns the sample that sample i is mixed into.
func (m *mixture) taker(i int64) int64 {
	return m.local(m.pairing.Taker(m.row(i), m.step.Total))
}

// at returns where sample i waits.
func (m *mixture) at(i int64) unsafe.Pointer { return unsafe.Add(m.base, m.spots[i]*m.each) }

// spot says where sample i waits. A sample inside a run is mixed only with its neighbours in the run, so it is not
// needed any more when the second sample after it begins. Such samples take turns in two places, which stay in the
// CPU's cache.
// The first and last sample of a run, and partners of other ranks' samples, may have to wait for other workers, so each
// has its own place.
func (r *run) spot(d *draft, i int64) int64 {
	if r.draft != d || i <= r.first || i >= r.end-1 || i >= d.count {
		return i
	}
	return r.first + 1 + (i-r.first-1)%2
}

// longestRun is how many samples a worker decodes one after the other. It mixes each sample except the first with the
// one before, while both are in its cache.
const longestRun = 32

// run returns the length of a run. Each worker gets at least two runs of a batch, so that the other workers do not wait
// during the last run.
func (m *mixture) run(threads int) int64 {
	return max(1, min(longestRun, m.count/(2*int64(threads))))
}

// drop releases the memory when nobody works on the draft any more; the caller holds the Loader's lock.
func (m *mixture) drop() {
	if m == nil || m.slot == nil {
		return
	}
	_ = m.slot.Abandon()
	m.slot = nil
}

// unmixed says where sample i is written. With CutMix, or if it is not mixed, that is its own row and the row of the
// sample that a part of it is pasted into. With MixUp it is the memory where it waits. If its partner is decoded
// already, it is the row itself, and the two are mixed while this one is decoded.
func (w *worker) unmixed(d *draft, i int64) (native.View, error) {
	m := d.mixture
	m.spots[i] = w.claimed.spot(d, i)
	view := native.View{Plan: m.plan, To: m.at(i), Capacity: uint64(m.each)}
	if err := m.slot.Populate(m.spots[i]*m.each, m.each); err != nil {
		return view, err
	}
	for k, into := range [2]int64{i, m.taker(i)} {
		// A row that another rank finishes is skipped.
		if into < 0 || into >= m.count {
			continue
		}
		drawn := m.draw(w.loader.order.Config().Seed, uint64(d.epoch), into)
		to, err := d.place(&d.layout.Fields[0], into)
		if err != nil {
			return view, err
		}
		if drawn.Kind == native.MixMixUp {
			view.Waits = true
			if m.lacks[into].Load() == 1 && (k == 0 || into != i) {
				other := m.partner(i)
				if k == 1 {
					other = into
				}
				view.MixUps[k] = native.MixUp{To: to, Other: m.at(other), Lambda: drawn.Lambda, Theirs: k == 1}
			}
			continue
		}
		// If the sample is not mixed, nothing is cut.
		view.Patches[k] = native.Patch{To: to, Top: drawn.Top, Left: drawn.Left, Height: drawn.Height,
			Width: drawn.Width, Outside: k == 0}
	}
	return view, nil
}

// brought notes that sample i is decoded, and finishes the mixed samples that only lacked this one.
func (w *worker) brought(d *draft, i, index, label int64) error {
	m := d.mixture
	m.labels[i], m.indices[i] = label, index
	taker := m.taker(i)
	for k, into := range [2]int64{i, taker} {
		if k == 1 && taker == i {
			continue // it is its own partner
		}
		// A row that another rank finishes is skipped.
		if into < 0 || into >= m.count || m.lacks[into].Add(-1) > 0 {
			continue
		}
		if err := w.finish(d, into, w.views[0].MixUps[k].To != nil); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the mixed sample i to its row, unless that was done while its second part was decoded (made), and
// writes its labels.
func (w *worker) finish(d *draft, i int64, made bool) error {
	m, mix := d.mixture, d.mixture.plan.Mix()
	to, err := d.place(&d.layout.Fields[0], i)
	if err != nil {
		return err
	}
	j := m.partner(i)
	drawn := m.draw(w.loader.order.Config().Seed, uint64(d.epoch), i)
	if drawn.Kind == native.MixMixUp && !made {
		m.plan.FinishMixed(m.at(i), m.at(j), drawn.Lambda, to)
	}

	fields := d.layout.behind()
	int64s(d.base, fields[partners].Offset, d.count)[i] = m.indices[j]
	int64s(d.base, fields[partnerLabels].Offset, d.count)[i] = m.labels[j]
	unsafe.Slice((*float64)(unsafe.Add(d.base, fields[lambdas].Offset)), d.count)[i] = drawn.Lambda
	unsafe.Slice((*[4]int32)(unsafe.Add(d.base, fields[boxes].Offset)), d.count)[i] =
		[4]int32{drawn.Top, drawn.Left, drawn.Height, drawn.Width}
	if mix.Classes > 0 {
		row := unsafe.Slice((*float32)(unsafe.Add(d.base, fields[targets].Offset+4*i*mix.Classes)), mix.Classes)
		native.MixLabels(mix.Smoothing, m.labels[i], m.labels[j], drawn.Lambda, row)
	}
	return nil
}

// draw returns what is done to sample i. It depends only on where its step begins and on its row there, so neither
// ranks nor threads nor a resume can change it.
func (m *mixture) draw(seed, epoch uint64, i int64) native.Mixing {
	mix, row := m.plan.Mix(), m.row(i)
	if mix.Neighbours && m.partner(i) == i {
		return native.Mixing{Drawn: 1, Lambda: 1} // the last one of an odd number
	}
	key := native.Key{Seed: seed, Epoch: epoch, Draw: uint64(m.step.Begin)}
	switch mix.Unit() {
	case native.MixPair:
		key.Sample = uint64(min(row, m.pairing.Partner(row, m.step.Total)))
	case native.MixElement:
		key.Sample = uint64(row)
	}
	size, _ := m.plan.FixedSize()
	return mix.DrawMixing(key, size.Width, size.Height)
}

// checkLabel refuses a label for which a soft label has no place.
func (m *mixture) checkLabel(label int64) error {
	classes := m.plan.Mix().Classes
	if classes == 0 || (label >= 0 && label < classes) {
		return nil
	}
	return catalog.NewError(fault.KindArgument, "", "the label is %d (expected 0 to %d, less than num_classes)", label, classes-1)
}

// These fields only a mixed batch has, in this order. They come after the others.
const (
	partners = iota
	partnerLabels
	lambdas
	boxes   // top, left, height, width
	targets // if labels are soft
)

func mixedFields(mix *native.Mix) []Field {
	fields := []Field{
		partners:      {Name: "partners", DType: Int64},
		partnerLabels: {Name: "partner_labels", DType: Int64},
		lambdas:       {Name: "lambdas", DType: Float64},
		boxes:         {Name: "boxes", DType: Int32, Shape: []int64{4}},
	}
	if mix.Classes > 0 {
		fields = append(fields, Field{Name: "targets", DType: Float32, Shape: []int64{mix.Classes}})
	}
	for i := range fields {
		f := &fields[i]
		f.SampleBytes = f.DType.Bytes()
		for _, length := range f.Shape {
			f.SampleBytes *= length // at most 4 times native's limit of the classes
		}
	}
	return fields
}

// unmixedPool makes the memory in which samples of a batch of that size wait; nil if none are mixed.
func unmixedPool(c *Config, batchSize int64) (*pinned.Pool, error) {
	each := int64(0) // of the phase in which it is largest
	for _, phase := range c.Recipe.Phases {
		if plan := phase.Views[0]; plan.Mix() != nil {
			each = max(each, plan.UnmixedBytes())
		}
	}
	if each == 0 {
		return nil, nil
	}
	high, bytes := bits.Mul64(uint64(each), uint64(batchSize+mostForeign))
	if high != 0 || bytes > math.MaxInt64/2 {
		return nil, catalog.NewError(fault.KindArgument, "", "%s",
			fault.Argument("batch_size", batchSize, "fewer samples, to be mixed"))
	}
	return pinned.NewPool(pinned.Options{SlotBytes: int64(bytes), Keep: c.window()})
}
