package remote

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// upload is an object in the making.
// Calls come one behind the other. abort may follow on a commit that failed.
type upload interface {
	write(p []byte) (int, error)
	commit() error
	abort(context.Context) error
}

// Writer makes an object. Nothing of it is visible before Commit has returned. Either a Commit without an error or
// Abort ends it; what a process leaves that dies before is an incomplete upload, which takes room in the
// bucket until its rules remove it, and which no reader sees.
// It is for one goroutine; the library's own send the parts.
type Writer struct {
	ctx    context.Context
	object *Object
	upload upload
	began  time.Time
	failed error
	ended  bool
}

// Parts of an upload: S3 takes 10,000, and each part that is on its way is in memory.
// leastPart is above S3's bound of 5 MiB for all parts but the last; 10,000 of usualPart are 335 GB.
const (
	leastPart   = 8 << 20
	usualPart   = 32 << 20
	mostParts   = 10_000
	partsAtOnce = 4
)

// partBytes is how long the parts of an object are that has so many bytes at most; of 0 nothing is known.
func partBytes(most int64) int {
	if most <= 0 {
		return usualPart
	}
	// In whole MiB, rounded up, so that 10,000 parts hold it.
	return int(max(leastPart, (most/mostParts+1<<20)>>20<<20))
}

// Create begins an object, which replaces one of its name when it is committed. The context is that of
// the whole upload; its parts are sent by the store's library, several at once, each tried again. Most is how
// many bytes the object will have at most, 0 where that is not known: memory is saved by it.
func Create(ctx context.Context, url string, most int64, s Storage) (*Writer, error) {
	followEnvironment()
	o, err := newObject(url, s)
	if err != nil {
		return nil, err
	}
	w := &Writer{ctx: ctx, object: o, began: time.Now()}
	o.count(func(c *counter) { c.requests.Add(1) })
	if w.upload, err = o.store.create(ctx, o.address, partBytes(most)); err != nil {
		return nil, w.error(err)
	}
	return w, nil
}

// error has no number of attempts: the library sends the parts, and does not say how often it tried.
func (w *Writer) error(err error) error {
	return w.object.client.finish(w.ctx, w.object.goal("write", fault.None), err, 0, time.Since(w.began))
}

// Write sends p, or keeps it until a part is full. After an error nothing more is written.
// What was sent before an error is of no use; Abort removes it.
func (w *Writer) Write(p []byte) (int, error) {
	switch {
	case w.ended:
		return 0, w.error(&failure{kind: fault.KindClosed, text: "it has ended already"})
	case w.failed != nil:
		return 0, w.failed
	}
	n, err := w.upload.write(p)
	if err != nil {
		w.failed = w.error(err)
	}
	return n, w.failed
}

// Commit makes the object visible, whole. After an error nothing is, and Abort removes what was sent.
// Commit may take as long as the store takes to put the parts together.
func (w *Writer) Commit() error {
	switch {
	case w.ended:
		return w.error(&failure{kind: fault.KindClosed, text: "it has ended already"})
	case w.failed != nil:
		return w.failed
	}
	// The answer may be lost where the object is there all the same: who abandons it removes it by its name as well.
	if err := w.upload.commit(); err != nil {
		w.failed = w.error(err)
		return w.failed
	}
	w.ended = true
	return nil
}

// Abort ends the upload and removes its parts, for as long as the context lasts. After Commit it does nothing. An
// error says that parts may be left in the bucket.
func (w *Writer) Abort(ctx context.Context) error {
	if w.ended {
		return nil
	}
	w.ended = true
	if err := w.upload.abort(ctx); err != nil {
		return w.error(&failure{kind: fault.KindUnreachable, text: "parts of the incomplete upload may be left"})
	}
	return nil
}

// URL is the address of the object, for texts.
func (w *Writer) URL() string { return w.object.URL() }

// Remove removes an object. One that is not there is no error.
// Of two who remove it both are told that it is gone.
func Remove(ctx context.Context, url string, s Storage) error {
	followEnvironment()
	o, err := newObject(url, s)
	if err != nil {
		return err
	}
	return o.client.try(ctx, o.goal("remove", fault.None), 0, func(ctx context.Context) (int, error) {
		o.count(func(c *counter) { c.requests.Add(1) })
		err := o.store.remove(ctx, o.address)
		if f := (*failure)(nil); errors.As(err, &f) && f.status == http.StatusNotFound {
			err = nil
		}
		return 0, err
	})
}

// DropUploads removes the parts of uploads below an address that were not finished, of objects whose name behind it is
// one of ours. No list of objects shows them, and they take room all the same. Where a store has no such uploads, or
// removes them itself, it does nothing.
// A packing that was killed leaves them: S3 keeps them until a rule of the bucket or somebody removes them.
func DropUploads(ctx context.Context, prefixURL string, s Storage, ours func(name string) bool) error {
	o, from, err := uploadsOf(prefixURL, s)
	if from == nil {
		return err
	}
	return o.client.try(ctx, o.goal("list the uploads of", fault.None), 0, func(ctx context.Context) (int, error) {
		o.count(func(c *counter) { c.requests.Add(1) })
		return 0, from.drop(ctx, o.address, ours)
	})
}

// CountUploads is how many uploads DropUploads would remove. It is asked once and not for long: where no answer comes,
// or not all of it, it is 0.
// Nothing is removed: the function that it hands on never says yes.
func CountUploads(ctx context.Context, prefixURL string, s Storage, ours func(name string) bool) int {
	o, from, _ := uploadsOf(prefixURL, s)
	if from == nil {
		return 0
	}
	ctx, stop := context.WithTimeout(ctx, o.client.stall())
	defer stop()
	o.count(func(c *counter) { c.requests.Add(1) })
	found := 0
	err := from.drop(ctx, o.address, func(name string) bool {
		if ours(name) {
			found++
		}
		return false
	})
	if err != nil {
		return 0
	}
	return found
}

// dropper is a store that keeps the parts of uploads that were not finished.
// S3 alone: Google drops an unfinished upload after a week, Azure its blocks likewise.
type dropper interface {
	drop(ctx context.Context, prefix address, ours func(name string) bool) error
}

// uploadsOf is nil for a store that keeps none.
func uploadsOf(prefixURL string, s Storage) (*Object, dropper, error) {
	o, err := newObject(prefixURL, s)
	if err != nil {
		return nil, nil, err
	}
	from, _ := o.store.(dropper)
	return o, from, nil
}

// Writable refuses an address where nothing can be written, before any work.
// It asks no server; whether the credentials may write shows at the first part.
func Writable(url string) error {
	a, err := parse(url)
	if err != nil {
		return err
	}
	switch a.scheme {
	case "s3", "gs", "az":
		return nil
	}
	return &Error{URL: a.display(), Kind: fault.KindUnsupported, offset: fault.None,
		Text: "cannot write there: a dataset is written to s3://, gs:// and az://; what lies at " + a.scheme + ":// is only read"}
}

func (w *webStore) create(context.Context, address, int) (upload, error) {
	return nil, unsupported("a server of plain HTTP is only read")
}

func (w *webStore) remove(context.Context, address) error {
	return unsupported("a server of plain HTTP is only read")
}
