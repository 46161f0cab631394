package scan

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// scanWebDataset groups the members of an archive as WebDataset does (webdataset 1.0, tariterators.py,
// tar_file_iterator and group_by_keys). Neighbouring members whose names agree up to the first dot of the base name are
// a sample. The text after the dot, in lower case, is the name of the cell.
func scanWebDataset(p *part) error {
	// The walker is lenient (Foreign), because tars of other programs have headers that our own shards never have.
	w := formats.NewForeignTarWalker(p.file, p.size)
	var g gathered
	var folders tarFolders
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		// Names are noted even after an error that was kept, because only the archive's end shows whether it is one of class
		// folders.
		folders.note(m.Name)
		p.noteArchive(m.Name)
		if p.late != nil {
			// In a store each further header costs bytes, so a walk whose error can only be kept ends here.
			if p.beside != nil && !folders.arePlain() && !p.holdsArchives() {
				return p.late
			}
			continue
		}
		key, suffix, ok := splitMember(m.Name)
		if !ok {
			continue
		}
		// Members of a sample follow each other. For WebDataset, too, the same key later on is another sample.
		if len(g.cells) == 0 || key != g.prefix {
			if err := g.add(p); err != nil {
				if err = p.putOff(err, &folders); err != nil {
					return err
				}
				continue
			}
			g.prefix, g.begin = key, m.Offset
		}
		c := cell{name: formats.TextName(strings.ToLower(suffix)), offset: m.Offset, length: m.Size}
		if isTextSuffix(c.name) {
			c.kind = textCell
		}
		if slices.ContainsFunc(g.cells, func(other cell) bool { return other.name == c.name }) {
			twice := fmt.Errorf("%w: the sample %.80q has two members %.40q", formats.ErrBad, g.prefix, c.name)
			if err := p.putOff(at(twice, m.Header), &folders); err != nil {
				return err
			}
			continue
		}
		if len(g.cells) >= maxColumns {
			return at(fmt.Errorf("%w: the sample %.80q has more than %d members", formats.ErrLimit, g.prefix, maxColumns), m.Header)
		}
		// The member's head is read now, while the walk is there.
		if err := p.npyCell(&c); err != nil {
			return at(err, m.Offset)
		}
		p.ahead(&c, g.cells)
		g.cells = append(g.cells, c)
	}
	if p.late == nil {
		if err := p.putOff(g.add(p), &folders); err != nil {
			return err
		}
	}
	if p.plain = folders.arePlain(); p.late != nil && !p.plain && !p.holdsArchives() {
		return p.late
	}
	p.behind(w)
	return nil
}

// gathered has the members of one sample, as far as the walk has come.
type gathered struct {
	prefix string // the common part of their names
	begin  int64  // where the first member's content begins
	cells  []cell
}

// add makes a sample of the gathered members. It is called when the next sample begins.
func (g *gathered) add(p *part) error {
	if len(g.cells) == 0 {
		return nil
	}
	var err error
	if slices.ContainsFunc(g.cells, func(c cell) bool { return c.raw != (catalog.RawSize{}) }) {
		err = p.pixelsBeside(g.cells)
	}
	if err == nil {
		err = p.add(formats.TextName(insideName(g.prefix)), g.begin, g.cells)
	}
	g.cells, p.small = g.cells[:0], p.small[:0]
	return at(err, g.begin)
}

// tarFolders distinguishes an archive of class folders from samples of WebDataset: each image lies in a folder, and a
// folder with images holds nothing else. A list of the classes or a licence may lie elsewhere.
// Files of a folder mostly follow each other, so the last folder is remembered and not looked up again.
type tarFolders struct {
	images, others map[string]bool
	last           string // the folder that was noted last; lastImage says whether an image in it was
	lastImage      bool
	flat           bool // some image lies in no folder
	mixed          bool // some folder with images holds something else
}

// note notes one member. An image with another kind of file in its folder suggests WebDataset, as with a caption.
func (f *tarFolders) note(name string) {
	if isDesktops(name) {
		return
	}
	folder, image := name[:strings.LastIndexByte(name, '/')+1], formats.HasImageExtension(name)
	if f.flat || f.images != nil && folder == f.last && image == f.lastImage {
		return
	}
	if f.images == nil {
		f.images, f.others = make(map[string]bool), make(map[string]bool)
	}
	f.last, f.lastImage = strings.Clone(folder), image
	if !image {
		f.others[f.last] = true
		f.mixed = f.mixed || f.images[f.last]
		return
	}
	f.mixed = f.mixed || f.others[f.last]
	if f.images[f.last] = true; !strings.Contains(insideName(name), "/") {
		*f = tarFolders{flat: true}
	}
}

// isDesktops is true for the files that macOS and Windows put beside others: attributes under the file's own name, and
// settings. They say nothing about the archive.
func isDesktops(name string) bool {
	switch base := name[strings.LastIndexByte(name, '/')+1:]; base {
	case ".DS_Store", "Thumbs.db", "desktop.ini":
		return true
	default:
		return strings.HasPrefix(base, "._") || strings.HasPrefix(name, "__MACOSX/")
	}
}

// arePlain is true if the members so far look like an archive of class folders.
func (f *tarFolders) arePlain() bool {
	return !f.flat && !f.mixed && (len(f.images) > 0 || len(f.others) == 0)
}

// putOff keeps an error of a sample while its archive may still be one of class folders, where two files of one stem
// are two images, or one of archives, where the last of two counts.
func (p *part) putOff(err error, folders *tarFolders) error {
	if err == nil || !folders.arePlain() && !p.holdsArchives() {
		return err
	}
	p.late = err
	return nil
}

// behind warns if something follows an archive's end.
// WebDataset does not report it, and never sees the samples of a second archive there.
func (p *part) behind(w *formats.TarWalker) {
	if behind := w.Behind(); behind >= 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("something stands behind the archive's end, at byte %d, perhaps another archive; like Python's tarfile, this reads the first alone", behind))
	}
}

// at adds an offset to an error that has none.
// The innermost offset is kept, because it is nearest to the fault.
func at(err error, offset int64) error {
	var already *formats.WalkError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &formats.WalkError{Offset: offset, Err: err}
}

// splitMember divides a member's name into key and suffix by WebDataset's regular expression,
// ^((?:.*/|)[^.]+)[.]([^/]*)$, and returns false for what WebDataset ignores: names without a match, and those of
// metadata, which begin with __NAME__.
// It does not use a regular expression, because it is called for every member of an archive.
func splitMember(name string) (key, suffix string, ok bool) {
	if isMetadata(name) {
		return "", "", false
	}
	base := strings.LastIndexByte(name, '/') + 1
	// The first dot counts: "a.seg.png" is the cell "seg.png" of "a".
	dot := strings.IndexByte(name[base:], '.')
	switch {
	case dot < 0:
		return "", "", false
	case dot > 0:
		return name[:base+dot], name[base+dot+1:], true
	}
	// The base name begins with the dot. Since [^.]+ also matches a slash, the folder is the key, if there is one and its
	// last part has no dot.
	if base == 0 {
		return "", "", false
	}
	folder := name[strings.LastIndexByte(name[:base-1], '/')+1 : base]
	if strings.Contains(folder, ".") {
		return "", "", false
	}
	return name[:base], name[base+1:], true
}

// isMetadata is WebDataset's skip_meta, __[^/]*__($|/) at the start, and its rule for names without a folder that begin
// and end with two underscores.
// A folder with such a name hides everything below it.
func isMetadata(name string) bool {
	if !strings.HasPrefix(name, "__") {
		return false
	}
	first, _, _ := strings.Cut(name, "/")
	return len(first) >= 4 && strings.HasSuffix(first, "__")
}

// isTextSuffix is true for members that WebDataset decodes as text.
// The last extension counts, as in WebDataset's decoders: "seg.json" is JSON.
func isTextSuffix(suffix string) bool {
	last := suffix[strings.LastIndexByte(suffix, '.')+1:]
	switch last {
	case "txt", "text", "transcript", "json", "jsonl":
		return true
	}
	return false
}

// insideName makes a key of a name in an archive. The key leads out of no folder, wherever samples are written again.
// Keys become names of members and of files.
func insideName(name string) string {
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "./") && !strings.Contains(name, "..") {
		return name
	}
	parts := strings.Split(name, "/")
	kept := parts[:0]
	for _, part := range parts {
		switch part {
		case "", ".":
		case "..":
			kept = append(kept, "@up")
		default:
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return "@"
	}
	return strings.Join(kept, "/")
}
