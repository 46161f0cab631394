package scan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// This file reads archives that stand for classes. Either they lie in an archive, as ImageNet's training images are
// published (one tar with a tar for each class), or several are named, with format="tar".

// tarEnding is the ending of an archive that is read inside another one.
const tarEnding = ".tar"

// noteArchive notes the first member whose name is that of an archive, and whether any member's name is not. Names that
// WebDataset takes into no sample, such as LICENSE, do not count: they say nothing about a sample.
func (p *part) noteArchive(name string) {
	switch {
	case p.inner != "" && p.loose: // both are known already
	case isArchive(name):
		if p.inner == "" && !isDesktops(name) {
			p.inner = strings.Clone(name)
		}
	case !p.loose:
		_, _, sampled := splitMember(name)
		p.loose = sampled && !isDesktops(name)
	}
}

// isArchive says whether a name ends like that of an archive, in any case.
// It is called for every member of a tar, so the length of the last extension and its first letter decide for most
// names.
func isArchive(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	switch ext := name[dot+1:]; {
	case len(ext) == 3 && ext[0]|0x20 == 't':
		return strings.EqualFold(ext, "tar") || strings.EqualFold(ext, "tgz")
	case len(ext) == 3 && ext[0]|0x20 == 'z':
		return strings.EqualFold(ext, "zip")
	case dot >= 0 && strings.EqualFold(ext, "gz"):
		return strings.EqualFold(name[:dot], "tar") || withoutTar(name[:dot]) != name[:dot]
	}
	return false
}

// withoutTar removes the ending of a tar from a name, in any case. A name without that ending is returned unchanged.
func withoutTar(name string) string {
	if stem := len(name) - len(tarEnding); stem >= 0 && strings.EqualFold(name[stem:], tarEnding) {
		return name[:stem]
	}
	return name
}

// holdArchives is true if the archives hold archives and nothing else. Beside other files, archives are values of
// samples of WebDataset, and those files may have the labels.
func holdArchives(parts []*part) bool {
	return !slices.ContainsFunc(parts, func(p *part) bool { return !p.holdsArchives() })
}

func (p *part) holdsArchives() bool { return p.inner != "" && !p.loose }

// archivesInside is the error for archives in an archive that are not read.
const archivesInside = "its members are archives (%.200s), which are read only as class folders: uncompressed tars of images in a tar, " +
	"opened without image=, label= and format=\"webdataset\"; extract each into a folder of its own name, which is a folder of classes then"

// scanClassFolders walks an archive with format="tar": its folders are classes, or the archives in it are. In the
// second case it may also hold other files than images.
func scanClassFolders(p *part) error {
	if err := scanImageFiles(p); err != nil || p.inner == "" || p.rows() > 0 {
		return err
	}
	p.warnings = nil // the second walk finds them again
	return scanInnerTars(p)
}

// counted counts the cases of one warning, and has the name of the first.
type counted struct {
	times int
	first string
}

func (c *counted) add(times int, name string) {
	if c.times += times; c.first == "" && times > 0 {
		c.first = strings.Clone(name)
	}
}

// scanInnerTars notes the images of all tars in a tar, with their places in the outer file. The names are as if each
// tar had been extracted into a folder of its own name. Archives inside these tars count as ordinary files.
func scanInnerTars(p *part) error {
	p.inner = "" // from here on, inner stands for archives that are not read
	last, err := lastInner(p)
	if err != nil {
		return err
	}
	w := formats.NewForeignTarWalker(p.file, p.size)
	w.KeepLinks()
	var links, imageLinks, replaced, behind counted
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if isDesktops(m.Name) || !isArchive(m.Name) {
			continue
		}
		if m.Link != "" {
			links.add(1, m.Name)
			continue
		}
		folder := folderOf(m.Name)
		if folder == "" {
			return at(fmt.Errorf("%w: "+archivesInside, formats.ErrUnsupported, strconv.Quote(m.Name)), m.Header)
		}
		if last[folder].header != m.Header {
			replaced.add(1, m.Name)
			continue
		}
		if m.Size == 0 {
			return at(fmt.Errorf("%w: the archive %.80q in it has no bytes", formats.ErrTruncated, m.Name), m.Header)
		}
		inner := w.Inner(&m)
		passed, err := p.addInner(inner, folder)
		if err != nil {
			return p.insideOf(&m, err)
		}
		imageLinks.add(passed, m.Name)
		if inner.Behind() >= 0 {
			behind.add(1, m.Name)
		}
	}
	for _, c := range []struct {
		counted
		says string
	}{
		{links, "%d archives in the archive are links and passed over, as %.80q"},
		{imageLinks, "%d images are links in archives of the archive and passed over, as in %.80q"},
		{replaced, "%d archives in the archive are passed over, for it has another of their name behind them, which takes their place once it is extracted, as %.80q"},
		{behind, "%d archives in the archive have something behind their end, perhaps another archive, as %.80q; like Python's tarfile, this reads the first alone"},
	} {
		if c.times > 0 {
			p.warnings = append(p.warnings, fmt.Sprintf(c.says, c.times, c.first))
		}
	}
	p.behind(w)
	return nil
}

// folderOf returns the folder that a tar in a tar stands for, with its slash. It returns "" for an archive of another
// kind, and if the name is nothing but the ending.
func folderOf(name string) string {
	stem := withoutTar(name)
	if base := stem[strings.LastIndexByte(stem, '/')+1:]; stem == name || base == "" || base == "." {
		return ""
	}
	return insideName(stem) + "/"
}

// innerTar is a tar in a tar.
type innerTar struct {
	name   string
	header int64 // offset of its header
}

// lastInner returns the tars in a tar by their folders. If several have one name it returns the last, because
// extracting it replaces the earlier ones as a whole. tar --append writes it behind them.
func lastInner(p *part) (map[string]innerTar, error) {
	last := make(map[string]innerTar)
	w := formats.NewForeignTarWalker(p.file, p.size)
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		folder := folderOf(m.Name)
		if folder == "" || isDesktops(m.Name) {
			continue
		}
		name := insideName(m.Name)
		switch other, twice := last[folder]; {
		case twice && other.name != name: // a.tar and a.TAR
			return nil, at(fmt.Errorf("%w: the archives %.80q and %.80q in it would both be the folder %.80q", formats.ErrUnsupported, other.name, name, folder), m.Header)
		case len(last) == maxLinks:
			return nil, at(fmt.Errorf("%w: more than %d archives in the archive", formats.ErrLimit, maxLinks), m.Header)
		}
		last[strings.Clone(folder)] = innerTar{strings.Clone(name), m.Header}
	}
}

// insideOf adds to an error which inner archive it is about, and if that is no tar, what its first bytes show it to be.
func (p *part) insideOf(m *formats.TarMember, err error) error {
	var place *formats.WalkError
	if !errors.As(err, &place) {
		return at(fmt.Errorf("%w (in the archive %.80q in it)", err, m.Name), m.Header)
	}
	head := make([]byte, min(m.Size, formats.TarBlock))
	if n, _ := p.file.ReadAt(head, m.Offset); n == len(head) && place.Offset == m.Offset {
		found := kindOfHead(head)
		if found.name == "" {
			found = kindOfUnread(string(head))
		}
		if found.name != "" && found.name != "tar" {
			says := cmp.Or(found.refused, "extract it")
			return &formats.WalkError{Offset: m.Offset, Err: fmt.Errorf("%w: the archive %.80q in it is %s and no tar; %s", formats.ErrUnsupported, m.Name, found.name, says)}
		}
	}
	return &formats.WalkError{Offset: place.Offset, Err: fmt.Errorf("%w (in the archive %.80q in it)", place.Err, m.Name)}
}

// addInner notes the images of an inner archive, and returns how many links it ignored. An archive with other files
// beside its images is refused: it holds samples of WebDataset, and those files may have the labels.
func (p *part) addInner(w *formats.TarWalker, folder string) (links int, err error) {
	var folders tarFolders
	archive := ""
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
			if archive == "" && isArchive(m.Name) && !isDesktops(m.Name) {
				archive = strings.Clone(m.Name)
			}
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
	if len(folders.images) == 0 && archive != "" {
		return links, fmt.Errorf("%w: it holds archives, as %.80q, and archives inside of archives inside of an archive are not read; extract it and open it by itself", formats.ErrUnsupported, archive)
	}
	if len(folders.images) > 0 && !folders.arePlain() {
		return links, fmt.Errorf("%w: other files lie beside its images, as in samples of WebDataset; extract it and open it by itself", formats.ErrUnsupported)
	}
	return links, nil
}

// archiveClasses returns the class folder of each archive if format="tar" says that they hold classes and none has a
// folder of its own: each archive is then a class, by its name. Otherwise it returns nil.
func archiveClasses(root string, parts []*part, shards []catalog.ShardInfo, o *Options) ([]string, error) {
	if o.Format != "tar" || len(parts) < 2 || slices.ContainsFunc(parts, (*part).hasFolders) {
		return nil, nil
	}
	classes, of := make([]string, len(parts)), make(map[string]string, len(parts))
	for n := range parts {
		name := shards[n].Name
		class := withoutTar(path.Base(name))
		// With cat/0.tar and dog/0.tar either the folders are the classes, or the archives are shards of WebDataset.
		if other, twice := of[class]; twice {
			return nil, catalog.NewError(fault.KindUnsupported, where(root, shards), "the archives %q and %q would both be the class %q; each needs a name of its own, as %q", other, name, class, "CLASS.tar")
		}
		of[class], classes[n] = name, class+"/"
	}
	return classes, nil
}

// hasFolders is true if any key has a slash.
func (p *part) hasFolders() bool {
	for i := range p.keys.Len() {
		if slices.Contains(p.keys.Bytes(i), '/') {
			return true
		}
	}
	return false
}

// orArchives returns the end of the warning that several tars which hold only images have no labels.
func orArchives(t *catalog.Table, all []*column, parts []*part) string {
	if t.Source.Format != "webdataset" || len(parts) < 2 || slices.ContainsFunc(parts, (*part).hasFolders) ||
		slices.ContainsFunc(all, func(c *column) bool { return c.images == 0 }) {
		return ""
	}
	return "; if each archive is a class, format=\"tar\" says so"
}

// orInnerTars returns the end of the error that a tar has no image, if it has tars beside other files. Whether these are
// a licence or hold the labels of the tars, only the user knows.
func orInnerTars(t *catalog.Table, all []*column, o *Options) string {
	isTar := func(c *column) bool { return folderOf("x."+c.name) != "" }
	if t.Source.Format != "webdataset" || o.Format != "" || !slices.ContainsFunc(all, isTar) {
		return ""
	}
	return "; if each tar in it is a class, format=\"tar\" reads them and passes over the other files"
}
