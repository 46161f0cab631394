package pack

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
	"github.com/headrace/headrace/internal/tape"
)

// ContainerOptions say which containers are a source, and what of them is image and label, as
// scan.Options do.
// At most one of Containers, Array and Located is given, in place of a source. Package scan checks the words.
type ContainerOptions struct {
	Containers []pathjson.Text `json:"containers"` // in place of one source; patterns too
	Format     string          `json:"format"`
	Image      string          `json:"image"`
	Label      string          `json:"label"`
	Fields     []string        `json:"fields"`
	Classes    []string        `json:"classes"`
	Split      string          `json:"split"`
	Root       string          `json:"root"` // where the containers of an index are, if not where it says

	Extensions []string `json:"extensions"` // of a folder's files, beside those of images that are decoded

	Array  *catalog.ArrayConfig `json:"array"`  // in place of any of these: arrays of pixels,
	Labels []int64              `json:"labels"` // with a label for each image, or none

	Located *scan.Locations `json:"locations"` // or places in files

	// Set by Pack and Index, for it is said among the limits and not among these.
	mostBlock int64 // of Limits
}

func (o *ContainerOptions) scanOptions(storage remote.Storage) scan.Options {
	return scan.Options{Options: catalog.Options{Root: o.Root, Storage: storage}, Format: o.Format, Image: o.Image, Label: o.Label, Fields: o.Fields, Classes: o.Classes, Split: o.Split,
		MostBlock: o.mostBlock}
}

// open finds the containers and reads their headers, or an index of them; nothing of an image is read.
func (o *ContainerOptions) open(ctx context.Context, source string, storage remote.Storage) (*catalog.Dataset, error) {
	// Arrays and places are opened without looking at a file's kind: the caller says what is where.
	options := o.scanOptions(storage)
	if o.Array != nil {
		return catalog.FromArrays(o.Array, o.Labels, o.Classes)
	}
	if o.Located != nil {
		return scan.FromLocations(o.Located, o.Classes)
	}
	list := []string{source}
	if o.Containers != nil {
		list = nil
	}
	for _, path := range o.Containers {
		list = append(list, string(path))
	}
	switch {
	case slices.ContainsFunc(list, remote.IsURL):
		return openAway(ctx, list, options)
	case o.Containers == nil:
		return scan.Open(source, options)
	}
	return scan.OpenFiles(list, options)
}

// openAway opens a dataset in a store that has its index, or else containers there, by their headers.
// An index saves the walk: to fetch the headers of a thousand archives takes minutes.
func openAway(ctx context.Context, list []string, o scan.Options) (*catalog.Dataset, error) {
	o.Waits = ctx
	// Braces and stars stand for containers. An index is one address, and is looked for first: it saves their headers.
	if len(list) == 1 && !strings.ContainsAny(remote.Display(list[0]), "*{") {
		indexed, err := catalog.IndexedAt(ctx, list[0], o.Storage)
		if err != nil {
			return nil, err
		}
		if indexed {
			return scan.Open(list[0], o)
		}
	}
	return scan.OpenAway(ctx, list, o)
}

// extent is where an item lies in a container.
// All that is needed to read an item later, in another goroutine, while the source goes on.
type extent struct {
	offset, length int64
	size           int64 // of the container
	frame          catalog.Frame
	framed         bool           // frame is a record around it that has a checksum
	sample         catalog.Sample // of one in a block, that block; offset is the block's
	pixels         *catalog.Pixels
	memory         unsafe.Pointer                                     // where it lies, if not in a file
	tiles          *blocks.Tiles                                      // the chunks of arrays that it is assembled of
	file           func(tile blocks.Block) (path string, bytes int64) // of one of them
	away           io.ReaderAt                                        // the container, if that lies in a store
}

// containers are the samples of a dataset in containers as a source.
// Samples come in the order of the dataset, whatever container they lie in. It is used by the flow under its lock; only
// what an item has of it is used by other threads.
type containers struct {
	dataset *catalog.Dataset
	stored  bool // fields as an index holds them, not their values
	values  catalog.FieldReader
	at      int64

	ctx    context.Context
	tapes  map[uint32]*tape.Tape // of containers in a store that were begun, by their numbers
	recent []uint32              // those that hold pieces in memory, the last is the one that was read last
	took   int64                 // the sample for which one became such
}

// Memory of a source in a store, and what it is spent on.
const (
	// tapesHeld are the containers in a store of which pieces stay in memory, 64 MiB each at most. Samples of one class lie
	// in several archives, and rows of a selection anywhere: with a tape for each change of the container every sample would
	// fetch a piece of its own.
	tapesHeld = 4
	// Where one that was let go is read again before so many samples, they alternate between more than that: a piece of
	// 4 MiB would be fetched and let go for one of them, so these are asked for alone.
	leastStay = 64
)

// openContainers opens a source that consists of containers; it is nil, without an error, for a source
// that is read otherwise.
// stored says that an index is made: its fields keep places, where a packed dataset keeps values.
func openContainers(ctx context.Context, source string, o *ContainerOptions, storage remote.Storage, stored bool) (*containers, error) {
	d, err := o.open(ctx, source, storage)
	if err != nil {
		return nil, err
	}
	// Packed already, or single files: these are copied by other ways, or not at all.
	if !d.Kind().InShards() && d.Kind() != catalog.InMemory || d.Kind() == catalog.Packed {
		defer d.Release()
		if d.Away() {
			return nil, catalog.NewError(fault.KindUnsupported, d.Root(), "this is a dataset of the kind %s in a store of objects (expected containers, or an index of them)", d.Kind())
		}
		return nil, nil
	}
	c := &containers{dataset: d, stored: stored, ctx: ctx, tapes: make(map[uint32]*tape.Tape)}
	// Values of fields are read with the job's context, as images are.
	c.values.Away = func(container *catalog.Shard, to []byte, offset int64) error {
		return container.ReadAt(ctx, to, offset)
	}
	return c, nil
}

// keep reads fields in blocks by a cache that those who read the images share: both may lie in one block.
func (c *containers) keep(cache *blocks.Cache) {
	c.values.Block = c.dataset.BlockReader(cache, c.values.Away)
}

// reader is container n in a store, by a tape where samples are read from it in their order, else by what is asked for
// alone; nil where it is a file. All tapes end with the source, for samples of those before may be on their way: they fetch
// anew what was let go.
// recent is in the order of use, so its first tape is let go when one more than tapesHeld is begun.
func (c *containers) reader(n uint32) io.ReaderAt {
	shard := c.dataset.Shard(int(n))
	if shard == nil {
		return nil
	}
	at := slices.Index(c.recent, n)
	if at < 0 && len(c.recent) == tapesHeld {
		// One that is new may be read to its end, as those of a list in its order are, however few samples they have.
		if c.tapes[n] != nil && c.at-c.took < leastStay {
			return readerAt(func(to []byte, offset int64) error { return shard.ReadAt(c.ctx, to, offset) })
		}
		c.tapes[c.recent[0]].Forget()
		at = 0
	}
	if at < 0 || c.recent[at] != n {
		c.took = c.at
	}
	if at >= 0 {
		c.recent = slices.Delete(c.recent, at, at+1)
	}
	c.recent = append(c.recent, n)
	if c.tapes[n] == nil {
		c.tapes[n] = tape.New(c.ctx, shard)
	}
	return c.tapes[n]
}

// Whatever is wrong with a row ends the job: it is the index that is wrong, and not an image.
func (c *containers) next(it *item) (bool, error) {
	if c.at == c.dataset.Len() {
		return false, nil
	}
	i := c.at
	c.at++
	s, err := c.dataset.Sample(i)
	if err != nil {
		return false, err
	}
	*it = item{seq: i, label: s.Label, hasCls: s.Label != catalog.NoLabel, shard: s.Shard}
	it.inside = &extent{offset: s.Offset, length: s.Length, pixels: s.Pixels}
	// Memory of the caller's own arrays, which live as long as the job.
	if at, ok := c.dataset.Bytes(s); ok {
		it.inside.memory = at
	} else {
		it.inside.size = c.dataset.Shards()[s.Shard].Size
		it.inside.away = c.reader(s.Shard)
	}
	it.inside.sample = s
	// Chunks of one image may lie in several files, numbered from the first of its array on.
	if s.Block.Codec == blocks.Tiled {
		var first uint32
		it.inside.tiles, first = c.dataset.Tiles(i)
		it.inside.file = func(tile blocks.Block) (string, int64) {
			n := int(first + tile.Container)
			return c.dataset.ShardPath(n), c.dataset.Shards()[n].Size
		}
	}
	it.inside.frame, it.inside.framed = c.dataset.Frame(i)
	if it.path, err = c.dataset.Path(i); err != nil {
		return false, err
	}
	if it.key, err = c.dataset.Key(i); err != nil {
		return false, err
	}
	// One by one, for a field may have to be read out of a block; whoever reads the image finds that block decoded.
	for _, f := range c.dataset.Fields() {
		v, err := c.value(i, f.Name)
		if err != nil {
			return false, err
		}
		it.fields = append(it.fields, v)
	}
	return true, nil
}

// value is a field's value, or its place where an index is made.
func (c *containers) value(i int64, field string) (any, error) {
	if c.stored {
		return c.dataset.StoredValue(i, field)
	}
	return c.dataset.FieldValueBy(i, field, c.values)
}

func (c *containers) total() int64      { return c.dataset.Len() }
func (c *containers) classes() []string { return c.dataset.Classes() }

// It is called when no worker is left, or tapes would be closed under one that reads.
func (c *containers) close() {
	for _, t := range c.tapes {
		t.Close()
	}
	c.dataset.Release()
}

// A packed dataset has its values in its own index: nothing of it lies elsewhere or in a block.
func (c *containers) fields() []catalog.Field {
	fields := append([]catalog.Field(nil), c.dataset.Fields()...)
	for i := range fields {
		fields[i].Located, fields[i].Blocks = fields[i].Located && c.stored, fields[i].Blocks && c.stored
	}
	return fields
}

// describe adds what a manifest says of the containers.
// An index beside them names the containers, their sizes and what their ends have as a checksum.
func (c *containers) describe(root string) func(*catalog.Manifest) {
	return func(m *catalog.Manifest) {
		m.Shards, m.Root, m.Source = c.dataset.Shards(), pathjson.Text(root), c.dataset.Source()
	}
}

// indexPlace is where an index of containers goes, and where it finds them from there.
// The index goes to a directory on this machine, also where the containers lie in a store.
func indexPlace(source, out string, d *catalog.Dataset) (dir, root string, err error) {
	if dir = out; dir == "" {
		if dir, err = besideContainers(source, d); err != nil {
			return "", "", err
		}
	}
	if d.Away() {
		return dir, d.ContainersRoot(), nil
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", "", catalog.IOError(dir, "cannot make it an absolute path", err)
	}
	root, err = filepath.Abs(d.ContainersRoot())
	if err != nil {
		return "", "", catalog.IOError(d.ContainersRoot(), "cannot make it an absolute path", err)
	}
	// Relative where both lie together and may be moved together, else absolute.
	// A path through half of the file system would break when one of the two is moved, and so would an absolute one:
	// that at least says where they were.
	if relative, err := filepath.Rel(absolute, root); err == nil && together(absolute, root) {
		root = relative
	}
	return dir, filepath.ToSlash(root), nil
}

// together is true of an index in or beside the folder of the containers.
// Beside: both have the same folder around them. Either may lie deeper.
func together(index, root string) bool {
	for _, place := range []string{index, filepath.Dir(index)} {
		if below, err := filepath.Rel(root, place); err == nil && filepath.IsLocal(below) {
			return true
		}
		if below, err := filepath.Rel(place, root); err == nil && filepath.IsLocal(below) {
			return true
		}
	}
	return false
}

// varying is what a pattern leaves open, and what is left at the end of the name before it.
// "train-{000..146}.tar" leaves "train".
var varying = regexp.MustCompile(`[-_. ]*[{*?[].*$`)

// besideContainers is the place of an index that nobody named: in a folder of containers itself, beside
// other ones NAME.hr.
// A name has to be had from the source. Of a list of several there is none.
func besideContainers(source string, d *catalog.Dataset) (string, error) {
	if d.Away() {
		return "", catalog.NewError(fault.KindArgument, d.Root(), "out is missing (--out): the index of containers in a store goes to a directory")
	}
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		return source, nil
	}
	name := filepath.Base(source)
	if _, err := os.Lstat(source); err != nil {
		name = varying.ReplaceAllString(name, "")
	}
	name = strings.TrimSuffix(name, filepath.Ext(name))
	if source == "" || name == "" {
		return "", catalog.NewError(fault.KindArgument, source, "out (--out) is missing, and the sources give no name for the index")
	}
	// Beside the containers, so that both are moved together.
	return filepath.Join(d.Root(), name+".hr"), nil
}
