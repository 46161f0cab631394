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

// scanImageFiles notes every image file of an archive whose folders are classes. The part's keys are the names of
// members.
// A link stands for the file that it leads to, as after extraction.
// Other members, such as a list of the classes or a licence, are ignored.
func scanImageFiles(p *part) error {
	w := formats.NewForeignTarWalker(p.file, p.size)
	// ImageFolder follows links in the extracted archive, so they are kept here.
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

// addFile notes an image. Its name is kept as the key until all archives are known.
// The image has no label yet, because the classes depend on the folders of all archives.
func (p *part) addFile(name string, offset, size int64) error {
	// The index has 32 bits for the length.
	if size > maxLength {
		return fmt.Errorf("%w: an image of %d bytes (expected at most %d)", formats.ErrLimit, size, int64(maxLength))
	}
	p.offset, p.length = append(p.offset, offset), append(p.length, uint32(size))
	p.keys.Append(insideName(name))
	p.count()
	return nil
}

// haveClasses is true if every image lies in a folder below the common top folder.
// It is false without an image, so that no classes are made of nothing.
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

// topFolder returns the folder that all files lie in, with its slash, if there is one. The folders below it are the
// classes. If files lie directly in the common folder, it is a class itself, unless no folder contains it.
// Names are compared as bytes with their last slash, so that "cat" does not match "cats".
func topFolder(parts []*part) string {
	top, shallow, any := "", "", false
	for _, p := range parts {
		for i := range p.keys.Len() {
			name := p.keys.Bytes(i)
			folder := string(name[:bytes.LastIndexByte(name, '/')+1])
			if !any {
				top, shallow, any = folder, folder, true
			}
			// The loop ends, because "" is a prefix of every folder.
			for !strings.HasPrefix(folder, top) {
				top = parentOf(top)
			}
			if len(folder) < len(shallow) {
				shallow = folder
			}
		}
	}
	// Some files lie in the common folder itself, so it is a class, and the folder around it is the top.
	if parent := parentOf(top); shallow == top && parent != "" {
		return parent
	}
	return top
}

// parentOf returns the folder that a folder lies in. Both end with a slash; "" is the top.
func parentOf(folder string) string {
	return folder[:strings.LastIndexByte(strings.TrimSuffix(folder, "/"), '/')+1]
}

// splitFolders returns the folders below the top one if all have names of splits and their images lie in folders of
// their own, as train/cat/1.jpg does. Such folders are no classes. A test set's images may lie directly in its folder.
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

// archived is an image in an archive, with its name below the top folder.
// row is the image's number in its part.
type archived struct {
	shard, row int
	name       string
}

// chooseFolder keeps the images of one split. Their names are then relative to its folder.
// If there are several splits and none is chosen, that is an error. Otherwise a training would include the validation
// images.
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

// lastOfEach keeps the last of several members with one name in one archive, as extraction does. tar --append and
// zipfile's mode "a" write a changed file behind its old version. The entries are sorted by name and place.
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

// noSplits makes the error for a split that is asked of a dataset without splits.
func noSplits(where, asked string) error {
	return catalog.NewError(fault.KindArgument, where, "%s", fault.Argument("split", asked, "none, for the names of neither files nor folders tell splits apart"))
}

// imageFiles makes a table of image files. If every image lies in a folder, the folders are the classes. The images are
// in the order in which torchvision's ImageFolder has them after extraction.
func imageFiles(root, format string, shards []catalog.ShardInfo, parts []*part, o *Options) (*catalog.Table, error) {
	// These options are refused and not ignored, because a user who names a column expects to get it.
	if o.Image != "" || o.Label != "" || len(o.Fields) > 0 {
		return nil, catalog.NewError(fault.KindArgument, where(root, shards), "image, label and fields name columns, and an archive of image files has none")
	}
	// This also refuses an archive of archives among archives with images. Otherwise its images would be missing silently.
	if i := slices.IndexFunc(parts, func(p *part) bool { return p.inner != "" && p.rows() == 0 }); i >= 0 {
		return nil, catalog.NewError(fault.KindUnsupported, where(root, shards[i:i+1]), archivesInside, strconv.Quote(parts[i].inner))
	}
	// The top folder is that of all archives together, because the folders of one class may lie in several.
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
	// A single image outside any folder has no class, and then none has a label.
	labelled := !slices.ContainsFunc(entries, func(e archived) bool { return !strings.Contains(e.name, "/") })
	if !labelled && o.Format == "tar" {
		return nil, catalog.NewError(fault.KindUnsupported, where(root, shards), "not every image lies in the folder of a class, nor is each of several archives a class without folders; without format= the samples are WebDataset's")
	}
	// The sort is stable, so files of one name in two archives keep the order of the archives.
	slices.SortStableFunc(entries, func(a, b archived) int { return formats.CompareImagePaths(a.name, b.name) })
	t := &catalog.Table{Root: root, Shards: shards}
	t.Source = catalog.SourceInfo{Format: format, Image: "member"}
	t.Source.Blocks = slices.ContainsFunc(parts, func(p *part) bool { return p.blocks != nil })
	for i, p := range parts {
		for _, warning := range p.warnings {
			t.Warnings = append(t.Warnings, shards[i].Name+": "+warning)
		}
	}
	// The sort has brought members of one name together. Being stable, it has left them in the archive's order.
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
	// The rows are counted again, because the walk counted images that were dropped since.
	for i := range t.Shards {
		t.Shards[i].Rows = 0
	}
	for _, shard := range t.Shard {
		t.Shards[shard].Rows++
	}
	// Images of two archives may still share a name, and need different keys.
	uniqueKeys(t, &keys)
	return t, nil
}

// entriesBelow returns all images of the archives, with their names below the folder that all lie in. classes has a
// folder for each archive that is a class, to put before the names; otherwise it is nil.
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

// addEntries adds a row to the table for each image, and a class for each folder if the images are labelled. The
// entries are sorted by name. The keys that it returns may not be unique.
func addEntries(t *catalog.Table, parts []*part, entries []archived, labelled bool) (keys formats.Names) {
	class := ""
	for _, e := range entries {
		p, label := parts[e.shard], int64(catalog.NoLabel)
		if labelled {
			// The entries are sorted by class, so a new folder is a new class. The first folder's name may be empty, as class
			// is.
			if folder, _, _ := strings.Cut(e.name, "/"); class != folder || len(t.Classes) == 0 {
				class = folder
				// A folder's name may be any bytes, but the index holds text.
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
		// Only members of a zip have checksums.
		if p.frames != nil {
			t.Frames = append(t.Frames, p.frames[e.row])
		}
		keys.Append(formats.SampleKey(e.name))
	}
	return keys
}
