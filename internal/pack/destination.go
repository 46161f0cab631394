package pack

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
)

// A destination is where a packed dataset is written. Its manifest is created last, because without it nothing opens.
// Jobs are the same for both kinds: a directory that a rename makes visible, and objects that become visible when they
// are committed.
type destination interface {
	// create begins a file of the dataset with at most that many bytes; 0: the size is not known.
	create(name string, most int64) (catalog.Made, error)
	// publish makes visible what was committed. The warning is a sentence about what could not be done besides.
	publish() (warning string, err error)
	// abandon removes everything. It returns a clause about what is left nevertheless, or "".
	abandon() string
	// path returns where the dataset will be, for messages.
	path() string
}

// newDestination checks a place and begins there.
// Before any image is read, it refuses what could not be published hours later.
func newDestination(ctx context.Context, place string, overwrite bool, storage remote.Storage) (destination, error) {
	if remote.IsURL(place) {
		return newUpload(ctx, remote.Normal(place), overwrite, storage)
	}
	if said := remote.Mistaken(place); said != "" { // otherwise a folder of that name would be made
		return nil, catalog.NewError(fault.KindArgument, "", "%s", said)
	}
	return newPartial(place, overwrite)
}

// create makes a stream only of a tar, because other files are too short to fill its windows.
func (p *partial) create(name string, _ int64) (catalog.Made, error) {
	path := filepath.Join(p.dir, name)
	f, err := catalog.Create(path)
	if err != nil {
		return nil, catalog.IOError(path, "cannot create", err)
	}
	if strings.HasSuffix(name, ".tar") {
		return &streamed{OnDisk: f, stream: stream{file: f.File}}, nil
	}
	return f, nil
}

func (p *partial) path() string { return p.destination }

// streamed is a shard that is being written to the disk.
type streamed struct {
	*catalog.OnDisk
	stream stream
}

func (s *streamed) Write(p []byte) (int, error) { return s.stream.Write(p) }

// upload is a dataset that is written below an address. Its objects become visible one by one when they are committed,
// the manifest last. A process that is killed leaves shards that nothing opens.
// Shards of an unfinished packing do no harm, because readers begin with the manifest. They are listed by name, and
// replaced with overwrite.
type upload struct {
	ctx     context.Context
	url     string
	storage remote.Storage
	before  []string // names below it, if a dataset is overwritten
	others  int      // number of incomplete uploads of its names that were there before

	late   atomic.Bool // the store took longer than the caller allows
	waited atomic.Bool // a commit was waited for after the end of the context, and the store gave no answer

	// The goroutines that commit shards use the following members, beside the one that writes.
	mu     sync.Mutex
	made   map[string]presence // names that may be there
	left   []string            // names of which parts may be left
	clears *clearing
}

// presence says whether an object is in the store.
type presence uint8

const (
	unanswered presence = iota // the store has not answered the commit, and may still carry it out
	refused                    // the store has refused the commit
	committed
)

// newUpload refuses an address below which something lies, unless that is a packed dataset or the rest of one and may
// be overwritten. Then it removes the manifest first, so that no reader takes new shards for old ones.
// A prefix cannot be locked like a directory, so two packings to one address at a time do not notice each other.
func newUpload(ctx context.Context, url string, overwrite bool, storage remote.Storage) (*upload, error) {
	if err := remote.Writable(url); err != nil {
		return nil, catalog.OutOfStore(err)
	}
	url = strings.TrimRight(url, "/")
	// Such a name could not be opened, because it means a pattern.
	if strings.ContainsAny(path.Base(url), "*{}") {
		return nil, catalog.NewError(fault.KindArgument, remote.Display(url), "the last part of the address is a pattern where a dataset is opened (expected none of * { } in it)")
	}
	u := &upload{ctx: ctx, url: url, storage: storage, made: make(map[string]presence)}
	// The slash is added so that "data" does not find "data2".
	entries, err := remote.List(ctx, url+"/", storage)
	if err != nil {
		return nil, catalog.OutOfStore(err)
	}
	whole := false
	for _, entry := range entries {
		name := strings.TrimPrefix(entry.URL, url+"/")
		if name == "" { // consoles make such an object for a folder
			continue
		}
		if !ownName(name) {
			return nil, catalog.NewError(fault.KindArgument, u.path(), "below the destination lies %.200q, which is no part of a packed dataset, so nothing is written there", name)
		}
		u.before = append(u.before, name)
		whole = whole || name == catalog.ManifestName
	}
	switch {
	case u.before == nil:
	case !overwrite && whole:
		return nil, catalog.NewError(fault.KindArgument, u.path(), "the destination exists; overwrite (--overwrite) replaces a packed dataset")
	case !overwrite:
		return nil, catalog.NewError(fault.KindArgument, u.path(), "the destination holds %d files of a packing that was not finished; overwrite (--overwrite) replaces them", len(u.before))
	case whole:
		if err := u.remove(ctx, catalog.ManifestName); err != nil {
			return nil, catalog.OutOfStore(err)
		}
	}
	if overwrite {
		// These are from a packing that was killed. The error is ignored, because who may write need not be allowed to list
		// them.
		_ = remote.DropUploads(ctx, url+"/", storage, ownName)
	} else {
		// They may belong to a packing that is at work, so they are counted and left.
		u.others = remote.CountUploads(ctx, url+"/", storage, ownName)
	}
	return u, nil
}

func (u *upload) path() string { return remote.Display(u.url) }

// remove removes one object; it is no error if there is none.
func (u *upload) remove(ctx context.Context, name string) error {
	at, err := remote.Join(u.url, name)
	if err != nil {
		return err
	}
	return remote.Remove(ctx, at, u.storage)
}

// create begins an object. The store's library chooses the size of its parts by most.
func (u *upload) create(name string, most int64) (catalog.Made, error) {
	at, err := remote.Join(u.url, name)
	if err != nil {
		return nil, catalog.OutOfStore(err)
	}
	w, err := remote.Create(u.ctx, at, most, u.storage)
	if err != nil {
		return nil, catalog.OutOfStore(err)
	}
	return &object{Writer: w, upload: u, name: name}, nil
}

// publish removes what an overwritten dataset had and the new one has not. The manifest is visible already.
func (u *upload) publish() (warning string, err error) {
	for _, name := range u.before {
		// A new object of that name has replaced it.
		if _, again := u.made[name]; again {
			continue
		}
		if err := u.remove(u.ctx, name); err != nil && warning == "" {
			warning = fmt.Sprintf("%s of the dataset that was overwritten is left: %v", name, err)
		}
	}
	if u.others > 0 && warning == "" {
		warning = fmt.Sprintf("%s: %d uploads to it that an earlier packing did not finish take room in the bucket; overwrite (--overwrite) removes them", u.path(), u.others)
	}
	return warning, nil
}

// object is an object that is being uploaded.
type object struct {
	*remote.Writer
	upload *upload
	name   string
}

// Name returns the address for messages, without query and password.
func (o *object) Name() string { return o.URL() }

// Write sends bytes of the shard. An error is noted, because what follows may have less time.
func (o *object) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	return n, o.upload.noted(err)
}

// Commit makes the object visible. Its name is noted before the request, so that abandon removes it whatever the answer
// is.
func (o *object) Commit() error {
	u := o.upload
	u.note(o.name, unanswered) // if the answer gets lost, the object may exist
	err := u.noted(o.Writer.Commit())
	var answer *remote.Error
	switch {
	case err == nil:
		u.note(o.name, committed)
		// The answer may have come after somebody ended the job, which then has to leave nothing.
		if u.ctx.Err() != nil {
			err = catalog.NewError(fault.KindClosed, u.path(), "the wait for it was ended")
		}
	case errors.As(err, &answer) && answer.Status/100 == 4:
		u.note(o.name, refused)
	case u.ctx.Err() != nil:
		u.waited.Store(true)
	}
	return err
}

// note is called twice for a name: before the request and with its answer.
func (u *upload) note(name string, found presence) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.made[name] = found
}

// Abandon ends an upload. What was committed is removed later, with all the rest.
func (o *object) Abandon() {
	c := o.upload.clearing()
	if o.Abort(c.ctx) != nil {
		o.upload.leave(o.name)
	}
	c.answered()
}

// leftBehind adds to an error what could not be removed.
// It changes a copy, because others may hold the error.
func leftBehind(err error, clause string) error {
	if clause == "" || err == nil {
		return err
	}
	var e *catalog.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%w; %s", err, clause)
	}
	own := *e
	own.Text, own.Err = own.Clause()+"; "+clause, nil
	return &own
}
