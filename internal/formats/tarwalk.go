package formats

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// errSparse refuses a member of which the archive leaves out the zeros (GNU tar, "Storing Sparse Files").
var errSparse = fmt.Errorf("%w: a sparse member, which tar --sparse writes without its zeros; write the archive without that option", ErrUnsupported)

// TarMember is one regular file of an archive, or a link if links are asked for.
type TarMember struct {
	Name   string
	Header int64 // offset of its header block
	Offset int64 // offset of its content
	Size   int64

	Link     string // the name that a link leads to; "" for a file
	Symbolic bool   // the name is relative to the link's folder, and not to the archive's root
}

// TarWalker lists the members of an archive of `size` bytes by reading headers alone. Names are limited to MaxNameBytes
// and pax headers to 1 MiB; nothing is kept from one member to the next.
type TarWalker struct {
	r         io.ReaderAt
	size, at  int64
	begin     int64 // start of an archive inside another one, whose end is at size
	ended     bool
	namesOnly bool
	links     bool
	block     [TarBlock]byte
}

const maxPaxBytes = 1 << 20

// NewTarWalker begins at the start of an archive.
func NewTarWalker(r io.ReaderAt, size int64) *TarWalker { return &TarWalker{r: r, size: size} }

// NewForeignTarWalker is for archives of other programs, whose names are never opened or written. Names may lead
// anywhere, and links and devices are ignored, as in WebDataset.
func NewForeignTarWalker(r io.ReaderAt, size int64) *TarWalker {
	return &TarWalker{r: r, size: size, namesOnly: true}
}

// Inner walks an archive that is a member of this one. Its places are those in the outer file.
func (w *TarWalker) Inner(m *TarMember) *TarWalker {
	return &TarWalker{r: w.r, at: m.Offset, begin: m.Offset, size: m.Offset + m.Size, namesOnly: w.namesOnly}
}

// KeepLinks makes Next yield hard and symbolic links as well, which have no content.
func (w *TarWalker) KeepLinks() { w.links = true }

// Behind returns where something follows the block of zeros that ended the walk, -1 if nothing does. Two archives in
// one file are an example; Python's tarfile, like this walker, reads only the first. It checks a stretch of 1 MiB.
func (w *TarWalker) Behind() int64 {
	const most = 1 << 20
	end := min(w.size, w.at+most)
	for at := w.at; w.ended && at+TarBlock <= end; at += TarBlock {
		if w.read(w.block[:], at) != nil {
			break
		}
		if w.block != [TarBlock]byte{} {
			return at
		}
	}
	return -1
}

// End returns, after io.EOF, where the walk stopped, and whether there was a block of zeros.
func (w *TarWalker) End() (offset int64, marked bool) { return w.at, w.ended }

// Next returns the next regular file, io.EOF after the last. Directories are ignored. Links, devices and sparse files
// are unsupported, because their bytes are elsewhere or in pieces. In a foreign archive all of these except sparse
// files are ignored, as by Python's tarfile.
func (w *TarWalker) Next() (TarMember, error) {
	m := TarMember{Header: w.at}
	var long paxNames // names that a pax or GNU header gives to the next member
	for {
		block, err := w.header()
		if err != nil {
			return TarMember{}, err
		}
		at := w.at
		size, err := tarSize.number(block)
		if err != nil {
			return TarMember{}, w.wrong(at, err)
		}
		kind := block[tarType]
		if kind == '5' || w.namesOnly && kind >= '1' && kind <= '6' {
			size = 0 // Some writers put a size here, but no content follows.
		}
		content := at + TarBlock
		// The numbers from the file are not added, because a sum could overflow.
		if size > w.size-content || padding(size) > w.size-content-size {
			return TarMember{}, w.wrong(at, fmt.Errorf("%w: a content of %d bytes ends behind the archive's %d", ErrTruncated, size, w.size-w.begin))
		}
		w.at = content + size + padding(size)
		switch kind {
		case 'x', 'X', 'g', 'L', 'K': // X is Solaris's type for x
			// Our own archives have neither, and no links, which could have long names.
			if (kind == 'K' || kind == 'X') && !w.namesOnly {
				return TarMember{}, w.wrong(at, fmt.Errorf("%w: a member of type %q", ErrUnsupported, kind))
			}
			extra, err := w.extra(kind, content, size)
			if err != nil {
				return TarMember{}, w.wrong(at, err)
			}
			// A global header applies to all later members, and no path can be that of all.
			if kind != 'g' {
				long = paxNames{cmp.Or(extra.path, long.path), cmp.Or(extra.link, long.link)}
			}
			continue
		case '5':
			long, m.Header = paxNames{}, w.at
			continue
		case '0', '\x00', '7':
		default:
			if kind == 'S' {
				return TarMember{}, w.wrong(at, errSparse)
			}
			if !w.namesOnly {
				return TarMember{}, w.wrong(at, fmt.Errorf("%w: a member of type %q", ErrUnsupported, kind))
			}
			if w.links && (kind == '1' || kind == '2') {
				m.Link, m.Symbolic = cmp.Or(long.link, tarLink.text(block)), kind == '2'
				m.Name, m.Offset = cmp.Or(long.path, headerName(block)), content
				if w.checkName(m.Name) == nil && w.checkName(m.Link) == nil {
					return m, nil
				}
				m = TarMember{}
			}
			long, m.Header = paxNames{}, w.at
			continue
		}
		// If a longer name comes before the header, the name in the header is cut or has other letters.
		m.Name, m.Offset, m.Size = long.path, content, size
		if m.Name == "" {
			m.Name = headerName(block)
		}
		if err := w.checkName(m.Name); err != nil {
			return TarMember{}, w.wrong(at, err)
		}
		if strings.HasSuffix(m.Name, "/") {
			if kind != '\x00' {
				return TarMember{}, w.wrong(at, fmt.Errorf("%w: the name %.80q of a regular file ends in a slash", ErrBad, m.Name))
			}
			// Version 7 of Unix had no type for directories. Like other directories, this one has no content.
			w.at = content
			long, m.Header = paxNames{}, w.at
			continue
		}
		return m, nil
	}
}

// header reads the block at w.at; a block of zeros or the end of the file gives io.EOF.
func (w *TarWalker) header() ([]byte, error) {
	if w.ended || w.at == w.size {
		return nil, io.EOF
	}
	if w.size-w.at < TarBlock {
		return nil, w.wrong(w.at, fmt.Errorf("%w: a header of %d bytes", ErrTruncated, w.size-w.at))
	}
	block := w.block[:]
	if err := w.read(block, w.at); err != nil {
		return nil, err
	}
	if w.block == [TarBlock]byte{} {
		w.ended = true
		return nil, io.EOF
	}
	if !hasChecksum(block) {
		unsigned, _ := checksums(block)
		return nil, w.wrong(w.at, fmt.Errorf("%w: a header whose checksum is not %06o", ErrBad, unsigned))
	}
	return block, nil
}

// read fills b. The size was known before, so a short read means that the file has changed.
func (w *TarWalker) read(b []byte, at int64) error {
	n, err := w.r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: the archive was cut while it was read", ErrTruncated)
	}
	return w.wrong(at, err)
}

// paxNames are the names that a header gives to the next member; "" if it gives none.
type paxNames struct{ path, link string }

// extra reads the content of a header that describes the next member: its names, if any.
func (w *TarWalker) extra(kind byte, at, size int64) (paxNames, error) {
	if size > maxPaxBytes {
		return paxNames{}, fmt.Errorf("%w: an extended header of %d bytes (expected at most %d)", ErrLimit, size, maxPaxBytes)
	}
	content := make([]byte, size)
	if err := w.read(content, at); err != nil {
		return paxNames{}, err
	}
	// GNU's long names end with a NUL.
	name, _, _ := strings.Cut(string(content), "\x00")
	switch kind {
	case 'L':
		return paxNames{path: name}, nil
	case 'K':
		return paxNames{link: name}, nil
	}
	return namesOfPax(string(content))
}

// namesOfPax goes through records "LENGTH KEY=VALUE\n". It refuses a size or a sparse map, because then the header's
// size is not that of the content.
func namesOfPax(s string) (names paxNames, err error) {
	for s != "" {
		digits, _, ok := strings.Cut(s, " ")
		n, err := strconv.ParseUint(digits, 10, 31)
		// The length counts its own digits, the blank and the end of the line.
		if !ok || err != nil || n <= uint64(len(digits))+1 || n > uint64(len(s)) || s[n-1] != '\n' {
			return names, fmt.Errorf("%w: a pax record that begins with %.20q", ErrBad, s)
		}
		key, value, ok := strings.Cut(s[len(digits)+1:n-1], "=")
		if !ok || key == "" {
			return names, fmt.Errorf("%w: a pax record without key or '='", ErrBad)
		}
		switch {
		case key == "path":
			names.path = value
		case key == "linkpath":
			names.link = value
		// Python's tarfile writes a size only for members of 8 GiB and more.
		case strings.HasPrefix(key, "GNU.sparse."):
			return names, errSparse
		case key == "size":
			return names, fmt.Errorf("%w: the pax record %.40q", ErrUnsupported, key)
		}
		s = s[n:]
	}
	return names, nil
}

// headerName returns the name in the header block itself.
func headerName(block []byte) string {
	name := tarName.text(block)
	// GNU's older format has something else in the place of POSIX's prefix.
	if string(tarMagic.of(block)[:6]) == ustarMagic[:6] {
		if prefix := tarPrefix.text(block); prefix != "" {
			return prefix + "/" + name
		}
	}
	return name
}

// checkName refuses names that could lead a careless user out of a folder (GODEBUG=tarinsecurepath=0 does the same for
// archive/tar).
func (w *TarWalker) checkName(name string) error {
	switch {
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: a name of %d bytes (expected at most %d)", ErrLimit, len(name), MaxNameBytes)
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: the name %.80q is no name", ErrBad, name)
	case !w.namesOnly && !filepath.IsLocal(name):
		return fmt.Errorf("%w: the name %.80q leads out of the archive", ErrBad, name)
	}
	return nil
}

// WalkError says where in an archive a walk stopped.
type WalkError struct {
	Offset int64
	Err    error
}

func (e *WalkError) Error() string { return fmt.Sprintf("at byte %d: %v", e.Offset, e.Err) }
func (e *WalkError) Unwrap() error { return e.Err }

// wrong adds the place to an error that has none.
func (w *TarWalker) wrong(at int64, err error) error {
	var already *WalkError
	if errors.As(err, &already) {
		return err
	}
	return &WalkError{at, err}
}
