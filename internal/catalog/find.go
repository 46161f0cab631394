package catalog

import (
	"sort"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// OpenIndexed opens the image folder at path by the index that lies in it. The error is fs.ErrNotExist where
// nothing lies there; a packed dataset and an index of containers are no folder's index.
func OpenIndexed(path string) (*Dataset, error) {
	d, err := openIndexed(path, path, Options{})
	if err == nil && d.kind != Indexed {
		kind := d.kind
		d.Release()
		return nil, NewError(fault.KindArgument, path, "a dataset of the kind %s is here (expected an index of the folder)", kind)
	}
	return d, err
}

// Find is the row of a file of an indexed folder by its path below the root, with slashes; false where there is
// none. It trusts that rows stand in the order of formats.CompareImagePaths, as every index of a folder has
// them: of other rows it finds some. A read of the index that fails is its error.
func (d *Dataset) Find(path string) (row int64, found bool, err error) {
	if d.index == nil || d.kind != Indexed {
		return 0, false, nil
	}
	return d.index.find(path)
}

// find looks for the record batch first and then in it, which is one Guard for all of its rows.
func (x *index) find(path string) (row int64, found bool, err error) {
	low, high := 0, len(x.batches)-1
	// Batches by their first rows, and one batch by all: a search of all rows would validate a batch for each of its
	// first steps.
	for low < high {
		middle := (low + high + 1) / 2
		var order int
		err := x.read(x.firstOf(middle), func(b *batch, n int) { order = formats.CompareImagePaths(textOf(b.path.row(n)), path) })
		if err != nil {
			return 0, false, err
		}
		if order <= 0 {
			low = middle
		} else {
			high = middle - 1
		}
	}
	first := x.firstOf(low)
	rows := int(x.firstOf(low+1) - first)
	err = x.read(first, func(b *batch, _ int) {
		n, exact := sort.Find(rows, func(n int) int { return formats.CompareImagePaths(path, textOf(b.path.row(n))) })
		row, found = first+int64(n), exact
	})
	return row, found && err == nil, err
}

// textOf shows mapped bytes as a string for as long as they are guarded: to copy 16 names for each search
// would cost as much as to compare them.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
