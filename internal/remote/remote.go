// Package remote reads and writes objects in a store: S3 and other servers with its protocol, Google Cloud Storage,
// Azure's blobs, plain HTTP servers, and Hugging Face's datasets. An object is opened by its URL and then pinned to the
// version that was found: what is read is of that version, or there is an error.
//
// Every request is limited in time and number, and ends with its context. A request that may succeed later is retried
// (retry.go), and one that is slower than nearly all is sent a second time (hedge.go). If it fails for good, the error
// is an *Error: a sentence with URL, status and attempts. No error holds a query string, name, password or token,
// because all texts come from here or from the list in failure.go.
//
// What a server says is hostile: sizes, ranges, versions, lists and redirects are checked and limited.
// The bytes of an object are not checked here; their reader knows their checksum.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// These are limits of what a server may say.
// If it says more, the error is of the kind Limit, and no memory is allocated for it.
const (
	mostVersion = 1024    // bytes of a version
	mostSize    = 1 << 46 // bytes of an object: 64 TiB; S3's bound is 5 TiB
	mostEntries = 1 << 20 // objects below a prefix; the same limit as for files of a pattern
	mostPages   = 1 << 16 // of a list; stores put a thousand or a few thousand objects on a page
	mostURL     = 8192    // bytes of an address; a key of S3 has at most 1,024, and three times that when escaped
)

// A store is one way to access objects. Each call makes one request, or the requests that a library makes for it, and
// does not retry. Errors are *failure if the store knows the cause; classify judges all others.
type store interface {
	// head finds size and version.
	head(ctx context.Context, a address) (size int64, version string, err error)
	// read fills p from offset on and returns how many bytes it wrote; fewer than len(p) only with an error. size is the
	// size of the whole object. When read returns, nothing writes into p any more.
	read(ctx context.Context, a address, version string, size int64, p []byte, offset int64) (int, error)
	// list calls found for each object of a page whose address begins with that of a. The empty token stands for the first
	// page; next is the token of the following page, empty after the last.
	list(ctx context.Context, a address, token string, found func(Entry) error) (next string, err error)
	// create begins an object that becomes visible at its commit. It is sent in parts of part bytes.
	create(ctx context.Context, a address, part int) (upload, error)
	// remove removes an object.
	remove(ctx context.Context, a address) error
}

// Object is one version of an object. Its methods may be called from several goroutines.
// Its address, size and version never change. The counts and closed change, and are atomic.
type Object struct {
	address address
	client  *client
	store   store
	size    int64
	version string
	counted counter
	closed  atomic.Bool
}

// Entry is an object in a list. Its URL can be given to Open and may hold a query; use Display to show it.
// The size and version of a listed object save the request that Open makes (OpenKnown).
type Entry struct {
	URL     string
	Size    int64
	Version string
}

// Open finds an object's size and version with one request.
func Open(ctx context.Context, url string, s Storage) (*Object, error) {
	followEnvironment()
	o, err := newObject(url, s)
	if err != nil {
		return nil, err
	}
	err = o.client.try(ctx, o.goal("open", fault.None), 0, func(ctx context.Context) (int, error) {
		o.count(func(c *counter) { c.requests.Add(1) })
		// The answer is checked inside the attempt, so a wrong answer is an error of the attempt like any other.
		size, version, err := o.store.head(ctx, o.address)
		if err == nil {
			err = checkAnswer(size, version)
		}
		o.size, o.version = size, version
		return 0, err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// OpenKnown opens an object whose size and version are known, without a request. If the object was replaced since,
// reading it gives an error. The version is empty if the server has none. OpenKnown does not look at the environment
// again, as the other functions do, because it may be called for every sample.
func OpenKnown(url string, size int64, version string, s Storage) (*Object, error) {
	o, err := newObject(url, s)
	if err != nil {
		return nil, err
	}
	if err := checkAnswer(size, version); err != nil {
		return nil, o.client.finish(context.Background(), o.goal("open", fault.None), err, 0, 0)
	}
	o.size, o.version = size, version
	return o, nil
}

// newObject parses the address and finds the store. It makes no request.
func newObject(url string, s Storage) (*Object, error) {
	a, err := parse(url)
	if err != nil {
		return nil, err
	}
	c := clientOf(s)
	st, err := c.store(a.scheme)
	if err != nil {
		return nil, err
	}
	return &Object{address: a, client: c, store: st}, nil
}

// checkAnswer refuses an impossible size or version. A version becomes a header of later requests (If-Match), so it
// must not hold a byte that ends a header.
func checkAnswer(size int64, version string) error {
	switch {
	case size < 0 || size > mostSize:
		return &failure{kind: fault.KindLimit, text: fmt.Sprintf("its size is %d (expected at most %d)", size, int64(mostSize))}
	case len(version) > mostVersion:
		return &failure{kind: fault.KindLimit, text: fmt.Sprintf("its version has %d bytes (expected at most %d)", len(version), mostVersion)}
	}
	for _, b := range []byte(version) {
		if b < ' ' || b > '~' {
			return &failure{kind: fault.KindBadFile, text: "its version has a character that no header may have"}
		}
	}
	return nil
}

// URL returns the address without query, name and password. It is for messages and cannot be opened.
// It is the same whether the object was opened by an address with a signature or without.
func (o *Object) URL() string { return o.address.display() }

// Key identifies the object among all objects of all stores, with the endpoint. It leaves out version, name, password
// and signature. The rest of a query is in it as a hash.
func (o *Object) Key() string { return o.client.storage.Endpoint + " " + o.address.key() }

// Size is the object's size in bytes.
// Every answer is compared with it (changedSize).
func (o *Object) Size() int64 { return o.size }

// Version is the value by which the store distinguishes versions; empty if it has none.
func (o *Object) Version() string { return o.version }

// Close closes the object: no read begins after it. Reads that have begun end with their own contexts.
func (o *Object) Close() { o.closed.Store(true) }

// ReadAt fills p with the bytes from offset on. After an error the contents of p are undefined. It returns soon after
// the context has ended, and then writes nothing more into p.
func (o *Object) ReadAt(ctx context.Context, p []byte, offset int64) error {
	goal := o.goal("read", offset)
	switch {
	case o.closed.Load():
		return &Error{URL: o.URL(), Kind: fault.KindClosed, Text: "cannot read it: it was closed", offset: offset}
	// This compares without a sum that could overflow.
	case offset < 0 || offset > o.size || int64(len(p)) > o.size-offset:
		return &Error{URL: o.URL(), Kind: fault.KindTruncated, offset: offset,
			Text: fmt.Sprintf("cannot read %d bytes of it (the object has %d)", len(p), o.size)}
	case len(p) == 0:
		return nil
	}
	began := time.Now()
	// Bytes that came before an attempt failed stay in p, and the next attempt asks for the rest.
	done := 0
	err := o.client.try(ctx, goal, len(p), func(ctx context.Context) (int, error) {
		n, err := o.hedged(ctx, p[done:], offset+int64(done))
		done += n
		return n, err
	})
	waited := time.Since(began)
	o.count(func(c *counter) { c.waited.Add(int64(waited)) })
	if e := (*Error)(nil); errors.As(err, &e) && e.Status == http.StatusPreconditionFailed {
		return o.replaced(ctx, e, began)
	}
	return err
}

// replaced adds the object's present version to the error of an object that was replaced. A store that refuses a
// request says that the version is another one, but seldom which. The question has only what is left of the caller's
// time since it began, because the error is known without it.
func (o *Object) replaced(ctx context.Context, e *Error, began time.Time) error {
	limit := o.client.stall()
	if total := o.client.storage.Timeout; total > 0 {
		limit = min(limit, time.Until(began.Add(total)))
	}
	one, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o.count(func(c *counter) { c.requests.Add(1) })
	size, found, err := o.store.head(one, o.address)
	if err != nil || checkAnswer(size, found) != nil {
		return e
	}
	own := *e
	own.Text += " (expected version " + short(o.version) + ", found " + short(found) + ")"
	return &own
}

// once makes one request for a range.
// A hedge calls it as well, so the counts have both requests.
func (o *Object) once(ctx context.Context, p []byte, offset int64) (int, error) {
	o.count(func(c *counter) { c.requests.Add(1) })
	n, err := o.store.read(ctx, o.address, o.version, o.size, p, offset)
	o.count(func(c *counter) { c.bytes.Add(int64(n)) })
	return n, err
}

// List returns the objects whose addresses begin with prefixURL, sorted by URL. A server of plain HTTP has no lists.
func List(ctx context.Context, prefixURL string, s Storage) ([]Entry, error) {
	followEnvironment()
	o, err := newObject(prefixURL, s)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	token := ""
	// A page that fails is asked for again as a whole, and its entries from before are dropped.
	for pages := 0; ; pages++ {
		known, next := len(entries), ""
		// Each page has attempts of its own, because a long list takes longer than one request may.
		err = o.client.try(ctx, o.goal("list", fault.None), 0, func(ctx context.Context) (_ int, err error) {
			o.count(func(c *counter) { c.requests.Add(1) })
			entries = entries[:known]
			next, err = o.store.list(ctx, o.address, token, func(e Entry) error {
				if len(entries) == mostEntries {
					return &failure{kind: fault.KindLimit, text: fmt.Sprintf("there are more than %d objects below it (expected at most that)", mostEntries)}
				}
				if err := checkAnswer(e.Size, e.Version); err != nil {
					return err
				}
				entries = append(entries, e)
				return nil
			})
			if err == nil && next != "" && next == token {
				err = &failure{kind: fault.KindBadFile, text: "the list of what is below it says that the page which follows is the same again"}
			}
			if err == nil && next != "" && pages == mostPages {
				err = &failure{kind: fault.KindLimit, text: fmt.Sprintf("the list of what is below it has more than %d pages (expected at most that)", mostPages)}
			}
			return 0, err
		})
		if err != nil {
			return nil, err
		}
		if token = next; token == "" {
			break
		}
	}
	sortEntries(entries)
	return entries, nil
}

// goal makes the goal for errors of the form "cannot WHAT it".
func (o *Object) goal(what string, offset int64) goal {
	return goal{what: what, url: o.address.display(), offset: offset, retried: func() {
		o.count(func(c *counter) { c.retries.Add(1) })
	}}
}
