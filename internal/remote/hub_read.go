package remote

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/headrace/headrace/internal/fault"
)

// head always asks the hub again, because a location that was kept may be old.
func (h *hubStore) head(ctx context.Context, a address) (int64, string, error) {
	found, err := h.locate(ctx, a, true)
	return found.size, found.version, err
}

// read reads from where the hub says the bytes are. That address may have expired, which is no failure of the file.
func (h *hubStore) read(ctx context.Context, a address, version string, size int64, p []byte, offset int64) (int, error) {
	// There are at most two attempts: with a location that was kept, and with a new one.
	for fresh := false; ; fresh = true {
		found, err := h.locate(ctx, a, fresh)
		switch {
		case err != nil:
			return 0, err
		// Size and version are compared as the hub states them, because the host that has the bytes may know neither.
		case found.size != size:
			return 0, changedSize(size, found.size)
		case version != "" && found.version != "" && found.version != version:
			return 0, changedVersion(version, found.version)
		}
		n, err := h.readAt(ctx, found, size, p, offset)
		// A signature may expire early, and a file may move. So the hub is asked once more where it is now.
		if f, ok := err.(*failure); !ok || fresh || found.direct ||
			(f.kind != fault.KindDenied && f.status != http.StatusNotFound && f.status != http.StatusGone) {
			return n, err
		}
	}
}

// readAt reads from a location. It names no version: the commit fixes the bytes, and their host has versions of its
// own.
func (h *hubStore) readAt(ctx context.Context, from location, size int64, p []byte, offset int64) (int, error) {
	to, err := url.Parse(from.url)
	if err != nil {
		return 0, &failure{kind: fault.KindBadFile, text: "the hub redirects to what is no address"}
	}
	web := newWebStore(h.client)
	if from.direct {
		web.follow = stay
		// The token is sent only if the hub has the bytes itself, and to no other host.
		web.sign = func(_ context.Context, r *http.Request) error {
			if h.token != "" {
				r.Header.Set("Authorization", "Bearer "+h.token)
			}
			return nil
		}
	}
	return web.read(ctx, address{scheme: to.Scheme, host: to.Host, web: to}, "", size, p, offset)
}

// list returns a page of the tree of a commit, below the folder that the prefix lies in. A page's token is its address.
// As with the other stores, the list has all levels below the prefix.
func (h *hubStore) list(ctx context.Context, a address, token string, found func(Entry) error) (next string, err error) {
	f, err := hubFileOf(a)
	if err != nil {
		return "", err
	}
	commit, err := h.commit(ctx, f)
	if err != nil {
		return "", err
	}
	root := strings.TrimSuffix(a.display(), f.path)
	if token == "" {
		// The hub lists a folder, but a prefix may end in the middle of a name.
		folder := f.path[:strings.LastIndexByte(f.path, '/')+1]
		token = h.endpoint + "/api/datasets/" + f.repo + "/tree/" + commit + "/" + escapedPath(strings.TrimSuffix(folder, "/")) + "?recursive=true"
	}
	// Go's library matches names of members regardless of case: type, oid, path, size, lfs.
	var page []struct {
		Type string
		OID  string
		Path string
		Size int64
		LFS  *struct {
			OID  string
			Size int64
		}
	}
	headers, err := h.json(ctx, token, &page)
	if err != nil {
		return "", noFile(f, err)
	}
	for _, one := range page {
		if one.Type != "file" || !strings.HasPrefix(one.Path, f.path) {
			continue
		}
		e := Entry{URL: strings.TrimSuffix(root, "/") + "/" + one.Path, Size: one.Size, Version: quoted(one.OID)}
		// In git a large file is a pointer, a text of a few lines; Size and OID would be those of the pointer.
		if one.LFS != nil {
			e.Size, e.Version = one.LFS.Size, quoted(one.LFS.OID)
		}
		if err := found(e); err != nil {
			return "", err
		}
	}
	// Several header lines of one name are one list (RFC 9110, 5.3).
	return h.nextPage(strings.Join(headers.Values("Link"), ", "), len(page))
}

// nextPage returns the address with rel="next" in a Link header (RFC 8288), or an empty text on the last page.
func (h *hubStore) nextPage(header string, entries int) (string, error) {
	for {
		_, after, found := strings.Cut(header, "<")
		if !found {
			return "", nil
		}
		// Links are separated by commas, but addresses and quoted texts may hold commas as well.
		target, after, _ := strings.Cut(after, ">")
		end := unquotedComma(after)
		parameters := after[:end]
		header = after[end:]
		if !strings.Contains(parameters, `rel="next"`) {
			continue
		}
		// The header is hostile: the address must be the hub's, and an empty page must not lead to another one.
		base, _ := url.Parse(h.endpoint)
		to, err := base.Parse(target)
		// The token will be sent to the next page's address.
		if err != nil || !h.isHub(to) || entries == 0 { // an empty page would make the list endless
			return "", &failure{kind: fault.KindBadFile, text: "the hub's list continues at another host, or without end"}
		}
		return to.String(), nil
	}
}

// unquotedComma returns where the first comma outside of quotes is, or the length of the text if there is none.
func unquotedComma(text string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '\\' && quoted: // the next character is meant literally (RFC 9110, 5.6.4)
			i++
		case text[i] == ',' && !quoted:
			return i
		}
	}
	return len(text)
}

func (h *hubStore) create(context.Context, address, int) (upload, error) {
	return nil, unsupported("datasets of the hub are only read")
}

func (h *hubStore) remove(context.Context, address) error {
	return unsupported("datasets of the hub are only read")
}

func changedVersion(expected, found string) error {
	return &failure{kind: fault.KindChanged, text: "it was replaced after it was opened or indexed (expected version " + short(expected) + ", found " + short(found) + ")"}
}

// short cuts a version for a sentence, because a server may make it of any length.
func short(text string) string { return text[:min(len(text), 100)] }

// quoted returns an ETag with quotes, as headers have it; lists leave them out.
// Versions from lists and from answers are compared as texts, so both need the quotes.
func quoted(tag string) string {
	if tag == "" || strings.HasPrefix(tag, `"`) || strings.HasPrefix(tag, "W/") {
		return tag
	}
	return `"` + tag + `"`
}
