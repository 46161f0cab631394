// Package cache keeps small values on disk from one process to the next, by key: what was found out
// about files at some cost, and can be found out again. It knows nothing of what a value means.
//
// A directory holds segments, each a pair of files to which one process at a time appends:
//
//	NAME.keys   a head of 32 bytes, then an entry of 32 bytes a value (entry.go)
//	NAME.data   the records: the key, then the value
//
// Whoever appends holds a flock on NAME.keys, which a killed process loses. A record is written before
// its entry, and each entry has a checksum of its own and one of its record, so that whatever a kill, a
// full disk, another program or a bad disk leaves is a missing value, never a wrong one. Processes see
// each other's values a second after they were put.
//
// The directory has a bound. Before a segment is begun the segments that nobody used lately and nobody
// writes are removed, under a flock on the file "lock". A process that reads one of them keeps it.
//
// What is expensive to make, and needed by several processes at once, is made by one of them: it takes the turn of the
// key (turn.go).
//
// No error is told: a cache that cannot be read or written is one that has nothing.
package cache
