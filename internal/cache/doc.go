// Package cache keeps small values on disk from one process to the next, by key. A value is something that was found
// out about files with some work, and can be found out again. The package does not know what a value means.
//
// A directory holds segments, each a pair of files to which one process at a time appends:
//
//	NAME.keys   a head of 32 bytes, then an entry of 32 bytes for each value (entry.go)
//	NAME.data   the records: the key, then the value
//
// The process that appends holds a flock on NAME.keys, which is released if the process is killed. A record is written
// before its entry. Each entry has its own checksum and that of its record. So whatever a kill, a full disk, another
// program or a bad disk leaves is a missing value, and never a wrong one. Processes see each other's values a second
// after they were put.
//
// The directory has a bound. Before a segment is begun, segments that nobody used lately and nobody writes are removed,
// under a flock on the file "lock". A process that reads such a segment keeps it open.
//
// If a value is expensive to make and several processes need it at once, one of them makes it: it takes the turn of the
// key (turn.go).
//
// There are no errors: a cache that cannot be read or written behaves like an empty one.
package cache
