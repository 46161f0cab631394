package pack

import "io"

// readable is a shard, container or file that is compared with its index.
// It is a file on disk, the tape of an object (package tape), or an object that is held in memory.
type readable interface {
	io.ReaderAt
	io.Closer
}
