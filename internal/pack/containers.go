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

// ContainerOptions say which containers are a source, and which of their columns are image and label, as in
// scan.Options.
// At most one of Containers, Array and Located is given, instead of a source. Package scan checks the options.
type ContainerOptions struct {
	Containers []pathjson.Text `json:"containers"` // instead of one source; patterns are allowed
	Format     string          `json:"format"`
	Image      string          `json:"image"`
	Label      string          `json:"label"`
	Fields     []string        `json:"fields"`
	Classes    []string        `json:"classes"`
	Split      string          `json:"split"`
	Root       string          `json:"root"` // where the containers of an index are, if not where the index says

	Extensions []string `json:"extensions"` // of further files of a folder, in addition to those of decodable images

	Array  *catalog.ArrayConfig `json:"array"`  // instead of all these: arrays of pixels,
	Labels []int64              `json:"labels"` // with a label for each image, or none

	Located *scan.Locations `json:"locations"` // or places in files

	// Pack and Index set this member, because the user gives it among the limits.
	mostBlock int64 // MaxBlockBytes of the limits
}

func (o *ContainerOptions) scanOptions(storage remote.Storage) scan.Options {
	return scan.Options{Options: catalog.Options{Root: o.Root, Storage: storage}, Format: o.Format, Image: o.Image, Label: o.Label, Fields: o.Fields, Classes: o.Classes, Split: o.Split,
		MostBlock: o.mostBlock}
}

// open finds the containers and reads their headers, or an index of them. It reads no image.
func (o *ContainerOptions) open(ctx context.Context, source string, storage remote.Storage) (*catalog.Dataset, error) {
	// For arrays and places no file's kind is detected, because the caller says what is where.
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

// openAway opens a dataset in a store by its index, or containers there by their headers if there is no index.
// An index saves the walk: fetching the headers of a thousand archives takes minutes.
func openAway(ctx context.Context, list []string, o scan.Options) (*catalog.Dataset, error) {
	o.Waits = ctx
	// Braces and stars always mean containers. An index is a single address, and is looked for first to save the walk.
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

// extent says where an item lies in a container.
// It has all that is needed to read the item later, in another goroutine, while the source goes on.
type extent struct {
	offset, length int64
	size           int64 // of the container
	frame          catalog.Frame
	framed         bool           // frame is a record around the item with a checksum
	sample         catalog.Sample // for an item in a block, the block; offset is then the block's
	pixels         *catalog.Pixels
	memory         unsafe.Pointer                                     // where the item is, if in memory
	tiles          *blocks.Tiles                                      // the chunks of arrays that the item is assembled from
	file           func(tile blocks.Block) (path string, bytes int64) // returns the file of a chunk
	away           io.ReaderAt                                        // the container, if it is in a store
}

// containers is a source: the samples of a dataset in containers.
// Samples come in the order of the dataset, whatever container they lie in. The flow uses it under its lock; other
// threads use only what they get in an item.
type containers struct {
	dataset *catalog.Dataset
	stored  bool // for an index: fields keep places instead of values
	values  catalog.FieldReader
	at      int64

	ctx    context.Context
	tapes  map[uint32]*tape.Tape // tapes of the containers in a store that were begun, by number
	recent []uint32              // containers with pieces in memory, the one read last at the end
	took   int64                 // number of the sample at which a container was last added to recent
}

// These limit the memory of a source in a store, and say how it is used.
const (
	// tapesHeld is how many containers in a store keep pieces in memory, at most 64 MiB each. Samples of one class lie in
	// several archives, and rows of a selection anywhere. If every change of the container dropped its tape, every sample
	// would fetch a whole piece.
	tapesHeld = 4
	// If a container whose tape was dropped is needed again within so many samples, the samples alternate between more
	// than tapesHeld containers. A piece of 4 MiB would be fetched for a single sample, so only the sample's own bytes are
	// fetched.
	leastStay = 64
)

// openContainers opens a source that consists of containers; it returns nil, without an error, for other sources.
// stored is true for an index, whose fields keep places; the fields of a packed dataset keep values.
func openContainers(ctx context.Context, source string, o *ContainerOptions, storage remote.Storage, stored bool) (*containers, error) {
	d, err := o.open(ctx, source, storage)
	if err != nil {
		return nil, err
	}
	// These are packed already, or single files; they are copied in other ways, or not at all.
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

// keep makes fields in blocks use the cache that the readers of images use, because both may lie in one block.
func (c *containers) keep(cache *blocks.Cache) {
	c.values.Block = c.dataset.BlockReader(cache, c.values.Away)
}

// reader returns container n in a store; nil if it is a file on disk. It reads through a tape if samples are read in
// their order, otherwise only the requested bytes. All tapes are closed with the source, because earlier samples may
// still be read; what was dropped is fetched again.
// recent is in the order of use, so its first tape is dropped when one more than tapesHeld is begun.
func (c *containers) reader(n uint32) io.ReaderAt {
	shard := c.dataset.Shard(int(n))
	if shard == nil {
		return nil
	}
	at := slices.Index(c.recent, n)
	if at < 0 && len(c.recent) == tapesHeld {
		// A container that is new may be read to its end, even if it has few samples, as those of a list in its order are.
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

// next returns the next sample. An error ends the job, because the index is wrong and not an image.
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
	// This is memory of the caller's own arrays, which live as long as the job.
	if at, ok := c.dataset.Bytes(s); ok {
		it.inside.memory = at
	} else {
		it.inside.size = c.dataset.Shards()[s.Shard].Size
		it.inside.away = c.reader(s.Shard)
	}
	it.inside.sample = s
	// Chunks of one image may lie in several files, which are numbered from the first file of its array on.
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
	// Values are read one by one, because a field may lie in a block. The image's reader then finds that block decoded.
	for _, f := range c.dataset.Fields() {
		v, err := c.value(i, f.Name)
		if err != nil {
			return false, err
		}
		it.fields = append(it.fields, v)
	}
	return true, nil
}

// value returns a field's value, or for an index its place.
func (c *containers) value(i int64, field string) (any, error) {
	if c.stored {
		return c.dataset.StoredValue(i, field)
	}
	return c.dataset.FieldValueBy(i, field, c.values)
}

func (c *containers) total() int64      { return c.dataset.Len() }
func (c *containers) classes() []string { return c.dataset.Classes() }

// close must be called when no worker is left, because it closes the tapes that they read from.
func (c *containers) close() {
	for _, t := range c.tapes {
		t.Close()
	}
	c.dataset.Release()
}

// fields returns the fields. In a packed dataset all values are in the index, so none is located elsewhere or in a
// block.
func (c *containers) fields() []catalog.Field {
	fields := append([]catalog.Field(nil), c.dataset.Fields()...)
	for i := range fields {
		fields[i].Located, fields[i].Blocks = fields[i].Located && c.stored, fields[i].Blocks && c.stored
	}
	return fields
}

// describe adds the containers to a manifest.
// An index names its containers, with their sizes and the checksums of their ends.
func (c *containers) describe(root string) func(*catalog.Manifest) {
	return func(m *catalog.Manifest) {
		m.Shards, m.Root, m.Source = c.dataset.Shards(), pathjson.Text(root), c.dataset.Source()
	}
}

// indexPlace returns the directory of an index of containers, and the path of the containers from there.
// The directory is on this machine, even if the containers are in a store.
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
	// The path is relative if both are together and may be moved together, otherwise absolute.
	// A long relative path would break when either is moved. So would an absolute one, but it still says where they were.
	if relative, err := filepath.Rel(absolute, root); err == nil && together(absolute, root) {
		root = relative
	}
	return dir, filepath.ToSlash(root), nil
}

// together is true if the index is in or beside the folder of the containers.
// "Beside" means that both are in the same folder. Either may be deeper.
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

// varying matches the variable part of a pattern, with separators before it.
// "train-{000..146}.tar" leaves "train".
var varying = regexp.MustCompile(`[-_. ]*[{*?[].*$`)

// besideContainers chooses the place of an index if none is given: the folder of containers itself, or NAME.hr beside
// other containers.
// The name comes from the source; a list of several sources has none.
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
	// The index is beside the containers, so that both are moved together.
	return filepath.Join(d.Root(), name+".hr"), nil
}
