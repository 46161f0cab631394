package pipeline

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/learned"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// substitutes is how many other samples are tried instead of a faulty one. If half of a dataset is faulty, one sample
// in 65,536 fails.
const substitutes = 16

// fill writes one row of a draft: the sample itself, a substitute, or an error.
func (w *worker) fill(t task) {
	d := t.draft
	record := int64(-1)
	defer func() {
		// A bug of ours ends this batch, but never the process.
		if p := recover(); p != nil {
			w.untouch()
			w.loader.fail(t, &SampleError{Code: fault.KindInternal, Record: record, Offset: -1,
				Text: fmt.Sprintf("panic: %v; please report this with: %s", p, debug.Stack())})
		}
	}()
	// The sample was claimed before the stream was cancelled, and nobody will see it.
	if d.stream.cancelled.Load() {
		return
	}
	l := w.loader
	index, draw := d.sample(t.i)
	if t.record == nil {
		l.willNeed(d, t.i)
	}
	record = index
	failed := w.produce(d, t.i, index, draw, t.record)
	if failed == nil {
		return
	}
	if l.config.OnError == Raise || !replaceable(failed) {
		l.fail(t, failed)
		return
	}
	tried := 0
	// Substitutes are read here and not ahead, because faults are rare and readers know only the order.
	for attempt := int64(0); attempt < l.order.Others() && tried < substitutes; attempt++ {
		if d.stream.cancelled.Load() {
			return
		}
		substitute := l.order.Substitute(d.epoch, index, attempt)
		// A missing or truncated shard takes thousands of samples with it. That they are lost is known without reading, so
		// they do not count as tries: the epoch goes on while one sample is left.
		if sample, err := l.config.Dataset.Sample(substitute); err == nil && l.store.Lost(sample) {
			continue
		}
		tried++
		again := w.produce(d, t.i, substitute, draw, nil)
		if outage(failed) && again != nil && outage(again) {
			break // the store is at fault and no sample, and each try would wait for it
		}
		if again == nil {
			if t.i < d.count { // a partner's own rank reports it
				l.note(d, Replacement{Epoch: d.epoch, Step: d.step, Place: t.i, Index: index, Key: failed.Key,
					Substitute: substitute, Err: failed})
			}
			return
		}
	}
	failed.Text += fmt.Sprintf("; no substitute was good either, %d were tried", tried)
	l.fail(t, failed)
}

// produce reads and decodes sample `index` into row i of the draft.
func (w *worker) produce(d *draft, i, index int64, draw uint64, r *record) (failed *SampleError) {
	l := w.loader
	began := time.Now()
	tracing := w.traced()
	seen := part{began: began, row: i, index: index}
	if tracing != nil {
		defer func() { w.note(tracing, d, &seen, failed != nil) }()
	}
	sample, view, seek, err := w.fetched(d, r, index, &seen)
	if err != nil {
		return l.explain(err, index, sample)
	}
	if d.stream.cancelled.Load() {
		return nil
	}
	began = time.Now()
	defer func() { w.decode.Add(int64(time.Since(began))) }()
	if seek.listed {
		seek.Seek = l.learned.Find(seek.name, &w.seek)
	}
	// Without a draw number a substitute looks the same as in its own place.
	drawn := native.Key{Seed: l.order.Config().Seed, Epoch: uint64(d.epoch), Sample: uint64(index), Draw: draw}
	key, warnings, made, err := w.made(d, &seen, &sample, view, seek, drawn)
	holder := w.holder(r)
	if differs(err) {
		if anew, ok, failed := l.store.ReadAnew(sample, &w.buffer); ok {
			if holder, err = &w.buffer, failed; err == nil {
				key, warnings, made, err = w.made(d, &seen, &sample, anew, seek, drawn)
				err = twice(err)
			}
		}
	}
	if !made && err == nil {
		return nil
	}
	if err = l.store.After(sample, holder, err); err != nil {
		return l.explain(err, index, sample)
	}
	if seek.Learn {
		l.learned.Learn(seek.name, w.context)
	}
	if err := w.label(d, i, &sample, key); err != nil {
		return l.explain(err, index, sample)
	}
	w.images.Add(1)
	if seek.Length > 0 {
		w.points.Add(1)
	}
	if err := w.placed(d, i, index, &sample, warnings); err != nil {
		return l.explain(err, index, sample)
	}
	return nil
}

// made makes the pixels of a sample and returns the key with which they were drawn; made is false if nobody wants them
// any more.
func (w *worker) made(d *draft, seen *part, sample *catalog.Sample, view mmap.View, seek points, drawn native.Key) (key native.Key, warnings uint32, made bool, err error) {
	key = drawn
	if err = w.prepare(d, seen.row, sample, view, &key); err != nil {
		return key, 0, false, err
	}
	// A read that hung may end after Close has returned, and then the batch's memory may not be lent any more.
	if !w.touch(d) {
		return key, 0, false, nil
	}
	warnings, err = w.pixels(seen, sample, view, seek, key)
	w.untouch()
	return key, warnings, true, err
}

// differs is true for an error about the checksum of a record.
func differs(err error) bool {
	e, ok := err.(*native.Error)
	return ok && e.Code == native.Checksum
}

// twice adds to such an error that the bytes were fetched a second time.
func twice(err error) error {
	if differs(err) {
		e := *err.(*native.Error)
		e.Text += store.FetchedAgain
		return &e
	}
	return err
}

// prepare finds where a sample is written, and draws what depends on its boxes.
func (w *worker) prepare(d *draft, i int64, sample *catalog.Sample, view mmap.View, key *native.Key) error {
	err := w.ready(d, i, sample, view)
	if err == nil {
		*key, err = w.settle(d, sample, view, *key)
	}
	return err
}

// pixels decodes a sample to its destination. The result is invalid if the file was cut while it was read
// (mmap.Buffer.Intact).
func (w *worker) pixels(seen *part, sample *catalog.Sample, view mmap.View, seek points, key native.Key) (warnings uint32, err error) {
	var crc *uint32
	if w.loader.config.VerifyCRC && sample.HasCRC {
		crc = &sample.CRC32C
	}
	var called time.Time
	if w.timed {
		called = time.Now()
	}
	if p := sample.Pixels; p != nil {
		err = w.context.SampleRaw(view.Pointer, view.Length, rawOf(p), key, w.views...)
	} else {
		warnings, err = w.context.Sample(view.Pointer, view.Length, seek.Seek, key, crc, w.views...)
	}
	if w.timed {
		seen.native, seen.times = time.Since(called), w.context.Times()
	}
	return warnings, err
}

// holder returns the buffer that a sample's bytes were read into.
func (w *worker) holder(r *record) *mmap.Buffer {
	if r != nil {
		return &r.buffer
	}
	return &w.buffer
}

// fetched returns a sample with its bytes, which were read ahead or are read now.
func (w *worker) fetched(d *draft, r *record, index int64, seen *part) (sample catalog.Sample, view mmap.View, seek points, err error) {
	l := w.loader
	if r != nil {
		sample, view, seek, err = r.sample, r.view, r.seek, r.err
		if r.kept {
			seen.began, seen.read = seen.began.Add(-r.took), r.took
		}
		if r.want.Source != nil && err == nil {
			seek = l.pointsOf(sample, &w.seek)
		}
		seen.bytes = view.Length
		return sample, view, seek, err
	}
	if sample, err = l.config.Dataset.Sample(index); err != nil {
		return sample, view, seek, err
	}
	view, seek, err = w.readItself(d, seen.row, sample)
	seen.read, seen.bytes = time.Since(seen.began), view.Length
	return sample, view, seek, err
}

// ready refuses a sample that is known to be bad before it is decoded, and finds where it is written.
func (w *worker) ready(d *draft, i int64, sample *catalog.Sample, view mmap.View) error {
	// A verdict holds for every crop. Otherwise a crop above the cut in a truncated file would give pixels in one epoch,
	// and another crop an error in the next.
	if sample.Verdict >= catalog.Truncated {
		if err := w.convict(*sample, view); err != nil {
			return err
		}
	}
	if d.mixture != nil {
		if err := d.mixture.checkLabel(sample.Label); err != nil {
			return err
		}
	}
	return w.destinations(d, i)
}

// placed writes the values of a sample other than its pixels, when the pixels are made: label and index, or the mixed
// result.
func (w *worker) placed(d *draft, i, index int64, sample *catalog.Sample, warnings uint32) error {
	if !w.touch(d) {
		return nil
	}
	defer w.untouch()
	// The label belongs to the pixels and not to the row, so both are of this sample, even if it is a substitute.
	if i < d.count {
		int64s(d.base, d.layout.labelsOffset(), d.count)[i] = sample.Label
		int64s(d.base, d.layout.indicesOffset(), d.count)[i] = index
	}
	if d.mixture != nil {
		if err := w.brought(d, i, index, sample.Label); err != nil {
			return err
		}
	}
	if i < d.count && (warnings > 0 || sample.Verdict == catalog.Warnings) {
		w.warned(d, i, index, warnings)
	}
	return nil
}

// destinations finds where sample i is written: its row of each view's field, or where it is mixed.
func (w *worker) destinations(d *draft, i int64) error {
	w.views = w.views[:0]
	plans := w.loader.config.Recipe.Phases[d.phase].Views
	if d.mixture != nil {
		view, err := w.unmixed(d, i)
		w.views = append(w.views, view)
		return err
	}
	for v := range plans {
		field := &d.layout.Fields[v]
		to, err := d.place(field, i)
		if err != nil {
			return err
		}
		w.views = append(w.views, native.View{Plan: plans[v], To: to, Capacity: uint64(field.SampleBytes)})
	}
	return nil
}

// place returns where sample i of a field begins. New memory is populated by whoever writes it first, by all threads at
// once; for used memory only a flag is read.
func (d *draft) place(f *Field, i int64) (unsafe.Pointer, error) {
	at := f.Offset + i*f.SampleBytes
	if err := d.slot.Populate(at, f.SampleBytes); err != nil {
		return nil, err
	}
	return unsafe.Add(d.base, at), nil
}

// points has a sample's seek points for the decoder, which ignores points that were altered. For a listed file it has
// the name by which points are found, beside the file or in the cache, and under which they are kept when they are
// learned.
type points struct {
	native.Seek
	listed bool
	name   learned.Name
}

// readItself reads sample i of a draft in the worker, as long as reads are fast.
func (w *worker) readItself(d *draft, i int64, sample catalog.Sample) (mmap.View, points, error) {
	l, began := w.loader, time.Now()
	inBlock := sample.Block.Codec != blocks.None
	if inBlock {
		w.blockTime = 0
		w.decodeAhead(d, i)
	}
	view, seek, err := l.readBoth(l.store.Waits(), sample, &w.buffer, &w.seek, &w.blockTime)
	took := time.Since(began)
	w.read(view.Length, took)
	if inBlock {
		took = slowness(w.blockTime, &sample)
	}
	if l.pace.workerRead(took) {
		l.ahead.start()
	}
	return view, seek, err
}

// readBoth reads a sample and its seek points. Points only make decoding faster; without them the pixels are the same.
// If fetched is not nil, it gets the part of the time that reading a block took.
func (l *Loader) readBoth(ctx context.Context, sample catalog.Sample, b, seekBuffer *mmap.Buffer, fetched *time.Duration) (view mmap.View, seek points, err error) {
	if l.store.Listed(sample) {
		view, path, stamp, err := l.store.ReadListed(sample, b)
		if err != nil || !learned.Worth(view) {
			return view, seek, err
		}
		return view, points{listed: true, name: l.learned.File(path, stamp)}, nil
	}
	if view, err = l.store.ReadWithin(ctx, sample, b, fetched); err != nil {
		return view, seek, err
	}
	return view, l.readSeek(sample, seekBuffer), nil
}

// readSeek reads the seek points of a sample if they are in a file.
func (l *Loader) readSeek(sample catalog.Sample, b *mmap.Buffer) (seek points) {
	if found, _ := l.store.ReadSeek(sample, b); found.Length > 0 {
		seek.Seek = native.Seek{Data: found.Pointer, Length: found.Length, CRC32C: sample.Seek.CRC32C, HasCRC: true}
	}
	return seek
}

// rawOf converts an image of an array for the decoder.
func rawOf(p *catalog.Pixels) *native.Raw {
	return &native.Raw{Width: p.Width, Height: p.Height, Channels: p.Channels,
		Origin: p.Origin, Row: p.Row, Pixel: p.Pixel, Channel: p.Channel}
}

// convict says what is wrong with a sample that was found faulty when it was packed or indexed; nil if it only exceeded
// a limit that is higher now.
func (w *worker) convict(sample catalog.Sample, view mmap.View) error {
	if sample.Pixels != nil && sample.Verdict == catalog.Limit {
		return nil // pixels without a header have no other fault; their checksum is compared when they are read
	}
	// This is rare, so the whole file is read again: the decoder's error says more than a stored verdict.
	facts, _, err := w.context.Inspect(view.Pointer, view.Length, true)
	switch {
	case w.loader.config.VerifyCRC && sample.HasCRC && facts.CRC32C != sample.CRC32C:
		return &native.Error{Code: native.Checksum, Offset: -1,
			Text: fault.Differs("the record's CRC-32C differs", crcText(sample.CRC32C), crcText(facts.CRC32C))}
	case err != nil:
		return err
	case sample.Verdict == catalog.Limit:
		return nil
	}
	return &native.Error{Code: verdictCodes[sample.Verdict], Offset: -1,
		Text: "the image was found " + sample.Verdict.String() + " when it was packed or indexed"}
}

func crcText(crc uint32) string { return fmt.Sprintf("%08x", crc) }

// verdictCodes are the faults that a verdict can name. An exceeded limit is no fault of the file.
var verdictCodes = map[catalog.Verdict]native.Code{
	catalog.Truncated: native.Truncated, catalog.Bad: native.Bad, catalog.Unsupported: native.Unsupported,
}

// warned adds a sample with decoder warnings to the report. Its pixels are those that Pillow gives, but nothing is
// ignored silently.
func (w *worker) warned(d *draft, i, index int64, warnings uint32) {
	key, _ := w.loader.config.Dataset.Key(index)
	w.loader.note(d, Replacement{Epoch: d.epoch, Step: d.step, Place: i, Index: index, Key: key,
		Substitute: -1, Warnings: warnings})
}
