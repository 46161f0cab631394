package scan

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/headrace/headrace/internal/formats"
)

// archiveLinks are the links of an archive, by their names: where each leads to. Names are clean paths below the archive's
// root, and only compared with each other.
type archiveLinks map[string]string

// Bounds of memory and of a walk from link to link.
const (
	// Links are held until the archive's end is known, some hundred bytes each.
	maxLinks = 1 << 22
	mostHops = 8 // of links to links
)

// add takes a link. tar writes a file's second name as a hard link, which says its first one.
// Of several links of one name the last holds, as extraction leaves it.
func (l archiveLinks) add(m *formats.TarMember) error {
	if len(l) == maxLinks {
		return fmt.Errorf("%w: more than %d links", formats.ErrLimit, maxLinks)
	}
	// A hard link's target is a name in the archive, a symbolic link's is relative to the folder that it lies in (POSIX, pax,
	// linkname; symlink(7)).
	to := m.Link
	if m.Symbolic && !path.IsAbs(to) {
		to = path.Join(path.Dir(m.Name), to)
	}
	l[path.Clean(m.Name)] = path.Clean(to)
	return nil
}

// drop forgets a link whose name a later file has: extraction puts the file in its place.
func (l archiveLinks) drop(name string) {
	if len(l) > 0 {
		delete(l, path.Clean(name))
	}
}

// end is the file that a link leads to by others; "" where it leads round.
// Links may lead round, so the hops are bounded. Linux follows 40 (path_resolution(7)), and archives have one or two.
func (l archiveLinks) end(name string) string {
	for range mostHops {
		to, link := l[name]
		if !link {
			return name
		}
		name = to
	}
	return ""
}

// addLinks notes the links that are images by their names. Their files may stand before or behind them, so the archive
// is walked once more where there are any.
func (p *part) addLinks(links archiveLinks) error {
	type place struct{ offset, size int64 }
	// nil: the file has not been met. It need not be called as an image, so it may have no row whose place could be taken.
	wanted := make(map[string]*place)
	for name := range links {
		if end := links.end(name); end != "" && formats.HasImageExtension(name) {
			wanted[end] = nil
		}
	}
	if len(links) == 0 {
		return nil
	}
	w := formats.NewForeignTarWalker(p.file, p.size)
	for len(wanted) > 0 {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		// Else a link of that name came later in the archive, and extraction puts it in the file's place.
		if name := path.Clean(m.Name); links[name] == "" {
			if _, asked := wanted[name]; asked {
				wanted[name] = &place{m.Offset, m.Size}
			}
		}
	}
	return p.eachLink(links, func(name, end string) (bool, error) {
		at := wanted[end]
		if at == nil {
			return false, nil
		}
		return true, p.addFile(name, at.offset, at.size)
	})
}

// eachLink has the links added that are images by their names, each with the file that it leads to; what is found is false
// where the archive has no such.
// They are added in the order of their names, because a map's own order is another in each run.
func (p *part) eachLink(links archiveLinks, add func(name, end string) (found bool, err error)) error {
	lost, first := 0, ""
	for _, name := range slices.Sorted(maps.Keys(links)) { // names that clean to one stand in one order
		if !formats.HasImageExtension(name) {
			continue
		}
		found, err := add(name, links.end(name))
		if err != nil {
			return err
		}
		if !found {
			if lost++; first == "" || name < first {
				first = name
			}
		}
	}
	if lost > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("%d images are links to no file of the archive and passed over, as %.80q", lost, first))
	}
	return nil
}
