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

// archiveLinks has the links of an archive by name, with the target of each. Names are clean paths below the archive's
// root, and are only compared with each other.
type archiveLinks map[string]string

// These constants limit memory, and how far links are followed.
const (
	// Links are kept until the archive's end is known. Each takes some hundred bytes.
	maxLinks = 1 << 22
	mostHops = 8 // from link to link
)

// add notes a link. tar writes a second name of a file as a hard link to its first name.
// Of several links with one name the last one holds, as after extraction.
func (l archiveLinks) add(m *formats.TarMember) error {
	if len(l) == maxLinks {
		return fmt.Errorf("%w: more than %d links", formats.ErrLimit, maxLinks)
	}
	// The target of a hard link is a name in the archive. That of a symbolic link is relative to the link's own folder
	// (POSIX, pax, linkname; symlink(7)).
	to := m.Link
	if m.Symbolic && !path.IsAbs(to) {
		to = path.Join(path.Dir(m.Name), to)
	}
	l[path.Clean(m.Name)] = path.Clean(to)
	return nil
}

// drop removes a link if a later file has its name, because extraction replaces the link by the file.
func (l archiveLinks) drop(name string) {
	if len(l) > 0 {
		delete(l, path.Clean(name))
	}
}

// end returns the file that a link leads to, perhaps through other links; "" if they form a circle.
// Because of circles the number of hops is limited. Linux follows 40 (path_resolution(7)); archives have one or two.
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

// addLinks notes the links that are images by their names. Their files may come before or after them, so the archive is
// walked once more if it has links.
func (p *part) addLinks(links archiveLinks) error {
	type place struct{ offset, size int64 }
	// A nil place means that the file was not found yet. It may lack an image's name, and then no row has its place.
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
		// Otherwise a link of that name comes later in the archive, and extraction replaces the file by it.
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

// eachLink calls add for each link that is an image by its name, with the file that it leads to. found is false if the
// archive has no such file.
// The links come in the order of their names, because a map's own order differs from run to run.
func (p *part) eachLink(links archiveLinks, add func(name, end string) (found bool, err error)) error {
	lost, first := 0, ""
	for _, name := range slices.Sorted(maps.Keys(links)) { // sorted, so that names that are equal once cleaned keep one order
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
