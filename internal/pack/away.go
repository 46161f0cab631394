package pack

import (
	"context"
	"io"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
)

// checkHere refuses what lies in a store of objects: packing and indexing read and write files.
func checkHere(containers []pathjson.Text, paths ...string) error {
	for _, container := range containers {
		paths = append(paths, string(container))
	}
	for _, path := range paths {
		if remote.IsURL(path) {
			return catalog.NewError(fault.KindUnsupported, remote.Display(path),
				"packing and indexing read and write files, not yet a store of objects; pack or index where the files are, and copy what comes of it")
		}
	}
	return nil
}

// readable is a shard, container or file that is compared with its index.
type readable interface {
	io.ReaderAt
	io.Closer
}

// awayBytes are fetched at once of a shard in a store, where a verification reads in order.
const awayBytes = 4 << 20

// window is a shard in a store, to be read by one goroutine. Small reads come out of the stretch that was
// fetched last.
type window struct {
	ctx   context.Context
	shard *catalog.Shard
	at    int64
	bytes []byte
}

func (w *window) ReadAt(to []byte, offset int64) (int, error) {
	if offset < 0 || offset > w.shard.Size() {
		return 0, io.EOF
	}
	done := 0
	for done < len(to) {
		from := offset + int64(done)
		if from >= w.shard.Size() {
			return done, io.EOF
		}
		if from < w.at || from >= w.at+int64(len(w.bytes)) {
			w.bytes, w.at = append(w.bytes[:0], make([]byte, min(awayBytes, w.shard.Size()-from))...), from
			if err := w.shard.ReadAt(w.ctx, w.bytes, from); err != nil {
				w.bytes = w.bytes[:0]
				return done, err
			}
		}
		done += copy(to[done:], w.bytes[from-w.at:])
	}
	return done, nil
}

func (w *window) Close() error { return nil }
