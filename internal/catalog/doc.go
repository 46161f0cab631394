// Package catalog reads and writes a dataset's index: which samples exist, where their bytes
// are, and what is known of each (label, size, checksum, verdict). It knows the syntax of no
// container and no pixels.
//
// A dataset is a directory with a manifest (headrace.json) and an index (an Arrow IPC file), or
// an image folder that is merely listed. Opening costs the same for ten samples and ten
// million: the manifest, the index's footer and nothing else is read. A record batch of the
// index is validated once, when its first row is asked for; from then on a row is a few array
// reads without locks or allocation.
//
// # Lifetime of mapped memory
//
// The index stays mapped while somebody holds a reference (Open gives the first, Retain and Release count). Strings and
// values that are handed out are copies; no pointer into the mapping leaves the package. An index file is replaced by
// rename, never in place, so an open dataset continues to see the old file. If a file is cut or overwritten in place
// under an open dataset, that is noticed when each batch is first used, and not later.
package catalog
