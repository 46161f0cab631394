package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MemberName returns the name of a key's tar member, without extension. Every reader of WebDataset's kind splits a
// member's name at the first dot of its last part and skips names in double underscores, and some have problems with
// blanks. So only letters, digits and a few signs are kept, and all other bytes become %XX. This can be reversed,
// because a per cent sign is escaped too.
// A name too long for a ustar header becomes "~/" and a hash, which no escaped name can be. The index has the original
// key.
func MemberName(key string, extension int) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		// A part that begins with two underscores is metadata to WebDataset; escaping one of them is enough.
		start := i == 0 || key[i-1] == '/'
		if plainByte(c) && !(start && (c == '/' || c == '_')) {
			b.WriteByte(c)
			continue
		}
		writeEscape(&b, c)
	}
	name := b.String()
	if strings.HasSuffix(name, "/") {
		name = name[:len(name)-1] + "%2F"
	}
	if _, _, ok := splitName(name + strings.Repeat("x", 1+extension)); ok {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return "~/" + hex.EncodeToString(sum[:16])
}

func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("/_-+=@,", c) >= 0
}

// MemberExtension returns a file's extension as tar members have it: in lower case, or fallback if no reader could use
// it ("cls" would be taken for the label).
func MemberExtension(path, fallback string) string {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 || Key(path) == path {
		return fallback
	}
	ext := strings.ToLower(path[dot+1:])
	// A long extension would leave no room for the name in a header.
	if ext == "" || ext == "cls" || len(ext) > 16 {
		return fallback
	}
	for i := range len(ext) {
		if c := ext[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9') {
			return fallback
		}
	}
	return ext
}
