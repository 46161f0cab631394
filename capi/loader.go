package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/pipeline"
	"github.com/headrace/headrace/internal/threads"
	"github.com/headrace/headrace/internal/transform"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// loaderConfig is the configuration of hr_loader_open. docs/c-abi.md says what each key means, and
// a test compares the keys.
type loaderConfig struct {
	Order       string              `json:"order"`
	BatchSize   int64               `json:"batch_size"`
	Shuffle     bool                `json:"shuffle"`
	Window      int64               `json:"window"`
	Sampler     *samplerConfig      `json:"sampler"`
	Pad         bool                `json:"pad"`
	Seed        uint64              `json:"seed"`
	DropLast    bool                `json:"drop_last"`
	Transform   []json.RawMessage   `json:"transform"`
	Views       []transform.View    `json:"views"`
	Resolution  *transform.Schedule `json:"resolution"`
	Labels      []labelConfig       `json:"labels"`
	DType       string              `json:"dtype"`
	Layout      string              `json:"layout"`
	Scale       string              `json:"scale"`
	Mode        string              `json:"mode"`
	Pillow      string              `json:"pillow"`
	NumThreads  int                 `json:"num_threads"`
	Nice        int                 `json:"nice"`
	Prefetch    *int                `json:"prefetch"`
	ReadAhead   int                 `json:"read_ahead"`
	FetchAhead  int64               `json:"fetch_ahead"`
	Rank        int64               `json:"rank"`
	WorldSize   int64               `json:"world_size"`
	OnError     string              `json:"on_error"`
	Epoch       int64               `json:"epoch"`
	Position    int64               `json:"position"`
	ReadDelayMs int64               `json:"read_delay_ms"`
	Trace       pathjson.Text       `json:"trace"`
	Scattered   bool                `json:"scattered"`
}

// The values of "order": who chooses the samples of a batch.
const (
	orderEpoch     = "epoch"
	orderSubmitted = "submitted"
)

var policies = map[string]pipeline.Policy{
	"": pipeline.Raise, "raise": pipeline.Raise, "replace": pipeline.Replace,
}

// loader is the object behind a loader's handle.
type loader struct {
	*pipeline.Loader
	length int64 // positions of an epoch
	// The checksum of what a windowed order of compressed blocks is made of.
	stretches string
	config    loaderConfig
}

// refuse checks what can be checked of a configuration without its dataset.
func (c *loaderConfig) refuse() error {
	switch {
	// If 0 has a meaning, the pipeline gets it as such. The pipeline also checks the rest of each
	// range.
	case c.Prefetch != nil && *c.Prefetch < 1:
		return argument(fault.Argument("prefetch", *c.Prefetch, "at least 1"))
	case c.Order != "" && c.Order != orderEpoch && c.Order != orderSubmitted:
		return argument(fault.Argument("order", c.Order, `"epoch" or "submitted"`))
	case c.Order == orderSubmitted && (c.Shuffle || c.DropLast || c.Pad || c.Sampler != nil || c.WorldSize > 1):
		return argument(fault.Argument("order", c.Order, "without shuffle, sampler, drop_last, pad and world_size, which are the caller's business"))
	case c.Views != nil && c.Transform != nil:
		return argument("transform and views: both were given (expected one of them)")
	case c.NumThreads < 0:
		return argument(fault.Argument("num_threads", c.NumThreads, "at least 1, or 0 for as many as the process may use"))
	case c.Nice < 0 || c.Nice > threads.LeastNice:
		return argument(fault.Argument("nice", c.Nice, fmt.Sprintf("0 to %d", threads.LeastNice)))
	case c.ReadAhead < 0:
		return argument(fault.Argument("read_ahead", c.ReadAhead, "at least 1, or 0 for as many as the storage needs"))
	case c.ReadDelayMs < 0 || c.ReadDelayMs > 60_000:
		return argument(fault.Argument("read_delay_ms", c.ReadDelayMs, "0 to 60000"))
	case c.WorldSize < 0: // 0: not given
		return argument(fault.Argument("world_size", c.WorldSize, "at least 1"))
	}
	return nil
}

func openLoader(d *dataset, c loaderConfig) (*loader, error) {
	policy, ok := policies[c.OnError]
	if !ok {
		return nil, argument(fault.Argument("on_error", c.OnError, `"raise" or "replace"`))
	}
	if err := c.refuse(); err != nil {
		return nil, err
	}
	// Order and transforms are checked before a thread or a slot is made, because most mistakes are
	// there.
	selection, err := c.Sampler.selection(d)
	if err != nil {
		return nil, planError(err)
	}
	storage, err := c.storage(d)
	if err != nil {
		return nil, err
	}
	samples, err := order.New(order.Config{
		Seed: c.Seed, Samples: d.Len(), Selection: selection, Shuffle: c.Shuffle, Window: c.Window, Storage: storage,
		BatchSize: c.BatchSize, DropLast: c.DropLast, Pad: c.Pad, Rank: c.Rank, WorldSize: c.WorldSize,
	})
	if err != nil {
		return nil, planError(err)
	}
	views := c.views()
	recipe, err := c.recipe(d, views)
	if err != nil {
		return nil, err
	}
	config := pipeline.Config{
		Dataset: d.Dataset, Recipe: recipe, Order: samples,
		Store:     mmap.Options{Backend: d.backend, ReadDelay: time.Duration(c.ReadDelayMs) * time.Millisecond},
		Submitted: c.Order == orderSubmitted, Scattered: c.Scattered,
		Epoch: c.Epoch, Position: c.Position, Threads: c.NumThreads, Nice: c.Nice, ReadAhead: c.ReadAhead, FetchAhead: cmp.Or(c.FetchAhead, d.ahead),
		Cache: d.cache, CacheBytes: d.cacheBytes,
		Trace:   string(c.Trace),
		OnError: policy, VerifyCRC: d.verifyCRC, Limits: d.limits, Blocks: d.blocks,
		Explain: func(err error) error { return transform.ExplainViews(views, err) },
	}
	if config.Labels, err = c.labels(views); err != nil {
		recipe.Close()
		return nil, err
	}
	if c.Prefetch != nil {
		config.Prefetch = *c.Prefetch
	}
	l := &loader{length: samples.Length(), stretches: samples.Stretches(), config: c}
	if l.Loader, err = pipeline.Open(config); err != nil {
		recipe.Close() // after a successful Open it is the Loader's
		return nil, planError(err)
	}
	return l, nil
}

// recipe makes the plans of all views and phases. The caller must close them.
func (c *loaderConfig) recipe(d *dataset, views []transform.View) (pipeline.Recipe, error) {
	options := transform.Options{DType: c.DType, Layout: c.Layout, Scale: c.Scale, Mode: c.Mode, Pillow: c.Pillow}
	options.SourceWidth, options.SourceHeight, options.SourceGrey = d.ImageForm()
	made, err := transform.ParseRecipe(views, c.Resolution, options)
	if err != nil {
		return pipeline.Recipe{}, planError(err)
	}
	if err := enoughClasses(made.Phases[0].Views[0].Mix(), d, *c); err != nil {
		made.Close()
		return pipeline.Recipe{}, err
	}
	if made.BySteps && c.Order == orderSubmitted {
		made.Close()
		return pipeline.Recipe{}, argument(fault.Argument("order", c.Order, "an order of its own, for a size by steps; batches that are submitted know epochs alone"))
	}
	recipe := pipeline.Recipe{BySteps: made.BySteps}
	for _, phase := range made.Phases {
		recipe.Phases = append(recipe.Phases, pipeline.Phase{From: phase.From, Views: phase.Views})
	}
	return recipe, nil
}

// storage says which samples are in one compressed block. Only an order of windows asks for it.
func (c *loaderConfig) storage(d *dataset) (*order.Storage, error) {
	if c.Window <= 0 {
		return nil, nil
	}
	stretches, err := d.Stretches()
	if stretches == nil || err != nil {
		return nil, err
	}
	return &order.Storage{Of: stretches.Of, Bytes: stretches.Bytes, Room: d.blocks.Room()}, nil
}

// enoughClasses refuses soft labels that are too short for the dataset's classes, before an epoch
// meets such a class. A sampler may leave out the classes that are too many; then each label is
// checked when it comes.
func enoughClasses(mix *native.Mix, d *dataset, c loaderConfig) error {
	classes := int64(len(d.Classes()))
	if mix == nil || mix.Classes == 0 || mix.Classes >= classes || c.Sampler != nil || c.Order == orderSubmitted {
		return nil
	}
	// A mixed batch has one view, and this is that view's last transform.
	return argument(fault.Argument(fmt.Sprintf("transform %d: num_classes", len(c.views()[0].Transform)-1), mix.Classes,
		fmt.Sprintf("at least %d, the classes of the dataset", classes)))
}

// views returns the recipes of a sample's images.
func (c *loaderConfig) views() []transform.View {
	if c.Views == nil {
		return []transform.View{{Transform: c.Transform}}
	}
	return c.Views
}

func (l *loader) close() error {
	l.Close()
	return nil
}

// next turns the pipeline's answers that are no errors into their codes.
func (l *loader) next(timeout time.Duration) (*pipeline.Batch, error) {
	b, err := l.Next(timeout)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, pipeline.ErrEnd):
		return nil, ended
	case errors.Is(err, pipeline.ErrTimeout):
		return nil, timedOut
	}
	return nil, err
}

// These are made once, because a consumer that only looks gets one of them many thousand times a
// second.
var (
	ended    = &notice{codeEnd, "the epoch has no more batches"}
	timedOut = &notice{codeTimeout, "no batch was ready in time"}
)

// elementType is a dtype in DLPack's terms.
type elementType struct{ code, bits uint8 }

const (
	dlInt    = 0
	dlUInt   = 1
	dlFloat  = 2
	dlBfloat = 4
)

var elementTypes = map[pipeline.DType]elementType{
	pipeline.Uint8: {dlUInt, 8}, pipeline.Float16: {dlFloat, 16}, pipeline.BFloat16: {dlBfloat, 16},
	pipeline.Float32: {dlFloat, 32}, pipeline.Int64: {dlInt, 64}, pipeline.Int32: {dlInt, 32},
	pipeline.Float64: {dlFloat, 64},
}

// batch is the object behind a batch's handle.
type batch struct{ *pipeline.Batch }

func (b batch) close() error { return b.Release() }
