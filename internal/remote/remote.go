// Package remote reads and writes objects of a store: S3 and what speaks its protocol, Google Cloud
// Storage, Azure's blobs, plain HTTP servers, and Hugging Face's datasets. An object is opened by its
// URL and then pinned to the version that was found: what is read of it is of that version, or an error.
//
// Every request is bounded in time and number, and ends with its context. What fails for a while is
// tried again (retry.go), what lasts longer than nearly all is asked for a second time (hedge.go), and
// what remains is an *Error, a sentence with URL, status and attempts. No query string, name, password
// or token is ever in one: all texts come from here or from the list in failure.go.
//
// What a server says is hostile: sizes, ranges, versions, lists and redirects are checked and bounded.
// The bytes of an object are not checked here; who reads them knows their checksum.
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

// Bounds of what a server may say.
// A server that says more is refused with an error of the kind Limit, before memory is taken for it.
const (
	mostVersion = 1024    // bytes of a version
	mostSize    = 1 << 46 // bytes of an object: 64 TiB; S3's bound is 5 TiB
	mostEntries = 1 << 20 // objects below a prefix, as of files that a pattern stands for
	mostPages   = 1 << 16 // of a list; a store puts a thousand objects on one, or a few thousand
	mostURL     = 8192    // bytes of an address; a key of S3 has at most 1,024, three times that escaped
)

// A store is one way to get at objects. Each call makes one request, or what a library makes of one,
// and tries nothing again. Errors are *failure where the store can tell, and are classified otherwise.
type store interface {
	// head finds size and version.
	head(ctx context.Context, a address) (size int64, version string, err error)
	// read fills p from offset on and says how many bytes it wrote: fewer only with an error. Size is
	// the whole object's. It does not return before it has stopped writing into p.
	read(ctx context.Context, a address, version string, size int64, p []byte, offset int64) (int, error)
	// list calls found for each object of a page whose address begins with that of a. The first page is that of the
	// empty token; next is the token of the next one, empty behind the last.
	list(ctx context.Context, a address, token string, found func(Entry) error) (next string, err error)
	// create begins an object that is visible from its commit on, and is sent in parts of so many bytes.
	create(ctx context.Context, a address, part int) (upload, error)
	// remove removes an object.
	remove(ctx context.Context, a address) error
}

// Object is one version of an object. Its methods may be called from several goroutines.
// Its address, size and version never change; the counts and closed do, and are atomic.
type Object struct {
	address address
	client  *client
	store   store
	size    int64
	version string
	counted counter
	closed  atomic.Bool
}

// Entry is an object in a list. Its URL is one for Open and may hold a query; Display is for texts.
// Sizes and versions of a list save a request an object (OpenKnown).
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
		// The answer is checked inside of the attempt, so that a wrong one is an error like any other of it.
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

// OpenKnown is Open without a request, of an object whose size and version are known. Where it is
// another by now, reading says so. An empty version is that of a server that has none. It may be called for
// every sample, so it does not look at the environment anew, as the others do.
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

// newObject makes no request.
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

// checkAnswer refuses a size or a version that cannot be. A version becomes a header of later requests (If-Match), so it must
// hold no byte that ends a header.
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

// URL is the address without query, name and password: for texts, not for Open.
// It is the same for the object opened by an address with a signature and without.
func (o *Object) URL() string { return o.address.display() }

// Key identifies the object among all objects of all stores, endpoint included; its version does not
// belong to it, nor do name, password and signature. What else a query says is in it as a hash.
func (o *Object) Key() string { return o.client.storage.Endpoint + " " + o.address.key() }

// Size is in bytes.
// Every answer is compared with it (changedSize).
func (o *Object) Size() int64 { return o.size }

// Version is what the store tells versions apart by, empty where it does not.
func (o *Object) Version() string { return o.version }

// Close ends the object: no read begins after it. Those that run end with their own contexts.
func (o *Object) Close() { o.closed.Store(true) }

// ReadAt fills p with the bytes from offset on, or returns an error; p is then undefined. It returns
// within a moment of the context's end, and writes nothing into p afterwards.
func (o *Object) ReadAt(ctx context.Context, p []byte, offset int64) error {
	goal := o.goal("read", offset)
	switch {
	case o.closed.Load():
		return &Error{URL: o.URL(), Kind: fault.KindClosed, Text: "cannot read it: it was closed", offset: offset}
	// Compared without a sum that could wrap around.
	case offset < 0 || offset > o.size || int64(len(p)) > o.size-offset:
		return &Error{URL: o.URL(), Kind: fault.KindTruncated, offset: offset,
			Text: fmt.Sprintf("cannot read %d bytes of it (the object has %d)", len(p), o.size)}
	case len(p) == 0:
		return nil
	}
	began := time.Now()
	// Bytes that came before an attempt failed stay in p, and the next one asks for the rest.
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

// replaced adds to the error of an object that is another version now which one that is: a store that refuses says
// that the version is not the one that was asked for, and seldom which it has. What is left of the caller's time since
// it began bounds the question, for the answer is known without it.
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

// once is one request for a range.
// A hedge is made by it as well, so that the counts have both requests.
func (o *Object) once(ctx context.Context, p []byte, offset int64) (int, error) {
	o.count(func(c *counter) { c.requests.Add(1) })
	n, err := o.store.read(ctx, o.address, o.version, o.size, p, offset)
	o.count(func(c *counter) { c.bytes.Add(int64(n)) })
	return n, err
}

// List is the objects whose addresses begin with prefixURL, sorted by URL. A server of plain HTTP has
// no lists.
func List(ctx context.Context, prefixURL string, s Storage) ([]Entry, error) {
	followEnvironment()
	o, err := newObject(prefixURL, s)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	token := ""
	// A page that fails is asked for again from its beginning, and what came of it before is left out.
	for pages := 0; ; pages++ {
		known, next := len(entries), ""
		// Each page is asked for by itself: a long list takes longer than a request may.
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

// goal is for an error of the form "cannot WHAT it".
func (o *Object) goal(what string, offset int64) goal {
	return goal{what: what, url: o.address.display(), offset: offset, retried: func() {
		o.count(func(c *counter) { c.retries.Add(1) })
	}}
}
