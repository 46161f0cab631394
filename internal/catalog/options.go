package catalog

import (
	"context"

	disk "github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/remote"
)

// Options of Open.
type Options struct {
	IndexDir   string         // where manifest and index lie; empty: in the dataset's own directory
	Root       string         // where the containers lie that an index names; empty: where it says
	AllowEmpty bool           // listed folders: classes without an image are fine
	Storage    remote.Storage // where the dataset has a URL
	Cache      *disk.Cache    // the index of such a one is kept there; nil: nowhere
	CacheBytes int64
	Waits      context.Context // ends the waits of opening it for a store; nil: nothing does
}

func (o *Options) waits() context.Context {
	if o.Waits == nil {
		return context.Background()
	}
	return o.Waits
}
