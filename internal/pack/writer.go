package pack

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
)

// WriterConfig asks for a packed dataset that is given sample by sample.
// It has the members of PackConfig that make sense without a source.
type WriterConfig struct {
	Options
	SeekOptions
	RecodeOptions
	Destination string          `json:"destination"`
	ShardBytes  int64           `json:"shard_bytes"`
	Overwrite   bool            `json:"overwrite"`
	OnFault     string          `json:"on_fault"`
	Classes     []string        `json:"classes"`
	Fields      []catalog.Field `json:"fields"` // nil: those of the first sample
	Storage     remote.Storage  `json:"-"`      // for a Destination that is a URL
}

// Added is a sample without its image.
// A label is a number; AddJSON looks up names.
type Added struct {
	Key    string // "": the sample's number
	Label  *int64 // nil: none
	Fields map[string]any
}

// Writer takes samples, and inspects and writes them in the background, in their order. An error of a file is returned
// by a later call. An unsuitable argument is refused at once, and the writer goes on without that sample.
// mu admits one call at a time, so that samples have an order whoever adds them.
type Writer struct {
	mu     sync.Mutex
	config WriterConfig
	output *output
	fields []catalog.Field // nil until the first sample
	keys   *keySet
	count  int64

	items  chan *item
	ctx    context.Context // of everything that waits
	cancel context.CancelFunc
	done   chan struct{} // closed when the flow has ended
	err    error         // of the flow; read after done
	track  *Tracker
	closed bool
}

// NewWriter checks the destination and begins.
// Fields and index follow with the first sample, because only then the types are known.
func NewWriter(c WriterConfig) (*Writer, error) {
	if err := c.Options.check(); err != nil {
		return nil, err
	}
	if err := checkFaultPolicy(c.OnFault); err != nil {
		return nil, err
	}
	if err := c.RecodeOptions.check(); err != nil {
		return nil, err
	}
	if c.Destination == "" {
		return nil, catalog.NewError(fault.KindArgument, "", "destination is missing")
	}
	for i, f := range c.Fields {
		if err := checkFieldName(f.Name); err != nil {
			return nil, catalog.NewError(fault.KindArgument, "", "fields[%d]: %v", i, err)
		}
	}
	for i, name := range c.Classes {
		if len(name) > formats.MaxNameBytes {
			return nil, catalog.NewError(fault.KindArgument, "", "classes[%d] has %d bytes (expected at most %d)", i, len(name), formats.MaxNameBytes)
		}
	}
	// The context belongs to no call: samples come one by one, and another thread may call Abort while Finish waits.
	ctx, cancel := context.WithCancel(context.Background())
	o, err := newOutput(ctx, c.Destination, c.ShardBytes, c.Overwrite, c.Storage)
	if err != nil {
		cancel()
		return nil, err
	}
	o.raise, o.lossy, o.track = c.OnFault == RaiseFaults, c.lossy(), NewTracker()
	return &Writer{config: c, output: o, keys: newKeySet(), track: o.track, ctx: ctx, cancel: cancel}, nil
}

// Add adds a sample. It copies the image's bytes.
// It returns when the sample is queued. Only later it is known whether its bytes are an image.
func (w *Writer) Add(image []byte, a Added) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return catalog.NewError(fault.KindArgument, w.config.Destination, "the writer is closed")
	}
	it, err := w.item(image, a)
	if err != nil {
		return err
	}
	if w.items == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	// The channel has no buffer: a caller faster than the cores waits here, so memory stays limited.
	select {
	case w.items <- it:
	case <-w.done:
		return w.err
	case <-w.ctx.Done():
		return catalog.NewError(fault.KindClosed, w.output.to.path(), "the writer was closed meanwhile")
	}
	// The key is added only now, so that a refused sample leaves its key free.
	w.keys.add(it.key, w.count)
	w.count++
	return nil
}

// item checks a sample against the ones before. On an error nothing of the writer changes.
// The checks come before the copy of the image, which may have megabytes.
func (w *Writer) item(image []byte, a Added) (*item, error) {
	it := &item{seq: w.count, key: a.Key, label: catalog.NoLabel}
	wrong := func(format string, v ...any) error {
		return &catalog.Error{Kind: fault.KindArgument, Record: w.count, Key: it.key, Offset: -1, Text: fmt.Sprintf(format, v...)}
	}
	// With this many digits the names of a thousand million samples sort like their numbers.
	if it.key == "" {
		it.key = fmt.Sprintf("%09d", w.count)
	}
	if len(it.key) > formats.MaxNameBytes || !utf8.ValidString(it.key) || strings.IndexByte(it.key, 0) >= 0 {
		return nil, wrong("key is %.80q (expected 1 to %d bytes of UTF-8 without NUL)", it.key, formats.MaxNameBytes)
	}
	if first, ok := w.keys.seenAs(it.key); ok {
		return nil, duplicate(it.key, fmt.Sprintf("record %d", first), "", w.count)
	}
	if int64(len(image)) > maxRecordBytes {
		return nil, wrong("the image has %d bytes (expected at most %d)", len(image), int64(maxRecordBytes))
	}
	if a.Label != nil {
		it.label, it.hasCls = *a.Label, true
		if it.label < 0 { // in the index -1 means none
			return nil, wrong("label is %d (expected 0 or more, or none)", it.label)
		}
		if n := int64(len(w.config.Classes)); n > 0 && it.label >= n {
			return nil, wrong("label is %d (expected 0 to %d, there are %d classes)", it.label, n-1, n)
		}
	}
	fields, err := w.fieldsOf(a)
	if err != nil {
		return nil, wrong("%v", err)
	}
	for i := range fields {
		v := a.Fields[fields[i].Name]
		if err := fields[i].CheckValue(v); err != nil {
			return nil, wrong("%v", err)
		}
		it.fields = append(it.fields, v)
	}
	// The fields are set only if nothing is wrong, so that a refused first sample does not set them.
	w.fields = fields
	// The image is copied, because the caller's memory is free again when Add returns and the flow reads it later.
	it.data = bytes.Clone(image)
	return it, nil
}

// checkFieldName refuses names that every sample has anyway, because a batch could not distinguish the two.
// They are the names that a batch has for every sample, as in scan.ofEverySample.
func checkFieldName(name string) error {
	switch name {
	case "image", "label", "key", "index", "path":
		return fmt.Errorf("%q is no name for a field, every sample has one", name)
	}
	return nil
}

// fieldsOf takes the fields from the first sample, and checks all others against them.
// If a later sample lacks a field, Field.CheckValue refuses its value, because an index has no empty cells.
func (w *Writer) fieldsOf(a Added) ([]catalog.Field, error) {
	fields := w.fields
	if fields == nil {
		fields = slices.Clone(w.config.Fields)
		if fields == nil {
			fields = []catalog.Field{}
			for name, v := range a.Fields {
				if err := checkFieldName(name); err != nil {
					return nil, err
				}
				fields = append(fields, catalog.FieldOf(name, v))
			}
			slices.SortFunc(fields, func(x, y catalog.Field) int { return strings.Compare(x.Name, y.Name) })
		}
		for i, f := range fields { // an array may be declared by its name alone
			if v, ok := a.Fields[f.Name].(catalog.Array); ok && f.Type == catalog.ArrayType && f.DType == "" {
				fields[i].DType = v.DType
			}
		}
		if err := catalog.CheckFields(fields); err != nil {
			return nil, err
		}
	}
	for name := range a.Fields {
		if !slices.ContainsFunc(fields, func(f catalog.Field) bool { return f.Name == name }) {
			return nil, fmt.Errorf("the samples have no field %q", name)
		}
	}
	return fields, nil
}

// start begins the flow with the first sample, when the fields are known.
// An error here is final: the destination is abandoned.
func (w *Writer) start() error {
	if err := w.output.begin(w.fields); err != nil {
		w.closed = true
		defer w.cancel()
		return w.output.abandon(err)
	}
	w.items, w.done = make(chan *item), make(chan struct{})
	ctx := w.ctx
	f := newFlow(&added{w.items, ctx}, w.config.Options, !w.config.NoSeek, w.track)
	f.recode = w.config.RecodeOptions
	for n, field := range w.fields {
		if field.Type == catalog.Bytes && slices.Contains(w.config.PillowFields, field.Name) {
			f.further = append(f.further, n)
		}
	}
	// The caller's thread goes on. It gets an error from a later Add, or from Finish.
	go func() {
		defer close(w.done)
		defer func() {
			if p := recover(); p != nil { // this is our own goroutine, so a panic would end the process
				w.err = catalog.NewError(fault.KindInternal, w.config.Destination, "panic: %v", p)
			}
		}()
		w.err = f.run(ctx, w.output.add)
	}()
	return nil
}

// Finish waits for what was added and makes the dataset visible. The writer is closed, whatever the result.
// It holds the lock throughout, so an Add waits and then finds the writer closed. Abort can cancel without the lock.
func (w *Writer) Finish() (Summary, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return Summary{}, catalog.NewError(fault.KindArgument, w.config.Destination, "the writer is closed")
	}
	w.closed = true
	defer w.cancel()
	if w.items != nil {
		// Nobody sends any more, because Add needs the lock that is held here.
		close(w.items)
		<-w.done
		if w.err != nil {
			return Summary{}, w.output.abandon(w.err)
		}
	}
	return w.output.finish(w.config.Classes)
}

// Abort ends the writer and leaves nothing, even while Finish is at work. After Finish it does nothing.
// It cancels the context first, without the lock, to wake an Add that waits and a Finish that writes.
func (w *Writer) Abort() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	if w.items != nil {
		<-w.done
	}
	w.output.abandon(nil)
}

// Warning says that fewer threads inspected images than wanted; empty if all did.
func (w *Writer) Warning() string { return w.track.Warning() }

// Left returns a clause about what Abort could not remove.
func (w *Writer) Left() string { return w.track.Left() }

// Place returns the destination, for messages.
func (w *Writer) Place() string { return w.output.to.path() }

// added is the writer as a source of samples.
// Finish closes it, which ends the flow in order; Abort cancels it.
type added struct {
	items <-chan *item
	ctx   context.Context
}

// next waits for a sample. It ends after the last one, or when the writer is aborted.
func (a *added) next(it *item) (bool, error) {
	select {
	case i, ok := <-a.items:
		if ok {
			*it = *i
		}
		return ok, nil
	case <-a.ctx.Done():
		return false, nil
	}
}

// total is not known in advance. start gives the fields to the output.
func (a *added) total() int64            { return -1 }
func (a *added) classes() []string       { return nil }
func (a *added) fields() []catalog.Field { return nil }
func (a *added) close()                  {}
