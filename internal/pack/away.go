package pack

import "io"

// readable is a shard, container or file that is compared with its index.
// A file of the system, an object's tape (package tape) and an object that is held in memory are all of the kind.
type readable interface {
	io.ReaderAt
	io.Closer
}
