package remote

import (
	"context"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// upload is an object in the making.
type upload interface {
	write(p []byte) (int, error)
	commit() error
	abort() error
}

// Writer makes an object. Nothing of it is visible before Commit has returned. Either Commit or Abort
// ends it; what a process leaves that dies before is an incomplete upload, which takes room in the
// bucket until its rules remove it, and which no reader sees.
type Writer struct {
	ctx    context.Context
	object *Object
	upload upload
	began  time.Time
	failed error
	ended  bool
}

// Create begins an object, which replaces one of its name when it is committed. The context is that of
// the whole upload; its parts are sent by the store's library, several at once, each tried again.
func Create(ctx context.Context, url string, s Storage) (*Writer, error) {
	followEnvironment()
	o, err := newObject(url, s)
	if err != nil {
		return nil, err
	}
	w := &Writer{ctx: ctx, object: o, began: time.Now()}
	o.count(func(c *counter) { c.requests.Add(1) })
	if w.upload, err = o.store.create(ctx, o.address); err != nil {
		return nil, w.error(err)
	}
	return w, nil
}

func (w *Writer) error(err error) error {
	return w.object.client.finish(w.ctx, w.object.goal("write", fault.None), err, 0, time.Since(w.began))
}

// Write sends p, or keeps it until a part is full. After an error nothing more is written.
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

// Commit makes the object visible, whole. After an error nothing is.
func (w *Writer) Commit() error {
	switch {
	case w.ended:
		return w.error(&failure{kind: fault.KindClosed, text: "it has ended already"})
	case w.failed != nil:
		w.Abort()
		return w.failed
	}
	w.ended = true
	if err := w.upload.commit(); err != nil {
		return w.error(err)
	}
	return nil
}

// Abort ends the upload and removes its parts. After Commit it does nothing. An error says that parts
// may be left in the bucket.
func (w *Writer) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	if err := w.upload.abort(); err != nil {
		return w.error(&failure{kind: fault.KindUnreachable, text: "parts of the incomplete upload may be left: " + classify(err).text})
	}
	return nil
}

func (w *webStore) create(context.Context, address) (upload, error) {
	return nil, unsupported("a server of plain HTTP is only read")
}
