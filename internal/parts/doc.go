// Package parts keeps ranges of remote objects on a local disk, for all processes of a machine at once: what
// one has fetched, the others read. It is bounded in bytes, and drops what is wanted last.
//
// A directory holds six files, however many parts there are: one with all bytes, in blocks; three that say
// which blocks a part has, which part an entry is and where a key's entries begin; a head with the totals; and
// one for locks. The tables are
// mapped and shared. They change under one lock, which the system takes back from a process that ends; who finds
// that the last one ended in the middle makes the tables anew from their entries. Nothing is synced: each part has
// a checksum, which is compared at every use, and a part that fails it is dropped.
//
// A part is claimed before it is fetched, so that two who want it at once fetch it once. A claim counts while
// its process lives, and for two seconds at most where that does nothing. Nothing is pinned while it is read, so
// that a process that dies leaves no pin: a reader compares the checksum, and fetches what was overwritten anew.
//
// No decision depends on the time of day. The package knows nothing of images, orders and protocols: a Use says
// when a part is wanted next.
package parts
