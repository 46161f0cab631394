// Package store reads the bytes of a sample: a range of a shard, or a file of a folder. It joins
// the catalog, which says where a sample lies, with package mmap, which makes bytes readable,
// and checks that what is on disk is what the catalog saw: a shard's size against the manifest
// when the shard is opened, size and time of a folder's file at every read, and where only the time differs
// its checksum. It knows nothing of containers, of what an image is, or of the order of samples.
//
// Shards are opened when first read and stay open. Where a dataset has more shards than may be
// open at once, those not used lately are closed; a View of a closed shard stays readable, for
// its Buffer holds the mapping.
//
// Every error is a *catalog.Error that names file, record and offset; what package mmap found
// is below it (errors.Is(err, mmap.ErrTruncated) and the like).
package store
