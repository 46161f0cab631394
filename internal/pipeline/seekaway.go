package pipeline

import (
	"context"
	"sync/atomic"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// pointsTogether is how many bytes of seek points a request fetches.
const pointsTogether = 1 << 20

// pointsAway has the seek points of a dataset in a store, which are fetched into the cache on disk after the first
// batch. They only make decoding faster: until they are there, samples are decoded without them.
type pointsAway struct {
	file     *catalog.Shard
	identity atomic.Pointer[string] // nil until it is known
	begun    atomic.Bool
	begin    chan struct{}
	ctx      context.Context
	stop     context.CancelFunc
}

// newPointsAway returns nil if there are no points, or if records would have to make room for them.
func (l *Loader) newPointsAway() *pointsAway {
	d := l.config.Dataset
	file, m := d.SeekAway(), d.Manifest()
	if l.kept == nil || file == nil || !l.kept.Holds(m.Rows+m.Seek.Samples, m.Bytes+m.Seek.Size) {
		return nil
	}
	p := &pointsAway{file: file, begin: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// delivered notes that a batch was delivered.
func (p *pointsAway) delivered() {
	if p != nil && !p.begun.Swap(true) {
		close(p.begin)
	}
}

// bring fetches the points of all samples. If it fails, the next loader tries again.
func (l *Loader) bring(p *pointsAway) {
	select {
	case <-p.begin:
	case <-p.ctx.Done():
		return
	}
	identity, err := p.file.Identity(p.ctx)
	if err != nil || identity == "" {
		return
	}
	p.identity.Store(&identity)
	memory := make([]byte, pointsTogether)
	for row := int64(0); row < l.config.Dataset.Len() && p.ctx.Err() == nil; {
		var list []parts.Part
		var begin int64
		list, begin, row = l.nextPoints(identity, row, memory)
		var failed atomic.Bool
		l.kept.Fill(p.ctx, list, func(ctx context.Context, from, to int) error {
			// Each part's capacity ends where memory ends.
			at, end := len(memory)-cap(list[from].Bytes), len(memory)-cap(list[to-1].Bytes)+len(list[to-1].Bytes)
			err := p.file.ReadAt(ctx, memory[at:end], begin+int64(at))
			if err != nil {
				failed.Store(true)
			}
			return err
		})
		if failed.Load() {
			return
		}
	}
}

// nextPoints returns the points of samples, from a row on, that follow each other and fit into memory. In the file they
// start at begin; next is the row after them.
func (l *Loader) nextPoints(identity string, row int64, memory []byte) (list []parts.Part, begin, next int64) {
	samples, next := runOfPoints(l.config.Dataset.Sample, row, l.config.Dataset.Len(), int64(len(memory)))
	for i := range samples {
		at := samples[i].Seek.Offset - samples[0].Seek.Offset
		list = append(list, l.pointsPart(identity, &samples[i], memory[at:at+samples[i].Seek.Length]))
	}
	if len(samples) > 0 {
		begin = samples[0].Seek.Offset
	}
	return list, begin, next
}

// runOfPoints returns the samples, from a row on, whose points follow each other within `most` bytes; next is the row
// after them. Rows of an index are checked one record batch at a time, so the points of one batch may begin before
// those of the previous batch end.
func runOfPoints(sampleAt func(int64) (catalog.Sample, error), row, count, most int64) (run []catalog.Sample, next int64) {
	var begin, end int64
	for ; row < count; row++ {
		sample, err := sampleAt(row)
		place := &sample.Seek
		if err != nil || place.Length <= 0 || place.Length > most {
			continue
		}
		if len(run) == 0 {
			begin, end = place.Offset, place.Offset
		}
		if place.Offset < end || place.Offset-begin > most-place.Length {
			break
		}
		end = place.Offset + place.Length
		run = append(run, sample)
	}
	return run, row
}

func (l *Loader) pointsPart(identity string, sample *catalog.Sample, to []byte) parts.Part {
	return parts.Part{Key: parts.KeyOf(identity, sample.Seek.Offset, int64(len(to))), Sample: sample.Index,
		Next: l.kept.NextUse(sample.Index), CRC: &sample.Seek.CRC32C, Bytes: to}
}

// pointsOf returns the seek points of a record that was fetched.
func (l *Loader) pointsOf(sample catalog.Sample, b *mmap.Buffer) (seek points) {
	p := l.points
	if p == nil {
		return l.readSeek(sample, b)
	}
	identity := p.identity.Load()
	if identity == nil || sample.Seek.Length <= 0 || sample.Seek.Length > pointsTogether {
		return seek
	}
	room, err := b.Reserve(sample.Seek.Length)
	if err != nil {
		return seek
	}
	one := l.pointsPart(*identity, &sample, room)
	if !l.kept.Peek(&one) {
		return seek
	}
	view := b.Part(0, sample.Seek.Length)
	seek.Seek = native.Seek{Data: view.Pointer, Length: view.Length, CRC32C: sample.Seek.CRC32C, HasCRC: true}
	return seek
}
