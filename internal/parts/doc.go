// Package parts keeps ranges of remote objects on a local disk, for all processes of a machine at once: what one
// process has fetched, the others read. It is bounded in bytes, and first drops what is needed last.
//
// A directory holds six files, however many parts there are. One has all bytes, in blocks. Three tables say which
// blocks a part has, which part an entry is and where a key's entries begin. A head has the totals, and one file is for
// locks. The tables are mapped and shared. They change under one lock, which the system takes back from a process that
// ends. If a process ended in the middle of a change, the next one makes the tables again from their entries. Nothing
// is synced: each part has a checksum, which is compared at every use, and a part that fails it is dropped.
//
// A part is claimed before it is fetched, so that two processes that need it at once fetch it once. A claim counts
// while its process lives, and for at most two seconds if that process does nothing. Nothing is pinned while it is
// read, so a process that dies leaves no pin: a reader compares the checksum, and fetches again what was overwritten.
//
// No decision depends on the time of day. The package knows nothing of images, orders and protocols: a Use says when a
// part is needed next.
package parts
