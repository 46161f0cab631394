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

// LMDB walks the entries of an environment of version 1 (lmdb 0.9: mdb.c, "Page header", "Node structure",
// MDB_meta), read-only and without its lock: whoever writes meanwhile makes the walk, and any place that it
// found, worthless. A named database is walked where it is asked for, or the only one.
type LMDB struct {
	r           io.ReaderAt
	size        int64
	page        int64  // bytes of a page
	pages       int64  // that are not used yet: every page has one use, so loops and values that share pages end here
	transaction uint64 // the last
}

// LMDBEntry is a key and where its value lies.
type LMDBEntry struct {
	Key            string
	Offset, Length int64
}

const (
	lmdbMagic = 0xBEEFC0DE
	// pgno of 8 bytes, and pad, flags, lower and upper of 2 each (MDB_page).
	lmdbHeader     = 16 // of a page; the meta follows it
	lmdbNodeHeader = 8
	lmdbNone       = 1<<64 - 1 // the root of an empty database
	lmdbMostDepth  = 64

	lmdbBranch, lmdbLeaf, lmdbMeta = 1, 2, 8 // flags of pages
	lmdbBig, lmdbSub, lmdbDup      = 1, 2, 4 // flags of nodes
	lmdbDupSort, lmdbIntegerKey    = 4, 8    // flags of databases
)

// lmdbTree is MDB_db: what is needed of it.
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

// IsLaterLMDB recognises the first meta page of data format 2, that of LMDB 1.0: its header of a page has the number of a
// transaction more (MDB_page in mdb.master3), so that the meta stands 8 bytes further on.
func IsLaterLMDB(head []byte) bool {
	const meta = lmdbHeader + 8
	return len(head) >= meta+8 && binary.LittleEndian.Uint32(head[meta:]) == lmdbMagic && binary.LittleEndian.Uint32(head[meta+4:])&0xffff > 1
}

// WalkLMDB calls each for every entry, in the order of keys: of the database of that name, and without a name of
// the environment's own or of its only named one.
func WalkLMDB(r io.ReaderAt, size int64, name string, each func(LMDBEntry) error) error {
	w := &LMDB{r: r, size: size}
	tree, err := w.open()
	if err != nil {
		return err
	}
	w.pages = (size + w.page - 1) / w.page
	return w.environment(tree, name, each)
}

// LMDBTransaction is the number of an LMDB's last transaction, 0 of any other file and of one whose meta pages are
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

// open reads both meta pages and takes the one of the later transaction.
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
		// The system's page size where it was written: 4 KiB mostly, 16 KiB on Apple's machines.
		if page < 256 || page > 1<<16 || page&(page-1) != 0 || n == 1 && page != w.page {
			return tree, &WalkError{at, fmt.Errorf("%w: pages of %d bytes", ErrBad, page)}
		}
		w.page = page
		// Transactions write the two metas in turn, so that one is whole whenever a machine stops
		// (mdb_env_pick_meta).
		if txn := le.Uint64(b[metaBytes-8:]); n == 0 || txn > w.transaction {
			w.transaction, tree = txn, treeOf(b[24+lmdbTreeBytes:])
		}
	}
	return tree, nil
}

func treeOf(b []byte) lmdbTree {
	return lmdbTree{flags: binary.LittleEndian.Uint16(b[4:]), root: binary.LittleEndian.Uint64(b[40:])}
}

// DatabasesError says that one of several databases has to be chosen, or that there is none of the name that was.
type DatabasesError struct {
	Names []string // some of them, where there are many
	Own   bool     // the environment has entries of its own beside them
}

func (e *DatabasesError) Error() string {
	beside := ""
	if e.Own {
		beside = ", beside entries of the environment's own"
	}
	return fmt.Sprintf("the databases of the environment are %q%s", e.Names, beside)
}

// environment walks the main tree, where a named database is an entry whose value is a tree.
func (w *LMDB) environment(main lmdbTree, name string, each func(LMDBEntry) error) error {
	const most = 16 // more than enough to say what there is
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

// tree calls each for the entries of one tree, with the tree that an entry's value is.
func (w *LMDB) tree(tree lmdbTree, each func(LMDBEntry, *lmdbTree) error) error {
	// Several values of a key lie in pages of another form; no loader writes images so.
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
	// Unsigned, so that no number of a child becomes negative.
	if number >= uint64(w.size/w.page) {
		return wrong(-1, "page %d of %d", number, w.size/w.page)
	}
	at := int64(number) * w.page
	// A page that is its own child, or the child of two, ends here and not in hours.
	if w.pages--; w.pages < 0 || depth > lmdbMostDepth {
		return wrong(at, "the tree and its values use more pages than there are, or it is more than %d deep", lmdbMostDepth)
	}
	b := make([]byte, w.page)
	if err := readAt(w.r, b, at); err != nil {
		return &WalkError{at, err}
	}
	le := binary.LittleEndian
	flags, lower := le.Uint16(b[10:]), int64(le.Uint16(b[12:]))
	// Pages of a file that was written to since have other numbers or uses; node pointers are of two bytes.
	if le.Uint64(b) != number || flags != lmdbBranch && flags != lmdbLeaf || lower < lmdbHeader || lower > w.page || lower%2 != 0 {
		return wrong(at, "page %d says that it is page %d, of flags %#x with nodes up to %d", number, le.Uint64(b), flags, lower)
	}
	for place := int64(lmdbHeader); place < lower; place += 2 {
		node := int64(le.Uint16(b[place:]))
		if node < lower || node > w.page-lmdbNodeHeader {
			return wrong(at, "a node at %d of the page", node)
		}
		lo, hi, nodeFlags := le.Uint16(b[node:]), le.Uint16(b[node+2:]), le.Uint16(b[node+4:])
		// mn_ksize of MDB_node; the first key of a branch has none, and is not asked for.
		key, data := node+lmdbNodeHeader, node+lmdbNodeHeader+int64(le.Uint16(b[node+6:]))
		if data > w.page {
			return wrong(at+node, "a key that ends behind its page")
		}
		if flags == lmdbBranch { // which has no flags: they are bits of the child's number
			if err := w.visit(tree, uint64(lo)|uint64(hi)<<16|uint64(nodeFlags)<<32, depth+1, each); err != nil {
				return err
			}
			continue
		}
		e := LMDBEntry{Key: keyText(tree, b[key:data]), Offset: at + data, Length: int64(lo) | int64(hi)<<16}
		// Of a value on pages of its own the node has the number of the first one.
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
			// Pages of one value lie side by side, and only the first has a header: the value is one stretch of the
			// file.
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

// keyText is a key as text: a number where the database says so, else its bytes.
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
	// Of pixels: planes of rows, those of three channels in the order blue, green, red.
	Channels, Height, Width int64
}

// ReadDatum reads a value as a Datum; not ok if it is not one.
func ReadDatum(r io.ReaderAt, offset, length int64) (d Datum, ok bool, err error) {
	sides := [3]int64{}
	err = eachField(r, offset, offset+length, func(f wireField) error {
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
