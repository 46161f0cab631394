package scan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// scanImageFiles notes every image file of an archive, for archives whose folders are classes. The keys of
// the part are the names of members. A link is the file that it leads to, as it is once the archive is extracted.
// No cell is made of anything else in the archive: a list of the classes or a licence is passed over.
func scanImageFiles(p *part) error {
	w := formats.NewForeignTarWalker(p.file, p.size)
	// ImageFolder over the extracted archive would follow them.
	w.KeepLinks()
	links := make(archiveLinks)
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			p.behind(w)
			return p.addLinks(links)
		}
		switch {
		case err != nil:
			return err
		case m.Link != "":
			err = links.add(&m)
		case formats.HasImageExtension(m.Name) && !isDesktops(m.Name):
			links.drop(m.Name)
			err = p.addFile(m.Name, m.Offset, m.Size)
		default:
			p.noteArchive(m.Name)
		}
		if err != nil {
			return at(err, m.Header)
		}
	}
}

// addFile notes an image. Its name is kept as the key until all archives are known, and with them what is a class.
// It has no label yet: which folder is a class depends on the folders of all archives.
func (p *part) addFile(name string, offset, size int64) error {
	// The index has 32 bits for it.
	if size > maxLength {
		return fmt.Errorf("%w: an image of %d bytes (expected at most %d)", formats.ErrLimit, size, int64(maxLength))
	}
	p.offset, p.length = append(p.offset, offset), append(p.length, uint32(size))
	p.keys.Append(insideName(name))
	p.count()
	return nil
}

// haveClasses is true where every image lies in a folder below the common top one.
// An archive without an image has none, so that no classes are made of nothing.
func haveClasses(parts []*part) bool {
	top := topFolder(parts)
	found := false
	for _, p := range parts {
		for i := range p.keys.Len() {
			if !strings.Contains(string(p.keys.Bytes(i))[len(top):], "/") {
				return false
			}
			found = true
		}
	}
	return found
}

// topFolder is the folder that all files lie in, with its slash, if there is one: what is below it are classes. A folder
// that files lie in directly is a class itself, unless it is the only one.
// Names are compared as bytes with their last slash, so that "cat" is no part of "cats".
func topFolder(parts []*part) string {
	top, shallow, any := "", "", false
	for _, p := range parts {
		for i := range p.keys.Len() {
			name := p.keys.Bytes(i)
			folder := string(name[:bytes.LastIndexByte(name, '/')+1])
			if !any {
				top, shallow, any = folder, folder, true
			}
			// "" is a prefix of all, so this ends.
			for !strings.HasPrefix(folder, top) {
				top = parentOf(top)
			}
			if len(folder) < len(shallow) {
				shallow = folder
			}
		}
	}
	// Files lie in the common folder itself, so that is a class, and the folder around it is the top.
	if parent := parentOf(top); shallow == top && parent != "" {
		return parent
	}
	return top
}

// parentOf is the folder that a folder lies in. Both end with a slash; "" is the top.
func parentOf(folder string) string {
	return folder[:strings.LastIndexByte(strings.TrimSuffix(folder, "/"), '/')+1]
}

// splitFolders are the folders below the top one where all of them are called as splits are and their images lie in
// folders of their own, as in train/cat/1.jpg: they are no classes. Of a test set the images may lie loose.
func splitFolders(entries []archived) []string {
	deep := make(map[string]bool)
	for _, e := range entries {
		folder, rest, inside := strings.Cut(e.name, "/")
		if !inside || splitName.FindString(folder) == "" {
			return nil
		}
		deep[folder] = deep[folder] || strings.Contains(rest, "/")
	}
	if len(deep) < 2 || !slices.Contains(slices.Collect(maps.Values(deep)), true) {
		return nil
	}
	return slices.Sorted(maps.Keys(deep))
}

// archived is an image of an archive, by its name below the top folder.
// row is its number in its part, where its place stands.
type archived struct {
	shard, row int
	name       string
}

// chooseFolder keeps the images of one split, whose names are those below its folder then.
// Without a split, a dataset that has several is an error: trained on together, validation images would be among those
// of training.
func chooseFolder(where string, entries []archived, o *Options) ([]archived, error) {
	splits := splitFolders(entries)
	switch {
	case splits == nil && o.within != "":
		return nil, noSplits(where, o.within)
	case splits == nil:
		return entries, nil
	case !slices.Contains(splits, o.within):
		return nil, SeveralSplits(where, o.within, splits)
	}
	var chosen []archived
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.name, o.within+"/"); ok {
			chosen = append(chosen, archived{e.shard, e.row, rest})
		}
	}
	return chosen, nil
}

// lastOfEach leaves of several members of one name in one archive the last, which is what extraction leaves: tar --append
// and zipfile's mode "a" write a file that has changed behind the one before. The entries are sorted by name and place.
func lastOfEach(entries []archived) (kept []archived, replaced []string) {
	for i, e := range entries {
		if i+1 < len(entries) && entries[i+1].shard == e.shard && entries[i+1].name == e.name {
			replaced = append(replaced, e.name)
			continue
		}
		kept = append(kept, e)
	}
	return kept, replaced
}

// noSplits refuses a split of what has none.
func noSplits(where, asked string) error {
	return catalog.NewError(fault.KindArgument, where, "%s", fault.Argument("split", asked, "none, for the names of neither files nor folders tell splits apart"))
}

// imageFiles makes a table of image files, whose folders are their classes where each lies in one, in the
// order in which torchvision's ImageFolder has them once they are extracted.
func imageFiles(root, format string, shards []catalog.ShardInfo, parts []*part, o *Options) (*catalog.Table, error) {
	// Said here and not passed over: who names a column expects to get it.
	if o.Image != "" || o.Label != "" || len(o.Fields) > 0 {
		return nil, catalog.NewError(fault.KindArgument, where(root, shards), "image, label and fields name columns, and an archive of image files has none")
	}
	// Also of one among others with images: its own would be missing in silence.
	if i := slices.IndexFunc(parts, func(p *part) bool { return p.inner != "" && p.rows() == 0 }); i >= 0 {
		return nil, catalog.NewError(fault.KindUnsupported, where(root, shards[i:i+1]), archivesInside, strconv.Quote(parts[i].inner))
	}
	// Of all archives together, for the folders of one class may lie in several.
	classes, err := archiveClasses(root, parts, shards, o)
	if err != nil {
		return nil, err
	}
	entries := entriesBelow(topFolder(parts), classes, parts)
	if len(entries) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, where(root, shards), "the containers hold no image")
	}
	entries, err = chooseFolder(where(root, shards), entries, o)
	if err != nil {
		return nil, err
	}
	// One image outside of any folder is enough: it would have no class.
	labelled := !slices.ContainsFunc(entries, func(e archived) bool { return !strings.Contains(e.name, "/") })
	if !labelled && o.Format == "tar" {
		return nil, catalog.NewError(fault.KindUnsupported, where(root, shards), "not every image lies in the folder of a class, nor is each of several archives a class without folders; without format= the samples are WebDataset's")
	}
	// Stable, so that files of one name in two archives stand in the order of these.
	slices.SortStableFunc(entries, func(a, b archived) int { return formats.CompareImagePaths(a.name, b.name) })
	t := &catalog.Table{Root: root, Shards: shards}
	t.Source = catalog.SourceInfo{Format: format, Image: "member"}
	t.Source.Blocks = slices.ContainsFunc(parts, func(p *part) bool { return p.blocks != nil })
	for i, p := range parts {
		for _, warning := range p.warnings {
			t.Warnings = append(t.Warnings, shards[i].Name+": "+warning)
		}
	}
	// Only behind the sort, which brings members of one name together and, being stable, leaves them in the archive's order.
	entries, replaced := lastOfEach(entries)
	if len(replaced) > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d images are passed over, for the archive has another of their name behind them, which takes their place once it is extracted, as %.80q", len(replaced), replaced[0]))
	}
	keys := addEntries(t, parts, entries, labelled)
	if labelled {
		t.Source.Label = "folder"
	} else {
		t.Warnings = append(t.Warnings, "the images lie in no folders of classes, so every label is -1")
	}
	if o.Classes != nil {
		if len(o.Classes) != len(t.Classes) {
			return nil, catalog.NewError(fault.KindArgument, where(root, shards), "classes has %d names (expected %d, the folders)", len(o.Classes), len(t.Classes))
		}
		t.Classes = slices.Clone(o.Classes)
	}
	// Counted anew: images were passed over, and the walk counted all.
	for i := range t.Shards {
		t.Shards[i].Rows = 0
	}
	for _, shard := range t.Shard {
		t.Shards[shard].Rows++
	}
	// Images of two archives may still have one name, and need keys of their own.
	uniqueKeys(t, &keys)
	return t, nil
}

// entriesBelow are all images of the archives, with their names below a folder that all lie in. Where each archive is a
// class, its folder comes first; classes is nil otherwise.
func entriesBelow(top string, classes []string, parts []*part) (entries []archived) {
	for shard, p := range parts {
		class := ""
		if classes != nil {
			class = classes[shard]
		}
		for i := range p.keys.Len() {
			entries = append(entries, archived{shard, int(i), class + string(p.keys.Bytes(i))[len(top):]})
		}
	}
	return entries
}

// addEntries makes a row of the table for each image, and a class for each folder if the images are labelled. The entries
// are sorted by name. Keys may be there twice.
func addEntries(t *catalog.Table, parts []*part, entries []archived, labelled bool) (keys formats.Names) {
	class := ""
	for _, e := range entries {
		p, label := parts[e.shard], int64(catalog.NoLabel)
		if labelled {
			// Sorted by class, so a new folder is a new class; the first may be called as the variable begins.
			if folder, _, _ := strings.Cut(e.name, "/"); class != folder || len(t.Classes) == 0 {
				class = folder
				// A folder's name may be any bytes, and the index holds text.
				t.Classes = append(t.Classes, formats.TextName(folder))
			}
			label = int64(len(t.Classes) - 1)
		}
		t.Shard, t.Offset, t.Length = append(t.Shard, uint32(e.shard)), append(t.Offset, p.offset[e.row]), append(t.Length, p.length[e.row])
		t.Label = append(t.Label, label)
		if t.Source.Blocks {
			var block catalog.BlockPlace
			if e.row < len(p.blocks) {
				block = p.blocks[e.row]
			}
			t.Blocks = append(t.Blocks, block)
		}
		// Only a zip has a checksum of each member.
		if p.frames != nil {
			t.Frames = append(t.Frames, p.frames[e.row])
		}
		keys.Append(formats.SampleKey(e.name))
	}
	return keys
}
