package scan

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// zipMagic has the beginnings of a zip file with members, and of one without any (APPNOTE.TXT 4.3.7 and 4.3.16).
var zipMagic = []string{"PK\x03\x04", "PK\x05\x06"}

// These have no names in package archive/zip.
const (
	encrypted = 1 // bit 0 of a member's flags (APPNOTE.TXT 4.4.4)
	madeByDOS = 0 // the system that made a member, in the upper byte of its "version made by" (APPNOTE.TXT 4.4.2)
)

// scanZip notes every image file of a zip archive, by its central directory. The content of a member begins after its
// local header, whose length differs from what the directory says. A deflated member is a block of its own.
// Apart from the local headers of images nothing else of the archive is read.
func scanZip(p *part) error {
	// The library reads at places that a hostile directory names. The section makes a place outside the file the file's
	// end; the system's own error for it would look like an error of the disk.
	archive, err := zip.NewReader(io.NewSectionReader(p.file, 0, p.size), p.size)
	if err != nil && (archive == nil || !errors.Is(err, zip.ErrInsecurePath)) { // here names are only names
		// The library reads as well, so an error of the disk or the store is wrapped here and must stay recognisable.
		return fmt.Errorf("%w: the zip archive's directory: %w", formats.ErrBad, err)
	}
	// members[i] belongs to p.frames[i]; it is for the error of the check at the end.
	var members []*zip.File
	links := make(archiveLinks)
	for _, f := range archive.File {
		// macOS puts a file of attributes beside each image, under the image's own name.
		name := zipName(f)
		if f.Mode()&fs.ModeSymlink != 0 && f.Flags&encrypted == 0 {
			if err := links.addOfZip(f, name); err != nil {
				return err
			}
			continue
		}
		// This comes before method and flags, because members that are no images may be encrypted or compressed in any way.
		if !formats.HasImageExtension(name) || isDesktops(name) {
			p.noteArchive(name)
			continue
		}
		// The local header has its own lengths of name and extra field, which the directory does not know (APPNOTE.TXT
		// 4.3.7); in NumPy's files they differ from file to file.
		offset, err := f.DataOffset()
		if err != nil {
			return fmt.Errorf("%w: the member %.80q has no local header where the directory says: %w", formats.ErrBad, f.Name, err)
		}
		switch size := f.CompressedSize64; {
		case f.Flags&encrypted != 0:
			return at(fmt.Errorf("%w: the member %.80q is encrypted; extract the archive, which is a folder then", formats.ErrUnsupported, f.Name), offset)
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return at(fmt.Errorf("%w: the member %.80q is compressed by method %d (expected 0, stored, or 8, deflated; zip -0 stores)", formats.ErrUnsupported, f.Name, f.Method), offset)
		case f.Method == zip.Deflate && max(size, f.UncompressedSize64) > blocks.MostBytes:
			return at(fmt.Errorf("%w: the member %.80q of %d bytes, %d once it is decoded (expected at most %d)", formats.ErrLimit, f.Name, size, f.UncompressedSize64, int64(blocks.MostBytes)), offset)
		case f.Method == zip.Store && size != f.UncompressedSize64:
			return at(fmt.Errorf("%w: the stored member %.80q has two sizes, %d and %d", formats.ErrBad, f.Name, size, f.UncompressedSize64), offset)
		// The size is unsigned, and is compared before it is added to anything.
		case offset < 0 || offset > p.size || size > uint64(p.size-offset):
			return at(fmt.Errorf("%w: the member %.80q of %d bytes ends behind the archive's %d", formats.ErrTruncated, f.Name, size, p.size), offset)
		}
		if f.Method == zip.Deflate {
			p.blocks = append(grown(p.blocks, p.rows()), catalog.BlockPlace{Stored: uint32(f.CompressedSize64), Size: uint32(f.UncompressedSize64), Codec: blocks.Deflate})
		}
		links.drop(name)
		if err := p.addFile(name, offset, int64(f.UncompressedSize64)); err != nil {
			return at(err, offset)
		}
		// The frame is the stored bytes; the checksum is that of the decoded member (APPNOTE.TXT 4.4.7).
		p.frames = append(p.frames, catalog.Frame{Extent: catalog.Extent{Offset: offset, Length: int64(f.CompressedSize64)}, CRC: f.CRC32, IEEE: true})
		members = append(members, f)
	}
	// This check needs all frames, because the directory need not be in the order of the members' places.
	row, other := overlapping(p.frames)
	if row < 0 {
		return p.addLinksOfZip(links)
	}
	place := p.frames[row].Extent
	p.offset = p.offset[:row] // so that the error is about that row
	return at(fmt.Errorf("%w: the member %.80q of %d bytes lies over the member %.80q at %d", formats.ErrBad, members[row].Name, place.Length, members[other].Name, p.frames[other].Offset), place.Offset)
}

// addOfZip notes a symbolic link. Its content is the name that it leads to, as Info-ZIP's zip -y writes it.
func (l archiveLinks) addOfZip(f *zip.File, name string) error {
	wrong := func(err error) error {
		return fmt.Errorf("%w: the symbolic link %.80q: %w", formats.ErrBad, f.Name, err)
	}
	content, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return nil // the link leads nowhere, like one to no file
	}
	if err != nil {
		return wrong(err)
	}
	defer content.Close()
	to, err := io.ReadAll(io.LimitReader(content, formats.MaxNameBytes))
	if err != nil {
		return wrong(err)
	}
	return l.add(&formats.TarMember{Name: name, Link: string(to), Symbolic: true})
}

// addLinksOfZip notes the links that are images, with the places of the members that they lead to.
// It is called when all members are known, because a link may come before its file.
func (p *part) addLinksOfZip(links archiveLinks) error {
	if len(links) == 0 {
		return nil
	}
	rows := make(map[string]int)
	for i := range p.keys.Len() {
		rows[path.Clean(string(p.keys.Bytes(i)))] = int(i)
	}
	return p.eachLink(links, func(name, end string) (bool, error) {
		row, found := rows[end]
		if !found {
			return false, nil
		}
		if row < len(p.blocks) {
			p.blocks = append(grown(p.blocks, p.rows()), p.blocks[row])
		}
		p.frames = append(p.frames, p.frames[row])
		return true, p.addFile(name, p.offset[row], int64(p.length[row]))
	})
}

// zipName returns a member's name as text. A name that is not UTF-8 is in the code page of the first PCs (APPNOTE.TXT,
// appendix D), as for Python's zipfile. Names in UTF-8 without the flag for it come from Unix and macOS; unzip accepts
// them too. Older .NET writes backslashes between folders. Like unzip, this makes slashes of them if the name has none
// and the archive was made by MS-DOS or Windows. Elsewhere a backslash is a character of a name.
func zipName(f *zip.File) string {
	// In that code page every byte is a letter, so a wrong guess gives wrong letters but no error.
	name := f.Name
	if !utf8.ValidString(name) {
		if text, err := charmap.CodePage437.NewDecoder().String(name); err == nil {
			name = text
		}
	}
	if f.CreatorVersion>>8 == madeByDOS && !strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, "\\", "/")
	}
	return name
}

// overlapping finds a frame that begins before another one ends, -1 if there is none. Archives whose members overlap
// decode to far more than their size, and no tool writes them (Python's zipfile refuses them for that reason, too).
func overlapping(frames []catalog.Frame) (row, other int) {
	order := make([]int, len(frames))
	for i := range order {
		order[i] = i
	}
	byPlace := func(a, b int) int { return cmp.Or(cmp.Compare(frames[a].Offset, frames[b].Offset), cmp.Compare(a, b)) }
	if !slices.IsSortedFunc(order, byPlace) { // most archives are written in the order of their directory
		slices.SortFunc(order, byPlace)
	}
	for n, i := range order {
		if n > 0 && frames[i].Offset < frames[order[n-1]].Offset+frames[order[n-1]].Length {
			return i, order[n-1]
		}
	}
	return -1, -1
}
