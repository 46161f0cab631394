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

// hubStore reads files of datasets on Hugging Face's hub. A revision is resolved to its commit once, so that all files
// are of one state. For a large file the hub redirects to where its bytes are, at an address with a signature that is
// valid for about an hour. The address is asked for once and used until it expires. The user's token is sent to the hub
// only.
// (https://huggingface.co/docs/hub/api; huggingface_hub's file_download.py and hf_file_system.py) Both maps stay small:
// commits has what a program names, and locations has a limit (mostLocations).
type hubStore struct {
	client   *client
	endpoint string
	token    string

	mu        sync.Mutex
	commits   map[string]string   // "ORG/NAME@REV" to the commit
	locations map[string]location // "ORG/NAME@COMMIT/PATH" to where its bytes are
}

// location is where the bytes of a file are, and what the hub says about them.
// url may hold a signature, which is a secret until it expires, so no message shows it.
type location struct {
	url     string
	direct  bool // at the hub itself, which needs the token
	size    int64
	version string
	until   time.Time
}

// These are limits of the hub's answers, and how long an answer is used.
const (
	hubEndpoint   = "https://huggingface.co"
	mostAnswer    = 16 << 20         // bytes of an answer of the hub, such as a page of its list
	mostLocations = 1 << 16          // that are kept; when there are more, all are dropped
	usualLifetime = 10 * time.Minute // of an address that does not say when it expires
	spareLifetime = time.Minute      // an address is not used any more so long before it expires
	mostToken     = 4096
)

// newHubStore uses the endpoint of the storage, otherwise HF_ENDPOINT as huggingface_hub does, otherwise the hub's own.
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

// hubToken returns the user's token, from the same places as huggingface_hub.
// It is read once for each client. If it cannot be read there is no token, because a public dataset needs none.
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

// hubFile is an address in its parts.
// revision is a branch, a tag or a commit; "main" if the address names none.
type hubFile struct{ repo, revision, path string }

var (
	// Only the hub's own revisions, such as refs/pr/1, may have slashes.
	// The rules are huggingface_hub's: SPECIAL_REFS_REVISION_REGEX in hf_file_system.py.
	hubAddress = regexp.MustCompile(`^([\w.-]+/[\w.-]+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(.*))?$`)
	commitName = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// hubFileOf accepts only names of the form ORG/NAME. It refuses the hub's oldest datasets, which have no ORG.
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
	if f.revision == convertedShort {
		f.revision = convertedRevision
	}
	return f, nil
}

// escapedPath escapes a path for a URL, but not its slashes.
func escapedPath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// ask makes a request to the hub, with the token, and follows redirects that stay at the hub.
// It adds the token to each request itself, after isHub has checked where a redirect leads.
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
		// A redirect to another host is an answer: the bytes are there, and the token must not be sent there.
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

// isHub says whether an address is one of the hub itself, to which the token may be sent.
// The scheme has to be the hub's as well, because over http anybody on the way could read the token.
func (h *hubStore) isHub(to *url.URL) bool {
	hub, err := url.Parse(h.endpoint)
	return err == nil && to.Scheme == hub.Scheme && strings.EqualFold(to.Host, hub.Host)
}

// commit resolves a revision to a commit. It asks once for each revision.
// A branch may move while a program runs; its files stay those of the first commit that was seen.
func (h *hubStore) commit(ctx context.Context, f hubFile) (string, error) {
	// A commit resolves to itself.
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
		return "", noCommit(f, err)
	}
	if !commitName.MatchString(said.SHA) {
		return "", &failure{kind: fault.KindBadFile, text: "the hub's answer names no commit (expected 40 hexadecimal digits)"}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// If two goroutines asked at once, both use the first answer.
	if first := h.commits[f.repo+"@"+f.revision]; first != "" {
		return first, nil
	}
	h.commits[f.repo+"@"+f.revision] = said.SHA
	return said.SHA, nil
}

// json reads an answer, up to mostAnswer bytes. Members that have no place in into are ignored.
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
	// One byte more was read, to distinguish this from an answer of exactly that length.
	case len(text) > mostAnswer:
		return nil, &failure{kind: fault.KindLimit, text: fmt.Sprintf("the hub's answer has more than %d bytes (expected at most that)", mostAnswer)}
	}
	if json.Unmarshal(text, into) != nil {
		return nil, &failure{kind: fault.KindBadFile, text: "the hub's answer is not the JSON that it should be"}
	}
	return answer.Header, nil
}

// hubRefusal makes the error of an answer without data. The hub answers 401 also for what does not exist, so that
// nobody learns what exists. The text says so, because the status alone would make the user doubt a token that is
// right.
func hubRefusal(answer *http.Response) error {
	f := ofStatus(answer.StatusCode, code(answer.Header.Get("X-Error-Code")), retryAfter(answer.Header.Get("Retry-After")))
	switch {
	case f.code == codeGated:
		f.text += " (its terms are accepted on the dataset's page, by the account that HF_TOKEN is of)"
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		f.text += " (the dataset does not exist, or HF_TOKEN does not open it)"
	}
	return f
}

// locate finds where a file's bytes are. With fresh it asks again even if it knows.
// Two goroutines may ask for one file at the same time. Both answers are right, and the later one is kept.
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
		return location{}, noFile(f, err)
	}
	// Reading to the end lets the connection be used again.
	io.CopyN(io.Discard, answer.Body, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.locations) >= mostLocations {
		clear(h.locations)
	}
	h.locations[key] = found
	return found, nil
}

// errNoFirst means that the hub does not give the file's first byte, so the file may be empty.
var errNoFirst = unsupported("the hub answered 416 Requested Range Not Satisfiable to a request for the first byte")

// empty returns the location of a file without bytes. It asks for the whole file to see that it is empty.
// A request for a range gives 416, because there is no first byte (RFC 9110, 14.1.2 and 15.5.17).
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
// It makes no request. The answer is hostile, so every part of it is checked.
func locationOf(answer *http.Response) (location, error) {
	found := location{size: -1, version: answer.Header.Get("X-Linked-Etag"), until: time.Now().Add(usualLifetime)}
	if size, ok := digits(answer.Header.Get("X-Linked-Size")); ok {
		found.size = size
	}
	// X-Linked-Etag belongs to the file in LFS. ETag belongs to its pointer, or to a small file itself.
	if found.version == "" {
		found.version = answer.Header.Get("ETag")
	}
	switch answer.StatusCode {
	case http.StatusFound, http.StatusTemporaryRedirect, http.StatusMovedPermanently, http.StatusPermanentRedirect, http.StatusSeeOther:
		to, err := answer.Location()
		// The hub never redirects to file:// and the like, nor from https to http.
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

// lifetime says until when a signed address may be used, by CloudFront's Expires or by AWS's date and seconds. Those
// are times of the hub's clock. This machine's clock may be wrong by hours, and then every range would be asked for
// again. So the time is computed from the Date of the hub's answer.
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
