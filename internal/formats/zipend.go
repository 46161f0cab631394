package formats

import (
	"encoding/binary"
	"io"
)

// zipEndBytes are those of the record that ends a zip archive without a comment (APPNOTE.TXT 4.3.16).
const zipEndBytes = 22

// EndsAsZip is true of a file that ends as an archive without a comment does: something may stand before it, as in one
// that extracts itself, and the places in its directory count from where the archive begins. In parts, it is the last of
// several files, and its members may lie in the others.
func EndsAsZip(r io.ReaderAt, size int64) (ends, inParts bool) {
	var end [zipEndBytes]byte
	if size < zipEndBytes || readAt(r, end[:], size-zipEndBytes) != nil || string(end[:4]) != "PK\x05\x06" || string(end[zipEndBytes-2:]) != "\x00\x00" {
		return false, false
	}
	le := binary.LittleEndian
	return true, le.Uint16(end[4:]) != 0 || le.Uint16(end[6:]) != 0 || le.Uint16(end[8:]) != le.Uint16(end[10:])
}
