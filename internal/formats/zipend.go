package formats

import (
	"encoding/binary"
	"io"
)

// zipEndBytes is the size of the record that ends a zip archive without a comment (APPNOTE.TXT 4.3.16).
const zipEndBytes = 22

// EndsAsZip is true for a file that ends like an archive without a comment. Something may come before the archive, as
// in one that extracts itself; the places in its directory count from where the archive begins. inParts is true for the
// last of several files, whose members may be in the others.
func EndsAsZip(r io.ReaderAt, size int64) (ends, inParts bool) {
	var end [zipEndBytes]byte
	if size < zipEndBytes || readAt(r, end[:], size-zipEndBytes) != nil || string(end[:4]) != "PK\x05\x06" || string(end[zipEndBytes-2:]) != "\x00\x00" {
		return false, false
	}
	le := binary.LittleEndian
	return true, le.Uint16(end[4:]) != 0 || le.Uint16(end[6:]) != 0 || le.Uint16(end[8:]) != le.Uint16(end[10:])
}
