package scan

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/tape"
)

// expanded is the result of expanding sources in a store.
// A folder in a store is only a prefix of keys, so only a list shows whether a source is one.
type expanded struct {
	files  []string
	rows   []string // tables of the selected rows of these files, if not all are meant
	named  bool     // the user named every file; none was found by a pattern or list
	saved  bool     // a file beside them names them: that of Dataset.save_to_disk, or LitData's index
	packed bool     // a manifest lies beside them: they are shards of a dataset, or have an index

	// fixed has the files that the user named, and those that a saved dataset names. Each has to be a container.
	fixed map[string]bool
	each  []origin // the files of each source, and of each folder of several that braces stand for

	below   string   // the only address below which files were looked for; it ends with a slash
	folders []string // names of folders there, which may be splits
}

// origin has the files that an address stands for.
type origin struct {
	address string
	files   []string
}

// expandAllAway expands one source or several.
// Stores and files cannot be mixed, because an index has one root.
func expandAllAway(ctx context.Context, sources []string, storage remote.Storage) (expanded, error) {
	// named stays true only if each source is the name of one object.
	all := expanded{named: true, fixed: make(map[string]bool)}
	for _, source := range sources {
		source = remote.Normal(source)
		if !remote.IsURL(source) {
			return all, mixedSources(source)
		}
		found, err := expandAway(ctx, source, storage)
		if err != nil {
			return all, catalog.OutOfStore(err)
		}
		if found.rows != nil && len(sources) > 1 {
			return all, selectionAmongOthers(source)
		}
		switch {
		case len(sources) == 1:
		case found.packed:
			return all, ownDataset(strings.TrimSuffix(source, "/"))
		case len(found.files) == 0: // only folders, which are not searched among other sources
			return all, noContainerAway(ctx, source, storage)
		}
		maps.Copy(all.fixed, found.fixed)
		all.each = append(append(all.each, found.each...), origin{source, found.files})
		all.files, all.rows = append(all.files, found.files...), found.rows
		all.named, all.saved = all.named && found.named, found.saved && len(sources) == 1
		if len(sources) == 1 {
			all.below, all.folders = found.below, found.folders
		}
	}
	return all, nil
}

// expandAway expands a source in a store: first braces, then wildcards by the store's list. An address without either
// is that of an object, or of a folder whose direct contents are meant.
// A store lists only by prefix. So braces are expanded here, and for a pattern all keys with the text before its first
// wildcard are listed and matched here.
func expandAway(ctx context.Context, source string, storage remote.Storage) (expanded, error) {
	base, query := source, ""
	// With a store's own scheme there is no query: ? and # are characters of a key (remote.address).
	if strings.HasPrefix(source, "http") { // the query may hold any character
		base, query, _ = strings.Cut(source, "?")
		if query != "" {
			query = "?" + query
		}
	}
	texts, err := braces(base)
	if err != nil {
		return expanded{}, catalog.NewError(fault.KindArgument, remote.Display(source), "%v", err)
	}
	all := expanded{named: true, fixed: make(map[string]bool)}
	for _, text := range texts {
		wild := strings.ContainsAny(text, wildcardsOf(text))
		_, rest, _ := strings.Cut(text, "://")
		_, key, _ := strings.Cut(rest, "/")
		// A name is asked for by itself: a list would cost a request too, and would return all keys that only begin like it.
		if !wild && key != "" && !strings.HasSuffix(key, "/") { // otherwise it is a bucket, or a folder of one
			_, err := remote.Open(ctx, text+query, storage)
			// A store has no folders that can be asked for. So the name is taken for a folder only if there is certainly no
			// object of that name.
			if err == nil || !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(text, "http") {
				all.files = append(all.files, text+query) // if it is wrong, opening it gives the error
				all.fixed[text+query] = true
				continue
			}
		}
		all.named = false
		found, err := listed(ctx, text, wild, storage)
		if err != nil {
			return expanded{}, err
		}
		if len(texts) > 1 && !wild {
			if err := amongBraces(ctx, text, found, storage); err != nil {
				return expanded{}, err
			}
			all.each = append(all.each, origin{text, found.files})
		}
		all.files, all.rows = append(all.files, found.files...), found.rows
		if found.named || found.saved {
			for _, file := range found.files {
				all.fixed[file] = true
			}
		}
		all.saved, all.packed = found.saved && len(texts) == 1, all.packed || found.packed
		if len(texts) == 1 {
			all.below, all.folders = found.below, found.folders
		}
	}
	if len(all.files) == 0 && len(all.folders) == 0 {
		e := catalog.NewError(fault.KindIO, remote.Display(source), "no object has such a name%s", orConverted(ctx, source, storage))
		e.Err = syscall.ENOENT
		return expanded{}, e
	}
	return all, nil
}

// amongBraces refuses a folder of several that braces stand for if there is nothing in it, or nothing that can be one of
// several containers; oneOfSeveral is the same for a folder on disk.
func amongBraces(ctx context.Context, text string, found expanded, storage remote.Storage) error {
	switch {
	case found.packed:
		return ownDataset(strings.TrimSuffix(text, "/"))
	case found.rows != nil:
		return selectionAmongOthers(text)
	case len(found.files) == 0 && len(found.folders) > 0:
		return noContainerAway(ctx, text, storage)
	case len(found.files) == 0:
		e := catalog.NewError(fault.KindIO, remote.Display(text), "no object has such a name")
		e.Err = syscall.ENOENT
		return e
	}
	return nil
}

// wildcardsOf returns the characters that make an address a pattern. Web servers have no lists, so a bracket is part of a
// name there, or of a host, as in http://[::1]/a.tar.
func wildcardsOf(address string) string {
	if strings.HasPrefix(address, "http") {
		return "*"
	}
	return "*?["
}

// listed returns the objects that match a pattern, or that lie directly below an address, sorted.
// The store's list has all levels below its prefix. What lies directly below has no further slash (directlyBelow).
func listed(ctx context.Context, text string, wild bool, storage remote.Storage) (expanded, error) {
	prefix := strings.TrimSuffix(text, "/") + "/"
	if wild {
		prefix = text[:strings.IndexAny(text, wildcardsOf(text))]
		if _, err := path.Match(text, ""); err != nil {
			return expanded{}, catalog.NewError(fault.KindArgument, remote.Display(text), "the pattern is not understood: %v", err)
		}
	}
	entries, err := remote.List(ctx, prefix, storage)
	if err != nil {
		return expanded{}, err
	}
	if !wild {
		return directlyBelow(ctx, prefix, entries, storage)
	}
	var found expanded
	for _, entry := range entries {
		// An object's own name may look like a pattern, as a[1].tar does.
		if entry.URL == text {
			return expanded{files: []string{text}, named: true}, nil
		}
		// path.Match was tried on the pattern above, so it cannot fail here.
		if matched, _ := path.Match(text, entry.URL); matched {
			found.files = append(found.files, entry.URL)
		}
	}
	slices.Sort(found.files)
	return found, nil
}

// directlyBelow returns the objects directly below an address that are taken for containers. The rules are those of
// containersIn for a folder on disk, so that both give the same dataset.
// Images, and files whose names begin with a dot, are left out without being opened.
func directlyBelow(ctx context.Context, prefix string, entries []remote.Entry, storage remote.Storage) (expanded, error) {
	names, folders := map[string]bool{}, map[string]bool{}
	for _, entry := range entries {
		switch name, _, nested := strings.Cut(strings.TrimPrefix(entry.URL, prefix), "/"); {
		// Web consoles of stores make an object named like the folder itself.
		case name == "":
		case nested:
			folders[name] = true
		default:
			names[name] = true
		}
	}
	// This comes before the names are judged: a saved dataset may have other files beside its own, and an order that the
	// names do not show.
	if names[savedStateName] {
		if found, err := savedAway(ctx, prefix, storage); found.files != nil || err != nil {
			return found, err
		}
	}
	if names[litIndexName] {
		if found, err := litAway(ctx, prefix, storage); found.files != nil || err != nil {
			return found, err
		}
	}
	found := expanded{below: prefix, folders: slices.Sorted(maps.Keys(folders)), packed: names[catalog.ManifestName]}
	for name := range names {
		raw := withoutWhole(name) // for a compressed shard, the name of its raw shard
		if name[0] == '.' || isSummary(name) || formats.HasImageExtension(name) || raw != name && names[raw] || names[savedInfo] && derivedName(name) {
			continue
		}
		found.files = append(found.files, prefix+name)
	}
	slices.Sort(found.files)
	return found, nil
}

// savedAway is savedFiles for an address.
// It is called only if the list has a state.
func savedAway(ctx context.Context, prefix string, storage remote.Storage) (found expanded, err error) {
	object, err := remote.Open(ctx, prefix+savedStateName, storage)
	if err != nil || object.Size() > maxSavedState { // the state is another program's
		return found, err
	}
	text := make([]byte, object.Size())
	if err := object.ReadAt(ctx, text, 0); err != nil {
		return found, err
	}
	found.files, found.rows, err = savedBy(object.URL(), text, func(name string) string { return prefix + name })
	found.saved = found.files != nil
	return found, err
}

// litAway returns LitData's chunks below an address, in the order of their index; none if the index is something else.
// It does not check that all chunks exist: opening a missing one gives an error.
func litAway(ctx context.Context, prefix string, storage remote.Storage) (found expanded, err error) {
	folder := litFolder{open: func(address string) (io.ReadCloser, error) { return wholeObject(ctx, address, storage) }}
	found.files, err = folder.chunks(prefix)
	found.saved = found.files != nil
	return found, err
}

// rowsOf is rowsOfFile for an object.
// datasets writes these tables as streams, so they are read from front to back, which suits a tape.
func (a *awayFiles) rowsOf(file string, most int64) ([]int64, error) {
	object, err := remote.Open(a.ctx, file, a.storage)
	if err != nil {
		return nil, catalog.OutOfStore(err)
	}
	if short := headroom.Memory(object.Size()); short != nil {
		return nil, short
	}
	t := tape.New(a.ctx, object)
	defer t.Close()
	rows, err := readRowNumbers(t, object.Size(), most)
	if of := (*remote.Error)(nil); errors.As(err, &of) {
		return nil, catalog.OutOfStore(of)
	}
	if err != nil {
		return nil, catalog.FormatError(object.URL(), err)
	}
	return rows, nil
}
