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

// Policy says what becomes of a faulty sample.
type Policy int

const (
	Raise   Policy = iota // Next returns the error
	Replace               // a substitute takes its place, and the report says so
)

// Config of a Loader. Numbers that are 0 have a default. Nothing in it changes what the stream
// holds but the recipe, the order, OnError and VerifyCRC: threads, prefetch and backend only change
// how fast it comes.
type Config struct {
	Dataset *catalog.Dataset // retained by the Loader
	Recipe  Recipe           // its plans are the Loader's from a successful Open on
	Labels  []Label          // fields that move with the images; of the Loader from Open on
	Order   *order.Order     // its seed is also that of the augmentation
	Store   mmap.Options

	Submitted       bool         // the caller chooses every batch, with Submit; of the order only seed, samples and batch size count
	Scattered       bool         // the batches that are submitted have samples from all over the dataset, as a shuffle
	Epoch, Position int64        // where the stream begins, as in SeekTo
	Threads         int          // decode workers; threads.Default
	Nice            int          // by how much their niceness is above the process's
	Prefetch        int          // batches; 2, and where images are made in runs those of lightBytes
	FetchAhead      int64        // bytes of a dataset in a store of objects that are read ahead; 512 MB
	Cache           *parts.Cache // of what is fetched; nil: none. It stays open longer than the Loader
	CacheBytes      int64        // what this Loader lets it have
	ReadAhead       int          // samples read ahead when reads are slow; 64, or 32 a thread where that is more
	OnError         Policy
	VerifyCRC       bool
	Trace           string // the file of a trace of all from Open on; empty: none
	Limits          native.Limits
	Blocks          blocks.Limits // of compressed blocks
	// Explain puts the user's name of a transform into what the plan says of an image; may be nil.
	Explain func(error) error
}

const (
	defaultPrefetch = 2
	maxPrefetch     = 1024
	// A batch of MNIST is made in 0.1 ms, less than it takes to wake who waits for it: with 2 batches
	// ahead workers and consumer slept four times a batch, with 8 once.
	lightBytes    = 16 << 20
	lightPrefetch = 8
	maxReadAhead  = 4096

	// Samples in flight over the latency of a read is the rate: 64 give 3,200 images/s from a
	// store that answers in 20 ms, more than two cores decode.
	minReadAhead       = 64
	readAheadPerThread = 32
	readersAtMost      = 512
)

// complete fills in the defaults and refuses what cannot be, by the name that a user knows it by.
func (c *Config) complete() error {
	if c.Dataset == nil || len(c.Recipe.Phases) == 0 || c.Order == nil {
		return fmt.Errorf("a loader needs a dataset, a recipe and an order")
	}
	// An order for more samples than there are would ask the catalog for rows that it lacks.
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

// usualPrefetch is more for batches that are light and soon made.
func (c *Config) usualPrefetch() int {
	if c.Dataset.Len() == 0 || !c.inRuns() {
		return defaultPrefetch
	}
	layouts, err := newLayouts(&c.Recipe, c.Labels, c.Order.Config().BatchSize)
	if err != nil {
		return defaultPrefetch // said by whoever needs the layouts
	}
	return int(min(max(lightBytes/max(layouts[0].SlotBytes, 1), defaultPrefetch), lightPrefetch))
}

// window is how many undelivered batches may be open. Two at least: with one, all workers but
// one would wait for the last sample of every batch.
func (c *Config) window() int { return max(2, c.Prefetch) }

// slots is how many batches a plain loop needs memory for: the window, the batch in use, and for a
// moment the one that the loop asks for before it lets go of the other. With fewer, a slot is made
// whenever timing wants it, and memory grows long after the start.
func (c *Config) slots() int { return c.window() + 2 }

// checkPosition refuses positions outside the stream. The position after the last one is inside: it is
// where a loop stands that has read all batches of an epoch and was not yet told of its end.
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

// maxEpoch leaves room to count on from any epoch that is asked for.
const maxEpoch = 1 << 62
