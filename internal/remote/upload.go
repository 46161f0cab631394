package remote

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// upload is an object that is being written.
// Calls come one after the other. abort may follow a commit that failed.
type upload interface {
	write(p []byte) (int, error)
	commit() error
	abort(context.Context) error
}

// Writer writes an object. Nothing of it is visible before Commit has returned. A Commit without an error ends it, and
// so does Abort. If a process dies before that, it leaves an incomplete upload. No reader sees it, but it takes room in
// the bucket until the bucket's rules remove it.
// A Writer is for one goroutine; the library sends the parts with its own.
type Writer struct {
	ctx    context.Context
	object *Object
	upload upload
	began  time.Time
	failed error
	ended  bool
}

// Sizes of the parts of an upload: S3 accepts 10,000 parts, and each part that is being sent is in memory.
// leastPart is above S3's minimum of 5 MiB for all parts but the last; 10,000 of usualPart are 335 GB.
const (
	leastPart   = 8 << 20
	usualPart   = 32 << 20
	mostParts   = 10_000
	partsAtOnce = 4
)

// AnswerTime is how long a commit waits for the store's answer after its caller's context has ended.
const AnswerTime = 250 * time.Millisecond

// partBytes returns the length of the parts of an object with at most that many bytes; 0 means that the size is not
// known.
func partBytes(most int64) int {
	if most <= 0 {
		return usualPart
	}
	// The length is in whole MiB, rounded up, so that 10,000 parts are enough.
	return int(max(leastPart, (most/mostParts+1<<20)>>20<<20))
}

// Create begins an object, which replaces one of the same name when it is committed. The context is that of the whole
// upload. The store's library sends the parts, several at once, and retries each. most is the largest number of bytes
// that the object may have, or 0 if that is not known; a small one saves memory.
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

// error has no number of attempts, because the library sends the parts and does not say how often it tried.
func (w *Writer) error(err error) error {
	return w.object.client.finish(w.ctx, w.object.goal("write", fault.None), err, 0, time.Since(w.began))
}

// Write sends p, or keeps it until a part is full. After an error nothing more is written.
// What was sent before an error is useless; Abort removes it.
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

// Commit makes the whole object visible. After an error nothing is visible, and Abort removes what was sent.
// Commit may take as long as the store needs to join the parts. If the context of the upload ends meanwhile, it waits for
// AnswerTime at most. A store that answers within that time has made the object, and then there is no error.
func (w *Writer) Commit() error {
	switch {
	case w.ended:
		return w.error(&failure{kind: fault.KindClosed, text: "it has ended already"})
	case w.failed != nil:
		return w.failed
	}
	// The answer may be lost although the object exists. So whoever abandons the object removes it by its name as well.
	if err := w.upload.commit(); err != nil {
		w.failed = w.error(err)
		return w.failed
	}
	w.ended = true
	return nil
}

// Abort ends the upload and removes its parts, as long as the context allows. After Commit it does nothing. An error
// says that parts may be left in the bucket.
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

// URL returns the address of the object, for messages.
func (w *Writer) URL() string { return w.object.URL() }

// Remove removes an object. It is no error if there is none.
// If two callers remove it at once, both succeed.
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

// DropUploads removes the parts of unfinished uploads below an address, if ours is true for the rest of the object's
// name.
// No list of objects shows such parts, but they take room. It does nothing if a store keeps no such uploads or removes
// them itself.
// A packing that was killed leaves them, and S3 keeps them until a rule of the bucket or somebody removes them.
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

// CountUploads returns how many uploads DropUploads would remove. It asks once and does not wait long. Without a
// complete answer it returns 0.
// Nothing is removed, because the function that it passes on always returns false.
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

// dropper is a store that keeps the parts of unfinished uploads.
// Only S3 does: Google drops an unfinished upload after a week, and Azure its blocks likewise.
type dropper interface {
	drop(ctx context.Context, prefix address, ours func(name string) bool) error
}

// uploadsOf returns a nil dropper for a store that keeps no unfinished uploads.
func uploadsOf(prefixURL string, s Storage) (*Object, dropper, error) {
	o, err := newObject(prefixURL, s)
	if err != nil {
		return nil, nil, err
	}
	from, _ := o.store.(dropper)
	return o, from, nil
}

// Writable refuses an address that cannot be written to, before any work is done.
// It asks no server. Whether the credentials allow writing shows at the first part.
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
