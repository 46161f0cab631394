// Package pack makes datasets and checks them: Pack (an image folder or a manifest into tar shards), Index (a folder in
// place), Writer (sample by sample) and Verify. Work runs on all cores with one ordered writer, so the resulting bytes
// do not depend on the number of threads. Memory is limited by a budget, whatever the size of the dataset.
//
// A dataset appears as a whole or not at all. Everything is written under a temporary name on the same file system,
// synced, and renamed. What a killed run leaves is recognised by its released lock, and the next run removes it. The
// package knows nothing of pixels, batches or Python.
package pack
