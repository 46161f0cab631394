package formats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// LMDB walks the entries of an environment of version 1 (lmdb 0.9: mdb.c, "Page header", "Node structure", MDB_meta),
// read-only and without its lock. If a program writes meanwhile, the walk and all places that it found are invalid. A
// named database is walked if it is asked for, or if it is the only one.
type LMDB struct {
	r           io.ReaderAt
	size        int64
	page        int64  // size of a page
	pages       int64  // number of pages not used yet: each page has one use, so that loops and values that share pages end
	transaction uint64 // number of the last one
}

// LMDBEntry is a key and the place of its value.
type LMDBEntry struct {
	Key            string
	Offset, Length int64
}

const (
	lmdbMagic = 0xBEEFC0DE
	// A page's header is MDB_page: pgno of 8 bytes, and pad, flags, lower and upper of 2 each.
	lmdbHeader     = 16 // of a page; in a meta page the meta follows it
	lmdbNodeHeader = 8
	lmdbNone       = 1<<64 - 1 // the root of an empty database
	lmdbMostDepth  = 64

	lmdbBranch, lmdbLeaf, lmdbMeta = 1, 2, 8 // flags of pages
	lmdbBig, lmdbSub, lmdbDup      = 1, 2, 4 // flags of nodes
	lmdbDupSort, lmdbIntegerKey    = 4, 8    // flags of databases
)

// lmdbTree has the needed members of MDB_db.
type lmdbTree struct {
	flags uint16
	root  uint64
}

const lmdbTreeBytes = 48

// IsLMDB recognises the first meta page.
func IsLMDB(head []byte) bool {
	return len(head) >= lmdbHeader+8 && binary.LittleEndian.Uint32(head[lmdbHeader:]) == lmdbMagic &&
		binary.LittleEndian.Uint16(head[10:])&lmdbMeta != 0
}

// IsLaterLMDB recognises the first meta page of data format 2, that of LMDB 1.0. Its page header also has the number of
// a transaction (MDB_page in mdb.master3), so the meta comes 8 bytes later.
func IsLaterLMDB(head []byte) bool {
	const meta = lmdbHeader + 8
	return len(head) >= meta+8 && binary.LittleEndian.Uint32(head[meta:]) == lmdbMagic && binary.LittleEndian.Uint32(head[meta+4:])&0xffff > 1
}

// WalkLMDB calls each for every entry, in the order of keys. It walks the database of that name. Without a name it
// walks the environment's own entries, or its only named database.
func WalkLMDB(r io.ReaderAt, size int64, name string, each func(LMDBEntry) error) error {
	w := &LMDB{r: r, size: size}
	tree, err := w.open()
	if err != nil {
		return err
	}
	w.pages = (size + w.page - 1) / w.page
	return w.environment(tree, name, each)
}

// LMDBTransaction returns the number of an LMDB's last transaction; 0 for any other file, and if the meta pages are
// damaged.
func LMDBTransaction(r io.ReaderAt, size int64) (uint64, error) {
	var head [lmdbHeader + 8]byte
	if size < int64(len(head)) {
		return 0, nil
	}
	if err := readAt(r, head[:], 0); err != nil || !IsLMDB(head[:]) {
		return 0, err
	}
	w := &LMDB{r: r, size: size}
	_, err := w.open()
	for _, damaged := range []error{ErrBad, ErrTruncated, ErrUnsupported} {
		if errors.Is(err, damaged) {
			return 0, nil
		}
	}
	return w.transaction, err
}

// open reads both meta pages and uses the one of the later transaction.
func (w *LMDB) open() (tree lmdbTree, err error) {
	le := binary.LittleEndian
	const metaBytes = 24 + 2*lmdbTreeBytes + 16
	for n := range int64(2) {
		at := n*w.page + lmdbHeader
		b := make([]byte, metaBytes)
		if at > w.size-metaBytes {
			return tree, &WalkError{w.size, fmt.Errorf("%w: the file ends inside meta page %d", ErrTruncated, n)}
		}
		if err := readAt(w.r, b, at); err != nil {
			return tree, err
		}
		if le.Uint32(b) != lmdbMagic {
			return tree, &WalkError{at, fmt.Errorf("%w: meta page %d has no magic", ErrBad, n)}
		}
		if version := le.Uint32(b[4:]) & 0xffff; version != 1 {
			return tree, &WalkError{at, fmt.Errorf("%w: LMDB's data format %d (expected 1, that of LMDB 0.9)", ErrUnsupported, version)}
		}
		page := int64(le.Uint32(b[24:])) // md_pad of the first tree
		// This is the page size of the system that wrote it: mostly 4 KiB, 16 KiB on Apple's machines.
		if page < 256 || page > 1<<16 || page&(page-1) != 0 || n == 1 && page != w.page {
			return tree, &WalkError{at, fmt.Errorf("%w: pages of %d bytes", ErrBad, page)}
		}
		w.page = page
		// Transactions write the two metas in turn, so that one is complete whenever a machine stops (mdb_env_pick_meta).
		if txn := le.Uint64(b[metaBytes-8:]); n == 0 || txn > w.transaction {
			w.transaction, tree = txn, treeOf(b[24+lmdbTreeBytes:])
		}
	}
	return tree, nil
}

func treeOf(b []byte) lmdbTree {
	return lmdbTree{flags: binary.LittleEndian.Uint16(b[4:]), root: binary.LittleEndian.Uint64(b[40:])}
}

// DatabasesError says that one of several databases has to be chosen, or that none has the chosen name.
type DatabasesError struct {
	Names []string // only some of them, if there are many
	Own   bool     // the environment also has entries of its own
}

func (e *DatabasesError) Error() string {
	beside := ""
	if e.Own {
		beside = ", beside entries of the environment's own"
	}
	return fmt.Sprintf("the databases of the environment are %q%s", e.Names, beside)
}

// environment walks the main tree, in which a named database is an entry whose value is a tree.
func (w *LMDB) environment(main lmdbTree, name string, each func(LMDBEntry) error) error {
	const most = 16 // enough to show what there is
	found := &DatabasesError{}
	var chosen *lmdbTree
	err := w.tree(main, func(e LMDBEntry, sub *lmdbTree) error {
		switch {
		case sub == nil && name == "":
			found.Own = true
			return each(e)
		case sub == nil:
			found.Own = true
			return nil
		case len(found.Names) < most:
			found.Names = append(found.Names, e.Key)
		}
		if name == "" || e.Key == name {
			chosen = sub
		}
		return nil
	})
	switch {
	case err != nil || name == "" && found.Names == nil:
		return err
	case chosen == nil || name == "" && (found.Own || len(found.Names) > 1):
		return found
	}
	return w.tree(*chosen, func(e LMDBEntry, sub *lmdbTree) error {
		if sub != nil {
			return &WalkError{e.Offset, fmt.Errorf("%w: a database inside of a named one", ErrBad)}
		}
		return each(e)
	})
}

// tree calls each for the entries of one tree. If an entry's value is a tree, it passes that too.
func (w *LMDB) tree(tree lmdbTree, each func(LMDBEntry, *lmdbTree) error) error {
	// Several values of one key are stored in another form of pages; no program stores images like that.
	if tree.flags&lmdbDupSort != 0 {
		return fmt.Errorf("%w: a database with several values a key (dupsort)", ErrUnsupported)
	}
	if tree.root == lmdbNone {
		return nil
	}
	return w.visit(tree, tree.root, 0, each)
}

// visit goes through the pages below one, branches before leaves and keys in order.
func (w *LMDB) visit(tree lmdbTree, number uint64, depth int, each func(LMDBEntry, *lmdbTree) error) error {
	wrong := func(at int64, format string, a ...any) error {
		return &WalkError{at, fmt.Errorf("%w: "+format, append([]any{ErrBad}, a...)...)}
	}
	// The number is unsigned, so that no child's number becomes negative.
	if number >= uint64(w.size/w.page) {
		return wrong(-1, "page %d of %d", number, w.size/w.page)
	}
	at := int64(number) * w.page
	// The walk ends here if a page is its own child, or the child of two; otherwise it could take hours.
	if w.pages--; w.pages < 0 || depth > lmdbMostDepth {
		return wrong(at, "the tree and its values use more pages than there are, or it is more than %d deep", lmdbMostDepth)
	}
	b := make([]byte, w.page)
	if err := readAt(w.r, b, at); err != nil {
		return &WalkError{at, err}
	}
	le := binary.LittleEndian
	flags, lower := le.Uint16(b[10:]), int64(le.Uint16(b[12:]))
	// If the file was written to since, pages have other numbers or uses. Pointers to nodes have two bytes.
	if le.Uint64(b) != number || flags != lmdbBranch && flags != lmdbLeaf || lower < lmdbHeader || lower > w.page || lower%2 != 0 {
		return wrong(at, "page %d says that it is page %d, of flags %#x with nodes up to %d", number, le.Uint64(b), flags, lower)
	}
	for place := int64(lmdbHeader); place < lower; place += 2 {
		node := int64(le.Uint16(b[place:]))
		if node < lower || node > w.page-lmdbNodeHeader {
			return wrong(at, "a node at %d of the page", node)
		}
		lo, hi, nodeFlags := le.Uint16(b[node:]), le.Uint16(b[node+2:]), le.Uint16(b[node+4:])
		// mn_ksize of MDB_node is the key's size. The first key of a branch is empty, and is not used.
		key, data := node+lmdbNodeHeader, node+lmdbNodeHeader+int64(le.Uint16(b[node+6:]))
		if data > w.page {
			return wrong(at+node, "a key that ends behind its page")
		}
		if flags == lmdbBranch { // a branch has no flags: those bits belong to the child's number
			if err := w.visit(tree, uint64(lo)|uint64(hi)<<16|uint64(nodeFlags)<<32, depth+1, each); err != nil {
				return err
			}
			continue
		}
		e := LMDBEntry{Key: keyText(tree, b[key:data]), Offset: at + data, Length: int64(lo) | int64(hi)<<16}
		// If a value has its own pages, the node has the number of the first one.
		inline := e.Length
		if nodeFlags&lmdbBig != 0 {
			inline = 8
		}
		if inline > w.page-data {
			return wrong(at+node, "a value of %d bytes that ends behind its page", inline)
		}
		var sub *lmdbTree
		switch {
		case nodeFlags&lmdbDup != 0:
			return &WalkError{at + node, fmt.Errorf("%w: a key with several values (dupsort)", ErrUnsupported)}
		case nodeFlags&lmdbSub != 0 && e.Length != lmdbTreeBytes:
			return wrong(at+node, "a named database of %d bytes (expected %d)", e.Length, lmdbTreeBytes)
		case nodeFlags&lmdbSub != 0:
			found := treeOf(b[data:])
			sub = &found
		case nodeFlags&lmdbBig != 0:
			first := le.Uint64(b[data:])
			if first >= uint64(w.size/w.page) {
				return wrong(at+node, "a value on page %d of %d", first, w.size/w.page)
			}
			// The pages of one value are adjacent, and only the first has a header, so the value is one stretch of the file.
			if e.Offset = int64(first)*w.page + lmdbHeader; e.Length > w.size-e.Offset {
				return wrong(at+node, "a value of %d bytes on page %d ends behind the file", e.Length, first)
			}
			if w.pages -= (lmdbHeader + e.Length + w.page - 1) / w.page; w.pages < 0 {
				return wrong(at+node, "a value of %d bytes on page %d: the tree and its values use more pages than there are", e.Length, first)
			}
		}
		if err := each(e, sub); err != nil {
			return err
		}
	}
	return nil
}

// keyText returns a key as text: a number if the database says so, otherwise its bytes.
func keyText(tree lmdbTree, key []byte) string {
	if tree.flags&lmdbIntegerKey != 0 && len(key) == 8 {
		return strconv.FormatUint(binary.LittleEndian.Uint64(key), 10)
	}
	if tree.flags&lmdbIntegerKey != 0 && len(key) == 4 {
		return strconv.FormatUint(uint64(binary.LittleEndian.Uint32(key)), 10)
	}
	if strings.IndexByte(string(key), 0) >= 0 {
		return ""
	}
	return TextName(string(key))
}

// Datum is Caffe's record of an image (caffe.proto).
type Datum struct {
	Offset, Length int64 // of the image
	Label          int64
	Encoded        bool
	// For pixels: planes of rows. With three channels their order is blue, green, red.
	Channels, Height, Width int64
}

// ReadDatum reads a value as a Datum; ok is false if it is none.
func ReadDatum(r io.ReaderAt, offset, length int64) (d Datum, ok bool, err error) {
	sides := [3]int64{}
	err = (&wireReader{r: r}).eachField(offset, offset+length, func(f wireField) error {
		switch {
		case f.number >= 1 && f.number <= 3 && f.typ == protowire.VarintType && f.value <= 1<<20:
			sides[f.number-1] = int64(f.value)
		case f.number == 4 && f.typ == protowire.BytesType:
			d.Offset, d.Length = f.at, f.end-f.at
		case f.number == 5 && f.typ == protowire.VarintType:
			d.Label = int64(int32(f.value))
		case f.number == 7 && f.typ == protowire.VarintType:
			d.Encoded = f.value != 0
		default:
			return errEnough
		}
		return nil
	})
	d.Channels, d.Height, d.Width = sides[0], sides[1], sides[2]
	switch {
	case err != nil && !errors.Is(err, ErrBad) && !errors.Is(err, ErrLimit): // the file could not be read
		return d, false, err
	case err != nil || d.Length == 0 || !d.Encoded && d.Length != sides[0]*sides[1]*sides[2]:
		return d, false, nil
	}
	return d, true, nil
}
