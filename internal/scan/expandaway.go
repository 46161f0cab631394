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

// expanded is what sources in a store stand for.
// A folder of a store is nothing but a prefix of keys, so that whether a source is one is found out by its list.
type expanded struct {
	files []string
	rows  []string // tables of the rows that are selected of them, if not all
	named bool     // all were listed by name, and not looked for
	saved bool     // they are those that a file beside them names: Dataset.save_to_disk's, or LitData's

	below   string   // the one address that was looked below, and ends with a slash
	folders []string // names of folders there, which may be splits
}

// expandAllAway expands several sources, or one.
// Stores and files are not mixed: an index has one root.
func expandAllAway(ctx context.Context, sources []string, storage remote.Storage) (expanded, error) {
	// named stays true only where each source was an object's own name.
	all := expanded{named: true}
	for _, source := range sources {
		source = remote.Normal(source)
		if !remote.IsURL(source) {
			return all, catalog.NewError(fault.KindArgument, source, "containers in files and in a store of objects are not one dataset; index them apart and concatenate them")
		}
		found, err := expandAway(ctx, source, storage)
		if err != nil {
			return all, catalog.OutOfStore(err)
		}
		// Numbers of rows count from the first of that dataset's files, and would mean others behind another one's.
		if found.rows != nil && len(sources) > 1 { // the rows count from the first of that one's files
			return all, catalog.NewError(fault.KindUnsupported, remote.Display(source), "a selection of rows was saved with this dataset, so it cannot be opened together with other sources; index it alone, and join the datasets with Dataset.concat")
		}
		all.files, all.rows = append(all.files, found.files...), found.rows
		all.named, all.saved = all.named && found.named, found.saved && len(sources) == 1
		if len(sources) == 1 {
			all.below, all.folders = found.below, found.folders
		}
	}
	return all, nil
}

// expandAway is what a source in a store stands for: braces, then wildcards by the store's list; an address
// without either is that of an object, or what lies directly below it.
// A store lists by prefix alone. So braces are expanded here, and for a pattern all keys are listed that begin with what
// stands before its first wildcard, and matched here.
func expandAway(ctx context.Context, source string, storage remote.Storage) (expanded, error) {
	base, query := source, ""
	// A store's own scheme has no query: ? and # are letters of a key there (remote.address).
	if strings.HasPrefix(source, "http") { // whose query may hold any character
		base, query, _ = strings.Cut(source, "?")
		if query != "" {
			query = "?" + query
		}
	}
	texts, err := braces(base)
	if err != nil {
		return expanded{}, catalog.NewError(fault.KindArgument, remote.Display(source), "%v", err)
	}
	all := expanded{named: true}
	for _, text := range texts {
		wild := strings.ContainsAny(text, "*?[")
		_, rest, _ := strings.Cut(text, "://")
		_, key, _ := strings.Cut(rest, "/")
		// A name is asked for by itself: a list would cost a request as well, and give all that only begins so.
		if !wild && key != "" && !strings.HasSuffix(key, "/") { // else a bucket, or a folder of one
			_, err := remote.Open(ctx, text+query, storage)
			// Only a name that is certainly no object is looked below: a store has no folders that could be asked
			// for.
			if err == nil || !errors.Is(err, fs.ErrNotExist) || len(texts) > 1 || strings.HasPrefix(text, "http") {
				all.files = append(all.files, text+query) // what is wrong with it is found when it is opened
				continue
			}
		}
		all.named = false
		found, err := listed(ctx, text, wild, storage)
		if err != nil {
			return expanded{}, err
		}
		if found.rows != nil && len(texts) > 1 {
			return expanded{}, catalog.NewError(fault.KindUnsupported, remote.Display(text), "a selection of rows was saved with this dataset, so it cannot be opened together with other sources; index it alone, and join the datasets with Dataset.concat")
		}
		all.files, all.rows = append(all.files, found.files...), found.rows
		all.saved = found.saved && len(texts) == 1
		if len(texts) == 1 {
			all.below, all.folders = found.below, found.folders
		}
	}
	if len(all.files) == 0 && len(all.folders) == 0 {
		e := catalog.NewError(fault.KindIO, remote.Display(source), "no object has such a name")
		e.Err = syscall.ENOENT
		return expanded{}, e
	}
	return all, nil
}

// listed are the objects that a pattern stands for, or that lie directly below an address; sorted.
// A list has all levels below its prefix. What lies directly below it has no further slash (directlyBelow).
func listed(ctx context.Context, text string, wild bool, storage remote.Storage) (expanded, error) {
	prefix := strings.TrimSuffix(text, "/") + "/"
	if wild {
		prefix = text[:strings.IndexAny(text, "*?[")]
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
		// An object may be called a[1].tar.
		if entry.URL == text {
			return expanded{files: []string{text}, named: true}, nil
		}
		// The pattern's own text was tried before, so it is understood.
		if matched, _ := path.Match(text, entry.URL); matched {
			found.files = append(found.files, entry.URL)
		}
	}
	slices.Sort(found.files)
	return found, nil
}

// directlyBelow are the objects right below an address that are meant where containers are looked for there, by
// the rules that containersIn has of a folder on disk: both have to be one dataset.
// Images, and files whose names begin with a dot, are left out without being opened.
func directlyBelow(ctx context.Context, prefix string, entries []remote.Entry, storage remote.Storage) (expanded, error) {
	names, folders := map[string]bool{}, map[string]bool{}
	for _, entry := range entries {
		switch name, _, nested := strings.Cut(strings.TrimPrefix(entry.URL, prefix), "/"); {
		// An object named like the folder itself, which web consoles of stores make.
		case name == "":
		case nested:
			folders[name] = true
		default:
			names[name] = true
		}
	}
	// Before the files are looked at: a saved dataset may have others beside its own, and an order that names do not
	// say.
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
	found := expanded{below: prefix, folders: slices.Sorted(maps.Keys(folders))}
	for name := range names {
		raw := withoutWhole(name) // of a compressed shard beside what it became
		if name[0] == '.' || isSummary(name) || formats.HasImageExtension(name) || raw != name && names[raw] || names[savedInfo] && derivedName(name) {
			continue
		}
		found.files = append(found.files, prefix+name)
	}
	slices.Sort(found.files)
	return found, nil
}

// savedAway is savedFiles of what lies below an address.
// It is called only where the list has a state.
func savedAway(ctx context.Context, prefix string, storage remote.Storage) (found expanded, err error) {
	object, err := remote.Open(ctx, prefix+savedStateName, storage)
	if err != nil || object.Size() > maxSavedState { // a state of something else
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

// litAway are the chunks of LitData below an address, in the order of their index; none where that is of something else.
// Whether all chunks are there is not asked here: one that is missing is an error when it is opened.
func litAway(ctx context.Context, prefix string, storage remote.Storage) (found expanded, err error) {
	folder := litFolder{open: func(address string) (io.ReadCloser, error) { return wholeObject(ctx, address, storage) }}
	found.files, err = folder.chunks(prefix)
	found.saved = found.files != nil
	return found, err
}

// rowsOf is rowsOfFile of an object.
// datasets writes these tables as streams, which are read from front to back, as a tape fetches.
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
