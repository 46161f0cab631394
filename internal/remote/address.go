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

// schemes are the schemes that an address may have.
var schemes = []string{"s3", "gs", "az", "http", "https", "hf"}

// address is a URL in its parts. With a store's own scheme, the path is the object's key unchanged, as the store's own
// tools read it: it has no escapes and no query. With http and https the URL follows RFC 3986.
type address struct {
	scheme string
	host   string   // bucket or container; with http and https, host and port
	path   string   // key, without the slash before it; with hf "datasets/ORG/NAME[@REV]/PATH"
	web    *url.URL // with http and https; otherwise nil
}

// IsURL says whether a text begins like an address that Open takes.
// A path of a file may contain "://" as well, so the text before it must be one of the schemes.
func IsURL(text string) bool {
	_, _, found := cutScheme(text)
	return found
}

// cutScheme splits an address into its scheme, in lower case, and what follows "://". Case has no meaning in a scheme
// (RFC 3986, 3.1). cutScheme does not validate: a text that begins like this is meant as an address, and parse says
// what is wrong with it.
func cutScheme(text string) (scheme, rest string, found bool) {
	scheme, rest, _ = strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	return scheme, rest, len(scheme)+len("://")+len(rest) == len(text) && slices.Contains(schemes, scheme)
}

// Normal returns an address with its scheme in lower case, and with http and https without its fragment. Addresses are
// compared in this form. A text that is not an address is returned unchanged.
// Host and path are unchanged, because keys of stores are case-sensitive.
func Normal(text string) string {
	scheme, rest, found := cutScheme(text)
	if !found {
		return text
	}
	// A fragment names nothing on a server and is not sent to it (RFC 9110, 7.1). In a store's key # is a character.
	if scheme == "http" || scheme == "https" {
		rest, _, _ = strings.Cut(rest, "#")
	}
	return scheme + "://" + rest
}

// Display returns an address for messages: without query, fragment, name and password. A text that is not an address is
// returned unchanged.
// It never fails, because an error must be able to show any text.
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

// parse splits an address and checks it. Its error does not repeat a text that may hold a password (RFC 3986, 3.2.1) or
// a signature.
func parse(text string) (address, error) {
	scheme, rest, found := cutScheme(text)
	refuse := func(expected string) (address, error) {
		shown := text
		if found && (strings.HasPrefix(scheme, "http") || strings.Contains(rest, "@")) {
			shown = scheme + "://..." // a text that cannot be parsed may hold anything
		}
		return address{}, fault.New(fault.KindArgument, fault.Argument("the address", shown, expected))
	}
	switch {
	case !found:
		return refuse("one that begins with " + strings.Join(schemes, "://, ") + "://")
	case len(text) > mostURL:
		return address{}, fault.New(fault.KindLimit, fault.Sentence(nowhere, fault.Unsupported,
			fmt.Sprintf("an address has %d bytes (expected at most %d)", len(text), mostURL)))
	// A line end in an address would end a line of the request's head.
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("UTF-8 without control characters")
	}
	if scheme == "http" || scheme == "https" {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
			return refuse("one such as https://host/path")
		}
		// The fragment is not sent to a server (RFC 9110, 7.1).
		u.Fragment, u.RawFragment = "", ""
		return address{scheme: scheme, host: u.Host, path: strings.TrimPrefix(u.Path, "/"), web: u}, nil
	}
	host, path, _ := strings.Cut(rest, "/")
	// Servers, and proxies in front of them, take these for folders or refuse them.
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return refuse("a key that is neither . nor .. between two slashes")
		}
	}
	// The hub has models and spaces as well, but images are in datasets.
	if scheme == "hf" {
		if host != "datasets" {
			return refuse("hf://datasets/ORG/NAME[@REV]/PATH")
		}
		return address{scheme: scheme, host: host, path: path}, nil
	}
	// The bucket becomes a part of the host's name. With any of these characters the request and its signature would go to
	// another host.
	if host == "" || strings.ContainsAny(host, "?#@:%\\ ") {
		return refuse("one such as " + scheme + "://bucket/key")
	}
	return address{scheme: scheme, host: host, path: path}, nil
}

// nowhere is the place of an error about an address, which has no record and no offset.
var nowhere = fault.Place{Record: fault.None, Offset: fault.None}

// display shows a key unescaped, even if it has letters that a URL would escape, because the stores' own tools do so.
func (a address) display() string {
	if a.web == nil {
		return a.scheme + "://" + a.host + "/" + a.path
	}
	return a.scheme + "://" + a.host + a.web.EscapedPath()
}

// key distinguishes objects. It leaves out who asks and with which signature, so that a cache still finds an object
// under its next signature. The version is kept beside the key and distinguishes another object at the same address.
// What remains of a query is hashed, because keys of a cache become names of files.
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

// Join returns the address of a relative name below a prefix. The name comes from an index and is hostile. The result
// stays below the prefix, on its host and with its query.
// The index's reader has checked the name already. It is checked again here so that no request can leave the folder.
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
		// A presigned prefix may be escaped in its own way, and the signature covers that form.
		if escaped := a.web.EscapedPath(); escaped != (&url.URL{Path: a.web.Path}).EscapedPath() {
			below.RawPath = strings.TrimSuffix(escaped, "/") + "/" + (&url.URL{Path: relative}).EscapedPath()
		}
		return below.String(), nil
	}
	return strings.TrimSuffix(Normal(prefix), "/") + "/" + relative, nil
}

// outside makes the error of a name that leads out of the prefix. The index is at fault, and not the caller's argument.
func outside(a address, relative string) error {
	return &Error{URL: a.display(), Kind: fault.KindBadFile, offset: fault.None,
		Text: fault.Argument("a name below it", relative, "parts between slashes, none of them empty, . or ..")}
}
