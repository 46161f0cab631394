package pipeline

import (
	"fmt"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/threads"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// Policy says what happens with a faulty sample.
type Policy int

const (
	Raise   Policy = iota // Next returns the error
	Replace               // a substitute takes its place, and the report says so
)

// Config is the configuration of a Loader. Numbers that are 0 have a default. Only the recipe, the order, OnError and
// VerifyCRC change what the stream holds; threads, prefetch and backend only change its speed.
type Config struct {
	Dataset *catalog.Dataset // retained by the Loader
	Recipe  Recipe           // from a successful Open on, the Loader owns its plans
	Labels  []Label          // fields that move with the images; the Loader's from Open on
	Order   *order.Order     // its seed is also that of the augmentation
	Store   mmap.Options

	Submitted       bool         // the caller chooses every batch, with Submit; only seed, samples and batch size of the order are used
	Scattered       bool         // the submitted batches have samples from all over the dataset, as after a shuffle
	Epoch, Position int64        // where the stream begins, as in SeekTo
	Threads         int          // decode workers; threads.Default
	Nice            int          // how far their niceness is above the process's
	Prefetch        int          // batches; 2, or up to 8 of light batches if images are made in runs
	FetchAhead      int64        // bytes that are read ahead of a dataset in a store of objects; 512 MB
	Cache           *parts.Cache // for what is fetched; nil: none. It must stay open longer than the Loader
	CacheBytes      int64        // how much of it this Loader may use
	ReadAhead       int          // samples that are read ahead when reads are slow; 64, or 32 for each thread if that is more
	OnError         Policy
	VerifyCRC       bool
	Trace           string // file of a trace of everything from Open on; empty: none
	Limits          native.Limits
	Blocks          blocks.Limits // of compressed blocks
	// Explain adds the user's name of a transform to an error of the plan about an image; it may be nil.
	Explain func(error) error
}

const (
	defaultPrefetch = 2
	maxPrefetch     = 1024
	// A batch of MNIST is made in 0.1 ms, less than it takes to wake the thread that waits for it. With 2 batches ahead,
	// workers and consumer slept four times for each batch, with 8 once.
	lightBytes    = 16 << 20
	lightPrefetch = 8
	maxReadAhead  = 4096

	// The rate is the number of samples in flight, divided by the latency of a read: 64 give 3,200 images/s from a store
	// that answers in 20 ms, more than two cores decode.
	minReadAhead       = 64
	readAheadPerThread = 32
	readersAtMost      = 512
)

// complete sets the defaults and refuses impossible values, under the names that users know.
func (c *Config) complete() error {
	if c.Dataset == nil || len(c.Recipe.Phases) == 0 || c.Order == nil {
		return fmt.Errorf("a loader needs a dataset, a recipe and an order")
	}
	// An order for more samples would ask the catalog for rows that do not exist.
	if samples := c.Order.Config().Samples; samples != c.Dataset.Len() {
		return fmt.Errorf("the order is for %d samples, the dataset has %d", samples, c.Dataset.Len())
	}
	if c.Threads == 0 {
		c.Threads = threads.Default()
	}
	if c.Prefetch == 0 {
		c.Prefetch = c.usualPrefetch()
	}
	switch {
	case c.FetchAhead == 0:
		c.FetchAhead = defaultFetchAhead
	case c.FetchAhead < leastFetchAhead || c.FetchAhead > mostFetchAhead:
		return catalog.NewError(fault.KindArgument, "", "fetch_ahead is %d (expected %d to %d bytes)", c.FetchAhead, leastFetchAhead, int64(mostFetchAhead))
	}
	switch {
	case c.ReadAhead == 0 && c.Dataset.Away():
		c.ReadAhead = fetchHorizon
	case c.ReadAhead == 0:
		c.ReadAhead = min(max(minReadAhead, readAheadPerThread*c.Threads), readersAtMost)
	}
	mostAhead := maxReadAhead
	if c.Dataset.Away() {
		mostAhead = fetchHorizon
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{
		{"num_threads", c.Threads, threads.Most},
		{"prefetch", c.Prefetch, maxPrefetch},
		{"read_ahead", c.ReadAhead, mostAhead},
	} {
		if n.value < 1 || n.value > n.most {
			return catalog.NewError(fault.KindArgument, "", "%s is %d (expected 1 to %d)", n.name, n.value, n.most)
		}
	}
	if err := c.checkCache(); err != nil {
		return err
	}
	if err := c.completeLabels(); err != nil {
		return err
	}
	return c.checkPosition(c.Epoch, c.Position)
}

// usualPrefetch is larger for light batches, which are made quickly.
func (c *Config) usualPrefetch() int {
	if c.Dataset.Len() == 0 || !c.inRuns() {
		return defaultPrefetch
	}
	layouts, err := newLayouts(&c.Recipe, c.Labels, c.Order.Config().BatchSize)
	if err != nil {
		return defaultPrefetch // reported when the layouts are needed
	}
	return int(min(max(lightBytes/max(layouts[0].SlotBytes, 1), defaultPrefetch), lightPrefetch))
}

// window is how many undelivered batches may be open. It is at least two: with one, all workers but one would wait for
// the last sample of every batch.
func (c *Config) window() int { return max(2, c.Prefetch) }

// slots is for how many batches a plain loop needs memory: the window, the batch in use, and for a moment the one that
// the loop asks for before it releases the other. With fewer, slots would be made at random moments, and memory would
// grow long after the start.
func (c *Config) slots() int { return c.window() + 2 }

// checkPosition refuses positions outside the stream. The position after the last one is allowed: a loop is there when
// it has read all batches of an epoch and has not been told its end yet.
func (c *Config) checkPosition(epoch, position int64) error {
	if epoch < 0 || epoch > maxEpoch {
		return catalog.NewError(fault.KindArgument, "", "epoch is %d (expected 0 to %d)", epoch, int64(maxEpoch))
	}
	most := c.Order.Length()
	if c.Submitted {
		most = maxEpoch // only the caller knows how long an epoch is
	}
	if position < 0 || position > most {
		return catalog.NewError(fault.KindArgument, "", "position is %d (expected 0 to %d, the samples of an epoch)", position, most)
	}
	return nil
}

// maxEpoch leaves room to count on from any epoch.
const maxEpoch = 1 << 62
