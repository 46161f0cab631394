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

// mixture is what a draft has besides where its samples are mixed with each other. They are decoded
// into memory of its own; whoever brings the second of two finishes the one in its place in the
// slot, while both are in the cache. Partners at other ranks' places are decoded here too.
type mixture struct {
	plan    *native.Plan
	pairing order.Pairing
	step    order.Step
	first   int64   // the draft's first place in the step
	count   int64   // its samples
	foreign []int64 // places in the step of partners that are not among them

	lacks []atomic.Int32 // how many of the two that make a sample are not there yet

	// Written before the draft is open.
	slot *pinned.Slot
	base unsafe.Pointer
	each int64 // bytes of one

	// Of the draft's own samples and then of the foreign ones, by whoever decoded them.
	labels, indices []int64
}

// mostForeign is how many partners a batch has at other ranks' places.
const mostForeign = 2

// newMixture is for places [first, first+count) of a step.
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
	m.labels, m.indices = make([]int64, all), make([]int64, all)
	return m
}

// place is where in the step sample i lies.
func (m *mixture) place(i int64) int64 {
	if i >= m.count {
		return m.foreign[i-m.count]
	}
	return m.first + i
}

// local is the inverse of place; -1 for a place whose sample is not decoded here.
func (m *mixture) local(place int64) int64 {
	if i := place - m.first; i >= 0 && i < m.count {
		return i
	}
	for k, foreign := range m.foreign {
		if foreign == place {
			return m.count + int64(k)
		}
	}
	return -1
}

func (m *mixture) partner(i int64) int64 {
	return m.local(m.pairing.Partner(m.place(i), m.step.Total))
}

// at is where sample i waits.
func (m *mixture) at(i int64) unsafe.Pointer { return unsafe.Add(m.base, i*m.each) }

// drop gives the memory back, with the Loader's lock held; nobody works at it any more.
func (m *mixture) drop() {
	if m == nil || m.slot == nil {
		return
	}
	_ = m.slot.Abandon()
	m.slot = nil
}

// brought notes that sample i is decoded, and finishes those that waited for it alone.
func (w *worker) brought(d *draft, i, index, label int64) error {
	m := d.mixture
	m.labels[i], m.indices[i] = label, index
	takers := []int64{i}
	if taker := m.local(m.pairing.Taker(m.place(i), m.step.Total)); taker != i {
		takers = append(takers, taker)
	}
	for _, taker := range takers {
		// Not one that is finished at another rank.
		if taker < 0 || taker >= m.count || m.lacks[taker].Add(-1) > 0 {
			continue
		}
		if err := w.finish(d, taker); err != nil {
			return err
		}
	}
	return nil
}

// finish writes sample i, of which both sides are there, and its labels to their places.
func (w *worker) finish(d *draft, i int64) error {
	m, mix := d.mixture, d.mixture.plan.Mix()
	to, err := d.place(&d.layout.Fields[0], i)
	if err != nil {
		return err
	}
	j := m.partner(i)
	drawn := m.draw(w.loader.order.Config().Seed, uint64(d.epoch), i)
	m.plan.FinishMixed(m.at(i), m.at(j), &drawn, to)

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

// draw is what is done to sample i: a function of where its step begins and of its place there, so
// that neither ranks nor threads nor a resume can change it.
func (m *mixture) draw(seed, epoch uint64, i int64) native.Mixing {
	mix, place := m.plan.Mix(), m.place(i)
	if mix.Neighbours && m.partner(i) == i {
		return native.Mixing{Drawn: 1, Lambda: 1} // the last of an odd number
	}
	key := native.Key{Seed: seed, Epoch: epoch, Draw: uint64(m.step.Begin)}
	switch mix.Unit() {
	case native.MixPair:
		key.Sample = uint64(min(place, m.pairing.Partner(place, m.step.Total)))
	case native.MixElement:
		key.Sample = uint64(place)
	}
	size, _ := m.plan.FixedSize()
	return mix.DrawMixing(key, size.Width, size.Height)
}

// checkLabel refuses a label that a soft one has no place for.
func (m *mixture) checkLabel(label int64) error {
	classes := m.plan.Mix().Classes
	if classes == 0 || (label >= 0 && label < classes) {
		return nil
	}
	return catalog.NewError(catalog.KindArgument, "", "the label is %d (expected 0 to %d, less than num_classes)", label, classes-1)
}

// The fields that only a mixed batch has, behind the others: where they stand among themselves.
const (
	partners = iota
	partnerLabels
	lambdas
	boxes   // top, left, height, width
	targets // where labels are soft
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
			f.SampleBytes *= length // at most 4 times native's bound of the classes
		}
	}
	return fields
}

// unmixedPool is the memory that samples of batches of a size wait in; nil where none are mixed.
func unmixedPool(c *Config, batchSize int64) (*pinned.Pool, error) {
	each := int64(0) // in the phase where it is largest
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
		return nil, catalog.NewError(catalog.KindArgument, "", "%s",
			fault.Argument("batch_size", batchSize, "fewer samples, to be mixed"))
	}
	return pinned.NewPool(pinned.Options{SlotBytes: int64(bytes), Keep: c.window(), NoMemfd: c.NoMemfd})
}
