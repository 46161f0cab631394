package scan

import (
	"context"
	"fmt"
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
		return nil, noContainerAway(ctx, below, o.Storage)
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
		if files, _ = a.containers(files, kinds, nil); len(files) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// noContainerAway makes the error of an address below which no container was found.
func noContainerAway(ctx context.Context, address string, storage remote.Storage) error {
	return catalog.NewError(fault.KindEmpty, remote.Display(strings.TrimSuffix(address, "/")), "there is no container that is known (%q)%s", Formats, orConverted(ctx, address, storage))
}

// orConverted returns the end of an error that an address leads to no container: where the hub keeps the same dataset as
// Parquet, if it does.
func orConverted(ctx context.Context, address string, storage remote.Storage) string {
	const most = 4 // folders in the sentence
	folders := remote.Converted(ctx, address, storage)
	if len(folders) == 0 {
		return ""
	}
	more := ""
	if len(folders) > most {
		more = fmt.Sprintf(" and %d more", len(folders)-most)
	}
	return fmt.Sprintf("; what the hub converted to Parquet is below %q%s", folders[:min(len(folders), most)], more)
}
