package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// hubStore reads files of datasets on Hugging Face's hub. A revision is resolved to its commit once, so
// that all files are of one state. The hub answers a request for a large file with a redirect to where
// it lies, an address that holds a signature for an hour or so; it is asked for once and used until it
// ends. The user's token goes to the hub and nowhere else.
// (https://huggingface.co/docs/hub/api; huggingface_hub's file_download.py and hf_file_system.py)
// Both maps are bounded or small: commits by what a program names, locations by mostLocations.
type hubStore struct {
	client   *client
	endpoint string
	token    string

	mu        sync.Mutex
	commits   map[string]string   // "ORG/NAME@REV" to the commit
	locations map[string]location // "ORG/NAME@COMMIT/PATH" to where its bytes are
}

// location is where the bytes of a file are, and what the hub says of them.
// A signature is a secret as long as it lasts: url stands in no text.
type location struct {
	url     string
	direct  bool // at the hub itself, which wants the token
	size    int64
	version string
	until   time.Time
}

// Bounds of the hub's answers, and how long what it said is believed.
const (
	hubEndpoint   = "https://huggingface.co"
	mostAnswer    = 16 << 20         // bytes of a page of the hub's list
	mostLocations = 1 << 16          // kept; then all are asked for anew
	usualLifetime = 10 * time.Minute // of an address that does not say when it ends
	spareLifetime = time.Minute      // before its end an address is not used any more
	mostToken     = 4096
)

// newHubStore takes storage's endpoint, else that of HF_ENDPOINT as huggingface_hub does, else the hub's own.
func newHubStore(c *client) store {
	h := &hubStore{client: c, commits: make(map[string]string), locations: make(map[string]location)}
	h.endpoint = strings.TrimSuffix(c.storage.Endpoint, "/")
	if h.endpoint == "" {
		h.endpoint = strings.TrimSuffix(os.Getenv("HF_ENDPOINT"), "/")
	}
	if h.endpoint == "" {
		h.endpoint = hubEndpoint
	}
	if !c.storage.Anonymous {
		h.token = hubToken()
	}
	return h
}

// hubToken is the user's, from where huggingface_hub takes it.
// A token is read once a client. What cannot be read is no token: a public dataset needs none.
func hubToken() string {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(os.Getenv(name)); token != "" {
			return token
		}
	}
	path := os.Getenv("HF_TOKEN_PATH")
	if path == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			cache := os.Getenv("XDG_CACHE_HOME")
			if cache == "" {
				user, err := os.UserHomeDir()
				if err != nil {
					return ""
				}
				cache = filepath.Join(user, ".cache")
			}
			home = filepath.Join(cache, "huggingface")
		}
		path = filepath.Join(home, "token")
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostToken))
	return strings.TrimSpace(string(text))
}

// hubFile is an address taken apart.
// revision is a branch, a tag, a commit, or "main".
type hubFile struct{ repo, revision, path string }

var (
	// A revision may have slashes only where the hub itself makes such names.
	// huggingface_hub's rules: SPECIAL_REFS_REVISION_REGEX in hf_file_system.py.
	hubAddress = regexp.MustCompile(`^([\w.-]+/[\w.-]+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.*))?$`)
	commitName = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// hubFileOf takes names of ORG/NAME alone. The hub's first datasets have no ORG, and are refused.
func hubFileOf(a address) (hubFile, error) {
	found := hubAddress.FindStringSubmatch(a.path)
	if found == nil || strings.Contains("/"+found[1]+"/", "/../") {
		return hubFile{}, &failure{kind: fault.KindArgument, text: "the address is another (expected hf://datasets/ORG/NAME[@REV]/PATH)"}
	}
	f := hubFile{repo: found[1], revision: found[2], path: found[3]}
	if f.revision == "" {
		f.revision = "main"
	}
	if name, err := url.PathUnescape(f.revision); err == nil {
		f.revision = name // "refs%2Fpr%2F1"
	}
	return f, nil
}

// escapedPath is a path as a URL has it, slashes left alone.
func escapedPath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// ask makes a request to the hub, with the token, and follows redirects that stay there.
// The token is added to each request anew, after isHub has seen where a redirect leads.
func (h *hubStore) ask(ctx context.Context, address string, prepare func(*http.Request)) (*http.Response, error) {
	for redirects := 0; ; redirects++ {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, &failure{kind: fault.KindArgument, text: "the address of the hub (HF_ENDPOINT) is none"}
		}
		request.Header.Set("User-Agent", "headrace")
		if prepare != nil {
			prepare(request)
		}
		if h.token != "" {
			request.Header.Set("Authorization", "Bearer "+h.token)
		}
		answer, err := (&http.Client{Transport: h.client.web, CheckRedirect: stay}).Do(request)
		if err != nil {
			return nil, transportError(ctx, err)
		}
		to, err := answer.Location()
		// A redirect elsewhere is an answer: it is where the bytes are, and the token is not for it.
		if answer.StatusCode/100 != 3 || err != nil || !h.isHub(to) {
			return answer, nil
		}
		answer.Body.Close()
		if redirects == mostRedirects {
			return nil, &failure{kind: fault.KindLimit, text: fmt.Sprintf("the hub redirects more than %d times (expected at most that)", mostRedirects)}
		}
		address = to.String()
	}
}

// isHub says whether an address is one of the hub itself, to which the token may go.
// The scheme has to be the hub's as well, for over http a token could be read on the way.
func (h *hubStore) isHub(to *url.URL) bool {
	hub, err := url.Parse(h.endpoint)
	return err == nil && to.Scheme == hub.Scheme && strings.EqualFold(to.Host, hub.Host)
}

// commit is what a revision means, asked for once.
// A branch may move while a program runs; its files stay those of the first commit that was seen.
func (h *hubStore) commit(ctx context.Context, f hubFile) (string, error) {
	// A commit never means another one.
	if commitName.MatchString(f.revision) {
		return f.revision, nil
	}
	h.mu.Lock()
	known := h.commits[f.repo+"@"+f.revision]
	h.mu.Unlock()
	if known != "" {
		return known, nil
	}
	var said struct {
		SHA string `json:"sha"`
	}
	if _, err := h.json(ctx, h.endpoint+"/api/datasets/"+f.repo+"/revision/"+url.PathEscape(f.revision), &said); err != nil {
		if f, ok := err.(*failure); ok && f.status == http.StatusNotFound {
			f.inner, f.text = ErrNoBucket, "there is no such dataset or revision: "+f.text
		}
		return "", err
	}
	if !commitName.MatchString(said.SHA) {
		return "", &failure{kind: fault.KindBadFile, text: "the hub's answer names no commit (expected 40 hexadecimal digits)"}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// Of two that asked at once both take what the first was told.
	if first := h.commits[f.repo+"@"+f.revision]; first != "" {
		return first, nil
	}
	h.commits[f.repo+"@"+f.revision] = said.SHA
	return said.SHA, nil
}

// json reads an answer of bounded length. Members of it that into has no place for are passed over.
func (h *hubStore) json(ctx context.Context, address string, into any) (http.Header, error) {
	answer, err := h.ask(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, hubRefusal(answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, transportError(ctx, err)
	// One byte more was read to tell this from an answer of just that length.
	case len(text) > mostAnswer:
		return nil, &failure{kind: fault.KindLimit, text: fmt.Sprintf("the hub's answer has more than %d bytes (expected at most that)", mostAnswer)}
	}
	if json.Unmarshal(text, into) != nil {
		return nil, &failure{kind: fault.KindBadFile, text: "the hub's answer is not the JSON that it should be"}
	}
	return answer.Header, nil
}

// hubRefusal: the hub says 401 of what does not exist, too, so that nobody learns what does.
// It says so in the text, for the status alone would send the user to look at a token that is right.
func hubRefusal(answer *http.Response) error {
	f := ofStatus(answer.StatusCode, "", retryAfter(answer.Header.Get("Retry-After")))
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		f.text += " (the dataset does not exist, or HF_TOKEN does not open it)"
	}
	return f
}

// locate finds where a file's bytes are; fresh asks anew.
// Two goroutines may ask for one file at the same time. Both answers are right, and the later one stays.
func (h *hubStore) locate(ctx context.Context, a address, fresh bool) (location, error) {
	f, err := hubFileOf(a)
	if err != nil {
		return location{}, err
	}
	commit, err := h.commit(ctx, f)
	if err != nil {
		return location{}, err
	}
	key := f.repo + "@" + commit + "/" + f.path
	if !fresh {
		h.mu.Lock()
		known, ok := h.locations[key]
		h.mu.Unlock()
		if ok && time.Now().Before(known.until) {
			return known, nil
		}
	}
	at := h.endpoint + "/datasets/" + f.repo + "/resolve/" + commit + "/" + escapedPath(f.path)
	answer, err := h.ask(ctx, at, func(r *http.Request) { setRange(r, "", 0, 1) })
	if err != nil {
		return location{}, err
	}
	defer answer.Body.Close()
	found, err := locationOf(answer)
	if err == errNoFirst {
		found, err = h.empty(ctx, at)
	}
	if err != nil {
		return location{}, err
	}
	// To its end, so that the connection is used again.
	io.CopyN(io.Discard, answer.Body, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.locations) >= mostLocations {
		clear(h.locations)
	}
	h.locations[key] = found
	return found, nil
}

// errNoFirst is of a file that may be empty, for the hub does not give its first byte.
var errNoFirst = unsupported("the hub answered 416 Requested Range Not Satisfiable to a request for the first byte")

// empty is where a file without bytes is, which a request for all of it shows.
// A range of it would be answered with 416, for it has no first byte (RFC 9110, 14.1.2 and 15.5.17).
func (h *hubStore) empty(ctx context.Context, at string) (location, error) {
	answer, err := h.ask(ctx, at, func(r *http.Request) { setRange(r, "", 0, 0) })
	if err != nil {
		return location{}, err
	}
	defer answer.Body.Close()
	if n, err := answer.Body.Read(make([]byte, 1)); answer.StatusCode != http.StatusOK || n > 0 || err != io.EOF {
		return location{}, errNoFirst
	}
	return location{url: answer.Request.URL.String(), direct: true, version: answer.Header.Get("ETag"), until: time.Now().Add(usualLifetime)}, nil
}

// locationOf reads the hub's answer to a request for a file's first byte: a redirect, or the byte.
// It makes no request: what it reads is hostile, and refused piece by piece.
func locationOf(answer *http.Response) (location, error) {
	found := location{size: -1, version: answer.Header.Get("X-Linked-Etag"), until: time.Now().Add(usualLifetime)}
	if size, ok := digits(answer.Header.Get("X-Linked-Size")); ok {
		found.size = size
	}
	// X-Linked-Etag is that of the file in LFS, ETag that of a pointer or of a small file itself.
	if found.version == "" {
		found.version = answer.Header.Get("ETag")
	}
	switch answer.StatusCode {
	case http.StatusFound, http.StatusTemporaryRedirect, http.StatusMovedPermanently, http.StatusPermanentRedirect, http.StatusSeeOther:
		to, err := answer.Location()
		// file:// and the like, and https given up: neither is what a hub does.
		if err != nil || (to.Scheme != "https" && to.Scheme != "http") || (to.Scheme == "http" && answer.Request.URL.Scheme == "https") {
			return location{}, &failure{kind: fault.KindDenied, text: "the hub redirects to what is no web address, or from https to http"}
		}
		if found.size < 0 {
			return location{}, &failure{kind: fault.KindBadFile, text: "the hub redirects without the file's size (expected X-Linked-Size)"}
		}
		found.url, found.until = to.String(), lifetime(to.Query(), answer.Header.Get("Date"))
		return found, nil
	case http.StatusPartialContent:
		_, _, total, err := contentRange(answer)
		switch {
		case err != nil:
			return location{}, err
		case total < 0:
			return location{}, errLengthUnsaid
		}
		found.url, found.direct, found.size = answer.Request.URL.String(), true, total
		return found, nil
	case http.StatusRequestedRangeNotSatisfiable:
		if _, _, total, err := contentRange(answer); found.size != 0 && (err != nil || total != 0) {
			return location{}, errNoFirst
		}
		found.url, found.direct, found.size = answer.Request.URL.String(), true, 0
		return found, nil
	case http.StatusOK:
		return location{}, unsupported("the hub has no range requests for it: it answered a request for one byte with all")
	}
	return location{}, hubRefusal(answer)
}

// lifetime is until when a signed address may be used: CloudFront's Expires, or AWS's date and seconds. That is a time of
// the hub's clock, which says in its answer what it shows: by this machine's, which may be wrong by hours, each range
// would be asked for anew.
func lifetime(query url.Values, date string) time.Time {
	now := time.Now()
	there, err := http.ParseTime(date)
	if err != nil {
		there = now
	}
	ends := there.Add(usualLifetime)
	if seconds, err := strconv.ParseInt(query.Get("Expires"), 10, 64); err == nil {
		ends = time.Unix(seconds, 0).Add(-spareLifetime)
	} else if seconds, err := strconv.Atoi(query.Get("X-Amz-Expires")); err == nil {
		if date, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date")); err == nil {
			ends = date.Add(time.Duration(min(max(seconds, 0), 7*86400))*time.Second - spareLifetime)
		}
	}
	return now.Add(min(ends.Sub(there), 24*time.Hour))
}
