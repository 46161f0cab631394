// Package pack makes datasets and checks them: Pack (an image folder or a manifest into tar
// shards), Index (a folder in place), Writer (sample by sample) and Verify. Work runs on all
// cores with one ordered writer, so the result is the same bytes whatever the number of
// threads; memory is bounded by a budget, not by the dataset.
//
// A dataset appears whole or not at all: everything is written under a temporary name on the
// same file system, synced, and renamed; what a killed run leaves is recognised by its lost
// lock and removed by the next. The package knows nothing of pixels, batches or Python.
package pack
