package scan

import (
	"context"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
)

// openSplitAway is openSplitFolder for an address, which ends with a slash.
// Every folder costs a list, and a few requests until a container is found in it.
func openSplitAway(ctx context.Context, below string, folders []string, o Options) (*catalog.Dataset, error) {
	var splits []string
	for _, folder := range folders {
		holds, err := holdsContainers(ctx, below+folder+"/", o.Storage)
		if err != nil {
			return nil, catalog.OutOfStore(err)
		}
		if holds {
			splits = append(splits, folder)
		}
	}
	source := remote.Display(strings.TrimSuffix(below, "/"))
	open := func(split string) (*catalog.Dataset, error) {
		return OpenAway(ctx, []string{below + split + "/"}, o)
	}
	switch {
	case len(splits) == 0:
		return nil, catalog.NewError(fault.KindEmpty, source, "there is no container that is known (%q)", Formats)
	case aloneWith(splits, o.Split):
		return open(splits[0])
	// This is also the case if no split was named, because no folder is called "".
	case !slices.Contains(splits, o.Split):
		return nil, SeveralSplits(source, o.Split, splits)
	}
	split := o.Split
	o.Split = ""
	return open(split)
}

// holdsContainers looks at the files directly below an address until it finds a container.
// A packed dataset there does not count: its shards are tars, and it is opened by its own address.
func holdsContainers(ctx context.Context, address string, storage remote.Storage) (bool, error) {
	if strings.ContainsAny(address, "*?[{") { // such an address cannot be listed
		return false, nil
	}
	found, err := listed(ctx, address, false, storage)
	if err != nil || found.saved {
		return found.saved, err
	}
	if slices.Contains(found.files, address+catalog.ManifestName) { // what looks like containers are shards
		return false, nil
	}
	// A few files are looked at at a time: the first container decides, and a folder may have thousands of files.
	for files := range slices.Chunk(found.files, sniffedAtOnce) {
		a := &awayFiles{ctx: ctx, storage: storage, names: make([]string, len(files))}
		kinds, err := a.open(files)
		if err != nil {
			return false, err
		}
		if files, _ = a.containers(files, kinds); len(files) > 0 {
			return true, nil
		}
	}
	return false, nil
}
