package scan

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// Archives that stand for classes: those in an archive, as ImageNet's training images are published (one tar, with a tar for
// each class), and several that were named, where format="tar" says so.

// tarEnding is that of an archive which is read inside of another one.
const tarEnding = ".tar"

// noteArchive remembers the first member that is an archive by its name.
func (p *part) noteArchive(name string) {
	if p.inner == "" && isArchive(name) && !isDesktops(name) {
		p.inner = strings.Clone(name)
	}
}

// isArchive is true of a file by what its name ends with.
func isArchive(name string) bool {
	for _, ending := range []string{"tar", "tgz", "tar.gz", "zip"} {
		if name == ending || strings.HasSuffix(name, "."+ending) {
			return true
		}
	}
	return false
}

// holdArchives is true of archives that hold archives and no image.
func holdArchives(parts []*part) bool {
	for _, p := range parts {
		if p.inner == "" || p.hasImages() {
			return false
		}
	}
	return true
}

// hasImages is true where a sample has an image, or a file is one.
func (p *part) hasImages() bool {
	if len(p.order) == 0 { // scanImageFiles has rows for images alone
		return p.rows() > 0
	}
	return slices.ContainsFunc(p.order, func(name string) bool { return p.columns[name].images > 0 })
}

// archivesInside refuses archives in an archive that are not read.
const archivesInside = "its members are archives (%.200s), of which those are read that are tars of images in a tar; " +
	"extract each into a folder of its own name, which is a folder of classes then"

// scanInnerTars notes the images of all tars in a tar, where they lie in the outer file: what each one holds is as if it had
// been extracted into a folder of its name. Archives in these are files like others.
func scanInnerTars(p *part) error {
	w := formats.NewForeignTarWalker(p.file, p.size)
	links, first := 0, ""
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		switch {
		case err != nil:
			return err
		case isDesktops(m.Name) || !isArchive(m.Name):
			continue
		case path.Ext(m.Name) != tarEnding:
			return at(fmt.Errorf("%w: "+archivesInside, formats.ErrUnsupported, strconv.Quote(m.Name)), m.Header)
		}
		passed, err := p.addInner(w.Inner(&m), strings.TrimSuffix(m.Name, tarEnding)+"/")
		if err != nil {
			if place := (*formats.WalkError)(nil); errors.As(err, &place) {
				return &formats.WalkError{Offset: place.Offset, Err: fmt.Errorf("%w (in the archive %.80q in it)", place.Err, m.Name)}
			}
			return at(fmt.Errorf("%w (in the archive %.80q in it)", err, m.Name), m.Header)
		}
		if links += passed; first == "" && passed > 0 {
			first = m.Name
		}
	}
	if links > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("%d images are links in archives of the archive and passed over, as in %.80q", links, first))
	}
	p.behind(w)
	return nil
}

// addInner notes the images of an archive in an archive, and says how many links it passed over. One with other files
// beside its images holds samples of WebDataset, whose labels may stand there.
func (p *part) addInner(w *formats.TarWalker, folder string) (links int, err error) {
	var folders tarFolders
	w.KeepLinks()
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return links, err
		}
		name := folder + insideName(m.Name)
		if folders.note(name); !formats.HasImageExtension(name) || isDesktops(m.Name) {
			continue
		}
		if m.Link != "" {
			links++
			continue
		}
		if err := p.addFile(name, m.Offset, m.Size); err != nil {
			return links, at(err, m.Header)
		}
	}
	if len(folders.images) > 0 && !folders.arePlain() {
		return links, fmt.Errorf("%w: other files lie beside its images, as in samples of WebDataset; extract it and open it by itself", formats.ErrUnsupported)
	}
	return links, nil
}

// archiveClasses are the folders that several archives without any stand for, where format="tar" says that they hold
// classes: each archive is one, by its name. nil where they are no such.
func archiveClasses(parts []*part, shards []catalog.ShardInfo, o *Options) []string {
	if o.Format != "tar" || len(parts) < 2 {
		return nil
	}
	classes := make([]string, len(parts))
	for n, p := range parts {
		if p.hasFolders() {
			return nil
		}
		classes[n] = strings.TrimSuffix(path.Base(shards[n].Name), tarEnding) + "/"
	}
	return classes
}

// hasFolders is true where a key has a slash.
func (p *part) hasFolders() bool {
	for i := range p.keys.Len() {
		if slices.Contains(p.keys.Bytes(i), '/') {
			return true
		}
	}
	return false
}

// orArchives is the end of the warning that several tars of images alone have no labels.
func orArchives(t *catalog.Table, all []*column, parts []*part) string {
	if t.Source.Format != "webdataset" || len(parts) < 2 || slices.ContainsFunc(parts, (*part).hasFolders) ||
		slices.ContainsFunc(all, func(c *column) bool { return c.images == 0 }) {
		return ""
	}
	return "; if each archive is a class, format=\"tar\" says so"
}
