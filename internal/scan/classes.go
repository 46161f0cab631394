package scan

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// scanImageFiles notes every image file of an archive, for archives whose folders are classes. The keys of
// the part are the names of members. A link is the file that it leads to, as it is once the archive is extracted.
func scanImageFiles(p *part) error {
	w := formats.NewForeignTarWalker(p.file, p.size)
	w.KeepLinks()
	links := make(tarLinks)
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
			err = p.addFile(m.Name, m.Offset, m.Size)
		}
		if err != nil {
			return at(err, m.Header)
		}
	}
}

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

// topFolder is the folder that all files lie in, with its slash, if there is one. Only one level is passed
// over: what is below it are classes.
func topFolder(parts []*part) string {
	top, any := "", false
	for _, p := range parts {
		for i := range p.keys.Len() {
			first, _, inside := strings.Cut(string(p.keys.Bytes(i)), "/")
			// A second folder at the top: these are the classes.
			if !inside || any && first+"/" != top {
				return ""
			}
			top, any = first+"/", true
		}
	}
	return top
}

// imageFiles makes a table of image files, whose folders are their classes where each lies in one, in the
// order in which torchvision's ImageFolder has them once they are extracted.
func imageFiles(root, format string, shards []catalog.ShardInfo, parts []*part, o *Options) (*catalog.Table, error) {
	// Said here and not passed over: who names a column expects to get it.
	if o.Image != "" || o.Label != "" || len(o.Fields) > 0 {
		return nil, catalog.NewError(fault.KindArgument, where(root, shards), "image, label and fields name columns, and an archive of image files has none")
	}
	// Of all archives together, for the folders of one class may lie in several.
	top, labelled := topFolder(parts), haveClasses(parts)
	type entry struct {
		shard, row int
		name       string
	}
	var entries []entry
	for shard, p := range parts {
		for i := range p.keys.Len() {
			entries = append(entries, entry{shard, int(i), string(p.keys.Bytes(i))[len(top):]})
		}
	}
	switch {
	case len(entries) == 0:
		return nil, catalog.NewError(fault.KindEmpty, where(root, shards), "the containers hold no image")
	case !labelled && o.Format == "tar":
		return nil, catalog.NewError(fault.KindUnsupported, where(root, shards), "not every image lies in the folder of a class; without format= the samples are WebDataset's")
	}
	// Stable, so that files of one name in two archives stand in the order of these.
	slices.SortStableFunc(entries, func(a, b entry) int { return formats.CompareImagePaths(a.name, b.name) })
	t := &catalog.Table{Root: root, Shards: shards}
	t.Source = catalog.SourceInfo{Format: format, Image: "member"}
	t.Source.Blocks = slices.ContainsFunc(parts, func(p *part) bool { return p.blocks != nil })
	for i, p := range parts {
		for _, warning := range p.warnings {
			t.Warnings = append(t.Warnings, shards[i].Name+": "+warning)
		}
	}
	var keys formats.Names
	class := ""
	for _, e := range entries {
		p, label := parts[e.shard], int64(catalog.NoLabel)
		if labelled {
			// Sorted by class, so a new folder is a new class; the first may be called as the variable begins.
			if folder, _, _ := strings.Cut(e.name, "/"); class != folder || len(t.Classes) == 0 {
				class = folder
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
		if p.frames != nil {
			t.Frames = append(t.Frames, p.frames[e.row])
		}
		keys.Append(formats.SampleKey(e.name))
	}
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
	uniqueKeys(t, &keys)
	return t, nil
}
