package catalog

import (
	"context"

	disk "github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/remote"
)

// Options are options of Open.
type Options struct {
	IndexDir   string         // where manifest and index lie; "": in the dataset's own directory
	Root       string         // where an index's containers lie; "": where the index says
	AllowEmpty bool           // for listed folders: classes may be empty
	Storage    remote.Storage // for a dataset with a URL
	Cache      *disk.Cache    // keeps the index of such a dataset; nil: none
	CacheBytes int64
	Waits      context.Context // ends waits for a store while it is opened; nil: nothing does
}

func (o *Options) waits() context.Context {
	if o.Waits == nil {
		return context.Background()
	}
	return o.Waits
}
