package formats

import "io"

// zipEndBytes are those of the record that ends a zip archive without a comment (APPNOTE.TXT 4.3.16).
const zipEndBytes = 22

// EndsAsZip is true of a file that ends as an archive without a comment does: something may stand before it, as in one
// that extracts itself, and the places in its directory count from where the archive begins.
func EndsAsZip(r io.ReaderAt, size int64) bool {
	var end [zipEndBytes]byte
	return size >= zipEndBytes && readAt(r, end[:], size-zipEndBytes) == nil &&
		string(end[:4]) == "PK\x05\x06" && string(end[zipEndBytes-2:]) == "\x00\x00"
}
