// Package store reads the bytes of a sample: a range of a shard, or a file of a folder. It joins the catalog, which
// says where a sample is, with package mmap, which makes bytes readable.
// It checks that the disk has what the catalog saw: a shard's size is compared with the manifest when the shard is
// opened, and size and time of a folder's file at every read. If only the time differs, the file's checksum is
// compared. The package does not know containers, images, or the order of samples.
//
// Shards are opened when they are first read and stay open. If a dataset has more shards than may be open at once,
// those not used lately are closed. A View of a closed shard stays readable, because its Buffer holds the mapping.
//
// Every error is a *catalog.Error with file, record and offset; it wraps the error of package mmap (errors.Is(err,
// mmap.ErrTruncated) and the like).
package store
