package pack

import "io"

// readable is a shard, container or file that is compared with its index.
type readable interface {
	io.ReaderAt
	io.Closer
}
