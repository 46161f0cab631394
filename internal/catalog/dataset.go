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
	root  string // where the containers of an index lie
	away  *away  // where shards or files lie in a store; nil: on disk
	kind  Kind
	rows  int64
	refs  atomic.Int64
	info  *Manifest // of packed and indexed datasets
	index *index    // of packed and indexed datasets
	files fileList  // of listed datasets
	table *Table    // of scanned containers
	parts *parts    // of concatenations
	pairs *pairs    // of listed datasets whose samples have a second file

	arrays *arrays // of arrays of pixels

	fingerprint func() string
	classes     []string
	said        []string // warnings given to Warn
}

// fileList is what a listed dataset consists of.
type fileList interface {
	Len() int64
	Label(i int64) int64
	Path(i int64) string // below the root, or as given
}

// Open opens a packed directory or an indexed folder if there is a manifest. Otherwise it lists path as an image
// folder.
func Open(path string, o Options) (*Dataset, error) {
	if remote.IsURL(path) {
		return openURL(path, o)
	}
	dir := path
	if o.IndexDir != "" {
		dir = o.IndexDir
	}
	manifest := filepath.Join(dir, ManifestName)
	// Lstat is used because a manifest that is a broken link is an error: the folder must not be taken for an image
	// folder.
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

// unfinished recognises a directory that holds shards but no manifest, so that it is not a dataset.
func unfinished(path string) bool {
	_, err := os.Lstat(filepath.Join(path, ShardName(0)))
	return err == nil
}

// Len returns the number of samples.
func (d *Dataset) Len() int64 { return d.rows }

// Kind says how the dataset lies on disk.
func (d *Dataset) Kind() Kind { return d.kind }

// Root returns the directory at which the dataset was opened; "" for a list of files and a concatenation.
func (d *Dataset) Root() string { return d.path }

// ContainersRoot returns the folder where the names of its containers begin.
func (d *Dataset) ContainersRoot() string {
	if d.kind == Contained {
		return d.root
	}
	return d.path
}

// Classes returns the class names in the order of labels; empty if labels have no names.
func (d *Dataset) Classes() []string { return d.classes }

// Fingerprint identifies the content: it is equal for equal samples in equal order, whatever the sizes of shards. For a
// listed folder it covers only names and labels, because nothing else is known.
func (d *Dataset) Fingerprint() string { return d.fingerprint() }

// Shards returns the shards of a packed dataset, the containers of others, or the shards of all parts of a
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

// SeekFile returns the open file of seek points, which lives as long as the Dataset. It is nil if no sample has any,
// and for a concatenation, whose samples' Holders have their own.
func (d *Dataset) SeekFile() *mmap.File {
	if d.index == nil {
		return nil
	}
	return d.index.seek
}

// Manifest returns what headrace.json says; nil for a dataset without one.
func (d *Dataset) Manifest() *Manifest { return d.info }

func (d *Dataset) outside(i int64) error {
	return &Error{Kind: fault.KindArgument, File: d.path, Record: i, Offset: -1, Text: outsideText(d.rows)}
}

// Sample returns row i of the index. The first row of a batch costs its validation, and every further row a few array
// reads.
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

// Key returns the name of sample i: its path without the last extension, as text. Samples of different parts of a
// concatenation may have the same key, and so may files of a listed folder that differ only in their extension.
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

// Path returns the file that holds sample i: the image itself in folders, otherwise the shard or container.
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

// ShardPath returns where shard or container n lies.
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

// BatchEnd returns the first row behind the index's record batch with row i. The rows of a batch are good or bad
// together.
func (d *Dataset) BatchEnd(i int64) int64 {
	if d.index == nil {
		return i + 1
	}
	return d.index.firstOf(d.index.batchOf(i) + 1)
}

// Row returns everything that the index holds of sample i, in the form of Writer.Append. Concatenations are never
// written.
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
		value = d.StoredValue // the form in the index; otherwise every row would read its container
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

// Release drops one reference. The last one unmaps the index; afterwards no method may be called.
func (d *Dataset) Release() {
	// A loader holds the index as long as its threads may look at it.
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
