package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/fault"
)

// schemes of addresses, as they begin.
var schemes = []string{"s3", "gs", "az", "http", "https", "hf"}

// address is a URL taken apart. Of a store's own scheme the path is the object's key as it is, as the
// stores' own tools read it: nothing in it is an escape, and it has no query. http and https are what
// RFC 3986 says.
type address struct {
	scheme string
	host   string   // bucket or container; of http and https host and port
	path   string   // key, without the slash before it; of hf "datasets/ORG/NAME[@REV]/PATH"
	web    *url.URL // of http and https
}

// IsURL says whether a text is an address that Open takes, by how it begins.
// A path of a file may hold "://" as well; what stands before that has to be one of the schemes.
func IsURL(text string) bool {
	_, _, found := cutScheme(text)
	return found
}

// cutScheme is an address's scheme in lower case, for case means nothing in one (RFC 3986, 3.1), and what
// stands behind its "://".
// It does not validate: a text that begins so is meant as an address, and parse says what is wrong with it.
func cutScheme(text string) (scheme, rest string, found bool) {
	scheme, rest, _ = strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	return scheme, rest, len(scheme)+len("://")+len(rest) == len(text) && slices.Contains(schemes, scheme)
}

// Normal is an address with its scheme in lower case, by which addresses are compared and told apart. What is
// no address stands as it is.
// Host and path stay as they are, for keys of stores are case-sensitive.
func Normal(text string) string {
	if scheme, rest, found := cutScheme(text); found {
		return scheme + "://" + rest
	}
	return text
}

// Display is the address for texts: without query, fragment, name and password. What is no address
// stands as it is.
// It never fails: a text that goes into an error is to be shown whatever it is.
func Display(text string) string {
	if a, err := parse(text); err == nil {
		return a.display()
	}
	scheme, rest, found := cutScheme(text)
	if !found {
		return text
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	return scheme + "://" + host + "/" + path
}

// What is refused is not repeated where it may hold a password (RFC 3986, 3.2.1) or a signature.
func parse(text string) (address, error) {
	scheme, rest, found := cutScheme(text)
	refuse := func(expected string) (address, error) {
		shown := text
		if found && (strings.HasPrefix(scheme, "http") || strings.Contains(rest, "@")) {
			shown = scheme + "://..." // what cannot be taken apart may hold anything
		}
		return address{}, fault.New(fault.KindArgument, fault.Argument("the address", shown, expected))
	}
	switch {
	case !found:
		return refuse("one that begins with " + strings.Join(schemes, "://, ") + "://")
	case len(text) > mostURL:
		return address{}, fault.New(fault.KindLimit, fault.Sentence(nowhere, fault.Unsupported,
			fmt.Sprintf("an address has %d bytes (expected at most %d)", len(text), mostURL)))
	// A line's end in an address would be one in a request's head.
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("UTF-8 without control characters")
	}
	if scheme == "http" || scheme == "https" {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
			return refuse("one such as https://host/path")
		}
		// No part of what a server is asked for (RFC 9110, 7.1).
		u.Fragment, u.RawFragment = "", ""
		return address{scheme: scheme, host: u.Host, path: strings.TrimPrefix(u.Path, "/"), web: u}, nil
	}
	host, path, _ := strings.Cut(rest, "/")
	// Servers and what stands before them take these for folders, or refuse them.
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return refuse("a key that is neither . nor .. between two slashes")
		}
	}
	// The hub has models and spaces, too; images lie in datasets.
	if scheme == "hf" {
		if host != "datasets" {
			return refuse("hf://datasets/ORG/NAME[@REV]/PATH")
		}
		return address{scheme: scheme, host: host, path: path}, nil
	}
	// The bucket becomes a part of the host's name: with any of these the request, and its signature, would go
	// elsewhere.
	if host == "" || strings.ContainsAny(host, "?#@:%\\ ") {
		return refuse("one such as " + scheme + "://bucket/key")
	}
	return address{scheme: scheme, host: host, path: path}, nil
}

// An error about an address has no record and no offset.
var nowhere = fault.Place{Record: fault.None, Offset: fault.None}

// A key with letters that a URL would escape is shown as it is, as the stores' own tools show it.
func (a address) display() string {
	if a.web == nil {
		return a.scheme + "://" + a.host + "/" + a.path
	}
	return a.scheme + "://" + a.host + a.web.EscapedPath()
}

// key tells objects apart. Who asks and by which signature are no part of it, so that what a cache has is found with
// the next signature: the version, which stands beside a key, tells what is another object.
// A query without its signature is hashed rather than shown: keys of a cache are names of files.
func (a address) key() string {
	if a.web == nil {
		return a.display()
	}
	query := unsignedQuery(a.web.RawQuery)
	if query == "" {
		return a.display()
	}
	hash := sha256.Sum256([]byte(query))
	return a.display() + "?" + hex.EncodeToString(hash[:])
}

// Join is the address of what a relative name means below a prefix: of a name in an index, which is
// hostile. It stays below the prefix, on its host and with its query.
// A name in an index is checked here a second time, although the index's reader has: no request leaves the folder.
func Join(prefix, relative string) (string, error) {
	a, err := parse(prefix)
	if err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(relative, "/") {
		if part == "" || part == "." || part == ".." {
			return "", outside(a, relative)
		}
	}
	if !utf8.ValidString(relative) || strings.ContainsFunc(relative, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) {
		return "", outside(a, relative)
	}
	if a.web != nil {
		below := *a.web
		below.Path, below.RawPath = strings.TrimSuffix(below.Path, "/")+"/"+relative, ""
		// A presigned prefix may be escaped in its own way, which the signature is of.
		if escaped := a.web.EscapedPath(); escaped != (&url.URL{Path: a.web.Path}).EscapedPath() {
			below.RawPath = strings.TrimSuffix(escaped, "/") + "/" + (&url.URL{Path: relative}).EscapedPath()
		}
		return below.String(), nil
	}
	return strings.TrimSuffix(Normal(prefix), "/") + "/" + relative, nil
}

// outside is a fault of the index that has such a name, and no wrong argument of the caller's.
func outside(a address, relative string) error {
	return &Error{URL: a.display(), Kind: fault.KindBadFile, offset: fault.None,
		Text: fault.Argument("a name below it", relative, "parts between slashes, none of them empty, . or ..")}
}
