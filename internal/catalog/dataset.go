package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

// Dataset is an open dataset. All methods may be called from any number of goroutines.
type Dataset struct {
	path  string
	root  string // of the containers that an index names
	away  *away  // where shards or files lie in a store; nil: in files
	kind  Kind
	rows  int64
	refs  atomic.Int64
	info  *Manifest // of packed and indexed datasets
	index *index    // the same
	files fileList  // of listed datasets
	table *Table    // of scanned containers
	parts *parts    // of concatenations
	pairs *pairs    // of listed datasets whose samples have a second file

	arrays *arrays // of arrays of pixels

	fingerprint func() string
	classes     []string
	said        []string // by Warn
}

// fileList is what a listed dataset consists of.
type fileList interface {
	Len() int64
	Label(i int64) int64
	Path(i int64) string // below the root, or as it was given
}

// Open opens a packed directory or an indexed folder where it finds a manifest; else it lists
// path as an image folder.
func Open(path string, o Options) (*Dataset, error) {
	if remote.IsURL(path) {
		return openURL(path, o)
	}
	dir := path
	if o.IndexDir != "" {
		dir = o.IndexDir
	}
	manifest := filepath.Join(dir, ManifestName)
	// Lstat: a manifest that is a broken link is one that cannot be opened, and the folder no image folder.
	_, err := os.Lstat(manifest)
	switch {
	case err == nil:
		return openIndexed(path, dir, o)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, IOError(manifest, "cannot open the manifest", err)
	case o.IndexDir != "":
		return nil, IOError(manifest, "there is no index here", fs.ErrNotExist)
	}
	if o.Root != "" {
		return nil, NewError(fault.KindArgument, path, "root is for an index of containers, and there is no index here")
	}
	if unfinished(path) {
		return nil, NewError(fault.KindBadFile, path, "shards without a manifest: the packing was not finished")
	}
	return openListed(path, o.AllowEmpty)
}

func openListed(path string, allowEmpty bool) (*Dataset, error) {
	listing, err := formats.ListImageFolder(path, allowEmpty)
	if err != nil {
		return nil, FormatError(path, err)
	}
	d := &Dataset{path: path, kind: Listed, rows: listing.Len(), files: listing, classes: listing.ClassNames()}
	d.fingerprint = sync.OnceValue(func() string { return listFingerprint(listing) })
	d.refs.Store(1)
	return d, nil
}

// unfinished recognises a directory that holds shards but, having no manifest, is no dataset.
func unfinished(path string) bool {
	_, err := os.Lstat(filepath.Join(path, ShardName(0)))
	return err == nil
}

// Len is the number of samples.
func (d *Dataset) Len() int64 { return d.rows }

// Kind says how the dataset lies on disk.
func (d *Dataset) Kind() Kind { return d.kind }

// Root is the directory the dataset was opened at, empty for a list of files and a concatenation.
func (d *Dataset) Root() string { return d.path }

// ContainersRoot is the folder that the names of its containers are below.
func (d *Dataset) ContainersRoot() string {
	if d.kind == Contained {
		return d.root
	}
	return d.path
}

// Classes are the class names in the order of labels, empty where labels have no names.
func (d *Dataset) Classes() []string { return d.classes }

// Fingerprint identifies the content: equal for equal samples in equal order, whatever the
// sizes of shards. For a listed folder it covers names and labels only, for nothing else is known.
func (d *Dataset) Fingerprint() string { return d.fingerprint() }

// Shards are the shards of a packed dataset, the containers of others, or those of all parts of a
// concatenation.
func (d *Dataset) Shards() []ShardInfo {
	if d.parts != nil {
		var all []ShardInfo
		for _, part := range d.parts.list {
			all = append(all, part.Shards()...)
		}
		return all
	}
	if d.table != nil {
		return d.table.Shards
	}
	if d.arrays != nil {
		return d.arrays.shards
	}
	if d.info == nil {
		return nil
	}
	return d.info.Shards
}

// SeekFile is the open file of seek points, which lives as long as the Dataset; nil where no sample
// has any, and for a concatenation: its samples' Holders have their own.
func (d *Dataset) SeekFile() *mmap.File {
	if d.index == nil {
		return nil
	}
	return d.index.seek
}

// Manifest is what headrace.json says, nil for a dataset without one.
func (d *Dataset) Manifest() *Manifest { return d.info }

func (d *Dataset) outside(i int64) error {
	return &Error{Kind: fault.KindArgument, File: d.path, Record: i, Offset: -1, Text: outsideText(d.rows)}
}

// Sample is row i of the index. A batch's first row costs its validation, all further ones a
// few array reads.
func (d *Dataset) Sample(i int64) (Sample, error) {
	if uint64(i) >= uint64(d.rows) {
		return Sample{}, d.outside(i)
	}
	if d.parts != nil {
		return d.parts.sample(i)
	}
	if d.index != nil {
		return d.index.sample(i)
	}
	if d.table != nil {
		return d.table.sample(i), nil
	}
	if d.arrays != nil {
		return d.arrays.sample(i), nil
	}
	return Sample{Index: i, Length: UnknownLength, Label: d.files.Label(i)}, nil
}

// Key names sample i: its path without the last extension, as text. Parts of a concatenation may have one
// alike, and so may files of a listed folder that differ in their extension alone.
func (d *Dataset) Key(i int64) (string, error) {
	if uint64(i) >= uint64(d.rows) {
		return "", d.outside(i)
	}
	if d.parts != nil {
		return within(d.parts, i, (*Dataset).Key)
	}
	if d.index != nil {
		return d.index.key(i)
	}
	if d.table != nil {
		return string(d.table.Keys.Bytes(i)), nil
	}
	if d.arrays != nil {
		return d.arrays.key(i), nil
	}
	if l := d.listed(); l != nil {
		return string(l.keys.Bytes(i)), nil
	}
	return formats.SampleKey(d.files.Path(i)), nil
}

// Path is the file that holds sample i: the image itself in folders, else the shard or container.
func (d *Dataset) Path(i int64) (string, error) {
	if uint64(i) >= uint64(d.rows) {
		return "", d.outside(i)
	}
	if d.parts != nil {
		return within(d.parts, i, (*Dataset).Path)
	}
	if d.table != nil {
		return d.ShardPath(int(d.table.Shard[i])), nil
	}
	if d.kind == InMemory {
		return "", nil
	}
	if d.kind == Arrays {
		s, _ := d.arrays.at(i)
		return d.ShardPath(int(s.File)), nil
	}
	if d.index == nil {
		return d.join(d.files.Path(i)), nil
	}
	if d.kind == Indexed {
		name, err := d.index.path(i)
		if d.away != nil && err == nil {
			return d.away.shown(name), nil
		}
		return d.join(name), err
	}
	s, err := d.index.sample(i)
	if err != nil {
		return "", err
	}
	return d.ShardPath(int(s.Shard)), nil
}

// ShardPath is where shard or container n lies.
func (d *Dataset) ShardPath(n int) string {
	if d.parts != nil {
		part, number := d.parts.shard(n)
		return part.ShardPath(number)
	}
	if d.away != nil {
		return d.away.shown(d.Shards()[n].Name)
	}
	root := d.path
	if d.kind == Contained {
		root = d.root
	}
	return filepath.Join(root, filepath.FromSlash(d.Shards()[n].Name))
}

func (d *Dataset) join(name string) string {
	if d.away != nil {
		return d.away.shown(name)
	}
	if d.path == "" {
		return name
	}
	return d.path + string(filepath.Separator) + name
}

// BatchEnd is the first row behind the record batch of the index that row i stands in: rows of a batch are good or
// bad together.
func (d *Dataset) BatchEnd(i int64) int64 {
	if d.index == nil {
		return i + 1
	}
	return d.index.firstOf(d.index.batchOf(i) + 1)
}

// Row is all that the index holds of sample i, as Writer.Append takes it; nobody writes concatenations.
func (d *Dataset) Row(i int64) (Row, error) {
	s, err := d.Sample(i)
	if err != nil {
		return Row{}, err
	}
	r := Row{Sample: s}
	if r.Key, err = d.Key(i); err != nil {
		return Row{}, err
	}
	if d.kind == Indexed {
		if r.Path, err = d.index.path(i); err != nil {
			return Row{}, err
		}
	}
	value := d.FieldValue
	if d.kind == Contained {
		value = d.StoredValue // as the index holds it, or every row would read its container
	}
	for _, f := range d.Fields() {
		v, err := value(i, f.Name)
		if err != nil {
			return Row{}, err
		}
		r.Fields = append(r.Fields, v)
	}
	return r, nil
}

// Retain adds a reference.
func (d *Dataset) Retain() { d.refs.Add(1) }

// Release drops one; the last unmaps the index, after which no method may be called.
func (d *Dataset) Release() {
	// A loader holds the index for as long as its threads may look at it.
	if d.refs.Add(-1) > 0 {
		return
	}
	if d.index != nil {
		d.index.close()
	}
	if d.away != nil {
		d.away.storage.CloseIdle()
	}
	if d.parts != nil {
		for _, part := range d.parts.list {
			part.Release()
		}
	}
}
