package scan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/formats"
)

// packInstead advises to pack whatever a Python program can read.
const packInstead = "; a dataset of files or bytes that Python reads can be packed with headrace.pack"

// unread has the containers that are recognised by their first bytes but not read.
// Each text says why, or how to make a file of it that is read.
var unread = []struct {
	magic string
	kind
}{
	{"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", kind{name: "arrayrecord", refused: "ArrayRecord (Riegeli) interrupts what it stores every 64 KiB and compresses it, and is not read" + packInstead}},
	{"SQLite format 3\x00", kind{name: "sqlite", refused: "a database of SQLite is not read" + packInstead, beside: true}},
	{"Obj\x01", kind{name: "avro", refused: "Avro is not read" + packInstead}},
	{"ORC", kind{name: "orc", refused: "ORC is not read" + packInstead}},
	{"FEA1", kind{name: "feather", refused: "Feather of version 1 is not read; pyarrow.feather.write_feather makes version 2 of it, which is"}},
	{"BZh", kind{name: "bzip2", refused: wholly("bzip2")}},
	{"\xfd7zXZ\x00", kind{name: "xz", refused: wholly("xz")}},
	{"7z\xbc\xaf\x27\x1c", kind{name: "7z", refused: "7z compresses many files as one, which leaves no way to one of them; extract it first"}},
	{"version https://git-lfs.github.com/spec/", kind{name: "git lfs", refused: "this is a pointer of Git LFS, and not the file itself; git lfs pull fetches that"}},
	{"Rar!\x1a\x07", kind{name: "rar", refused: "RAR is not read; extract it first"}},
}

// withWayOut adds packInstead to the refusal of a container's contents.
// An error that has it already is returned unchanged.
func withWayOut(err error) error {
	if !errors.Is(err, formats.ErrUnsupported) || strings.Contains(err.Error(), "headrace.pack") {
		return err
	}
	if place := (*formats.WalkError)(nil); errors.As(err, &place) {
		return &formats.WalkError{Offset: place.Offset, Err: fmt.Errorf("%w%s", place.Err, packInstead)}
	}
	return fmt.Errorf("%w%s", err, packInstead)
}

// wholly makes the refusal of a file that is compressed as a whole: no sample has a place of its own in it.
func wholly(codec string) string {
	return "the file is compressed by " + codec + " as a whole, which leaves no way to one sample; decompress it first"
}

// pickles has the beginnings of pickles: the opcode PROTO and the number of the protocol.
// This covers protocols 2 to 5 (pickletools, PROTO); 0 and 1 have no magic.
var pickles = []string{"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}

// kindOfUnread returns the kind of a container that is not read, without a name if the kind is unknown.
func kindOfUnread(head string) kind {
	for _, u := range unread {
		if strings.HasPrefix(head, u.magic) {
			return u.kind
		}
	}
	for _, magic := range pickles {
		if strings.HasPrefix(head, magic) {
			return kind{name: "pickle", refused: "a pickle can run any code when it is read, so it never is" + packInstead, beside: true}
		}
	}
	return kind{}
}
