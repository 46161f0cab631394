package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MemberName is the name of a key's tar member without extension. Every reader of WebDataset's
// kind splits a member at the first dot of its last part, skips names in double underscores,
// and some stumble over blanks: so only letters, digits and a few signs stand for themselves
// and all other bytes become %XX. The mapping is reversible (a per cent sign is escaped too);
// a name too long for a ustar header becomes "~/" and a hash, which no escaped name can be. The
// index keeps the true key.
func MemberName(key string, extension int) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		// A part that begins with two underscores is metadata to WebDataset; one is enough to escape.
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

// MemberExtension is a file's extension as tar members carry it: in lower case, or fallback
// where it is none that a reader could use ("cls" would be taken for the label).
func MemberExtension(path, fallback string) string {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 || Key(path) == path {
		return fallback
	}
	ext := strings.ToLower(path[dot+1:])
	// And a long one would leave no room for the name in a header.
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
