package catalog

import (
	"sort"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// OpenIndexed opens the image folder at path with the index in it. The error is fs.ErrNotExist if there is no index. A
// packed dataset and an index of containers do not count as a folder's index.
func OpenIndexed(path string) (*Dataset, error) {
	d, err := openIndexed(path, path, Options{})
	if err == nil && d.kind != Indexed {
		kind := d.kind
		d.Release()
		return nil, NewError(fault.KindArgument, path, "a dataset of the kind %s is here (expected an index of the folder)", kind)
	}
	return d, err
}

// Find returns the row of a file of an indexed folder, given its path below the root with slashes; found is false if
// there is none. It trusts that rows are in the order of formats.CompareImagePaths, as in every index of a folder; in
// any other order it misses some rows. The error is that of reading the index.
func (d *Dataset) Find(path string) (row int64, found bool, err error) {
	if d.index == nil || d.kind != Indexed {
		return 0, false, nil
	}
	return d.index.find(path)
}

// find looks for the record batch first and then for the row in it, with one Guard for all rows of the batch.
func (x *index) find(path string) (row int64, found bool, err error) {
	low, high := 0, len(x.batches)-1
	// Batches are compared by their first rows, and then one batch by all its rows. A search over all rows would
	// validate a batch in each of its first steps.
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

// textOf shows mapped bytes as a string while they are guarded. Copying 16 names for each search would cost as much as
// comparing them.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
