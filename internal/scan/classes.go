package scan

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// scanImageFiles notes every image file of an archive, for archives whose folders are classes. The keys of
// the part are the names of members.
func scanImageFiles(p *part) error {
	w := formats.NewForeignTarWalker(p.file, p.size)
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if formats.HasImageExtension(m.Name) {
			if err := p.addFile(m.Name, m.Offset, m.Size); err != nil {
				return at(err, m.Header)
			}
		}
	}
}

func (p *part) addFile(name string, offset, size int64) error {
	if size > maxLength {
		return fmt.Errorf("%w: an image of %d bytes (expected at most %d)", formats.ErrLimit, size, int64(maxLength))
	}
	p.offset, p.length = append(p.offset, offset), append(p.length, uint32(size))
	p.keys.Append(insideName(name))
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
			if !inside || any && first+"/" != top {
				return ""
			}
			top, any = first+"/", true
		}
	}
	return top
}

// classFolders makes a table of image files in folders, in the order in which torchvision's ImageFolder
// has them once they are extracted.
func classFolders(root string, shards []catalog.ShardInfo, parts []*part, o *Options) (*catalog.Table, error) {
	top := topFolder(parts)
	type entry struct {
		shard, row int
		name       string
	}
	var entries []entry
	for shard, p := range parts {
		for i := range p.keys.Len() {
			name := string(p.keys.Bytes(i))[len(top):]
			if !strings.Contains(name, "/") {
				return nil, catalog.NewError(fault.KindUnsupported, filepath.Join(root, filepath.FromSlash(shards[shard].Name)), "%.80q lies in no folder of a class", name)
			}
			entries = append(entries, entry{shard, int(i), name})
		}
	}
	if len(entries) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, where(root, shards), "the containers hold no image")
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return formats.CompareImagePaths(a.name, b.name) })
	t := &catalog.Table{Root: root, Shards: shards}
	t.Source = catalog.SourceInfo{Format: "tar", Image: "member", Label: "folder"}
	class := ""
	for _, e := range entries {
		p := parts[e.shard]
		if folder, _, _ := strings.Cut(e.name, "/"); class != folder || len(t.Classes) == 0 {
			class = folder
			t.Classes = append(t.Classes, formats.TextName(folder))
		}
		t.Shard, t.Offset, t.Length = append(t.Shard, uint32(e.shard)), append(t.Offset, p.offset[e.row]), append(t.Length, p.length[e.row])
		t.Label = append(t.Label, int64(len(t.Classes)-1))
	}
	if o.Classes != nil {
		if len(o.Classes) != len(t.Classes) {
			return nil, catalog.NewError(fault.KindArgument, where(root, shards), "classes has %d names (expected %d, the folders)", len(o.Classes), len(t.Classes))
		}
		t.Classes = slices.Clone(o.Classes)
	}
	var keys formats.Names
	for _, e := range entries {
		keys.Append(formats.SampleKey(e.name))
	}
	uniqueKeys(t, &keys)
	return t, nil
}
