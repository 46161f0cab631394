package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/tape"
)

// Bounds of what goes on beside each other in one scan, and of what it holds.
const (
	// awayAtOnce containers are walked at a time: each reads ahead, and most of the time waits.
	awayAtOnce = 4
	// sniffedAtOnce are looked at for their kind at a time, a request or two each.
	sniffedAtOnce = 32
	// maxBeside bounds a file beside a container that is held in memory.
	maxBeside = 1 << 30
)

// awayFiles are containers in a store, opened, in their order.
// names and objects have an entry for each file. A name is what an index says, so without scheme, host and query: when the
// index is opened the files may lie below another address.
type awayFiles struct {
	ctx     context.Context
	storage remote.Storage
	below   string // the address that all names are below, with the query that all have
	shown   string // the same for texts
	names   []string
	objects []*remote.Object
	lit     *litFolder // of LitData's chunks
}

// atOnce is how many containers are walked at a time.
// nil stands for files on disk, where a core is what a walk waits for.
func (a *awayFiles) atOnce() int {
	if a == nil {
		return processors.Cores()
	}
	return awayAtOnce
}

// OpenAway opens containers in a store by their headers, which takes as long as to fetch them: an object, what
// a pattern stands for, or all that lie directly below an address. The dataset reads them where they are.
func OpenAway(ctx context.Context, sources []string, o Options) (*catalog.Dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Root != "" {
		return nil, catalog.NewError(fault.KindArgument, remote.Display(sources[0]), "root is for an index of containers, and these are containers themselves")
	}
	// The list of a store is asked for before any object is: it tells what is there, and its sizes.
	// What is no URL among them is refused there.
	found, err := expandAllAway(ctx, sources, o.Storage)
	if err != nil {
		return nil, err
	}
	files, named := found.files, found.named
	o.rows = found.rows
	source := remote.Display(sources[0])
	// Before the files are opened, so that one which is left out costs no request. The error is kept until it is known what
	// the files are: of an LMDB a split is a database, whatever the files are called.
	chosen, wrong := chooseSplit(source, files, named, &o)
	if wrong == nil {
		files = chosen
	}
	if len(files) > maxFiles {
		return nil, catalog.NewError(fault.KindLimit, source, "there are %d containers (expected at most %d)", len(files), maxFiles)
	}
	// The index of LitData's chunks is one object for all of them, so it is asked for through what all share.
	a := &awayFiles{ctx: ctx, storage: o.Storage}
	a.lit = &litFolder{open: a.readBeside}
	if err := a.place(files); err != nil {
		return nil, err
	}
	kinds, err := a.open(files)
	if err != nil {
		return nil, err
	}
	// A folder may hold whatever else. What was named, or what a saved dataset names, has to be a container: it is an
	// error below if not.
	if !named && !found.saved { // what was looked for, as in a folder: what is no container is passed over
		if files, kinds = a.containers(files, kinds); len(files) == 0 {
			if len(found.folders) > 0 {
				return openSplitAway(ctx, found.below, found.folders, o)
			}
			return nil, catalog.NewError(fault.KindEmpty, source, "there is no container that is known (%q)", Formats)
		}
		if o.Split == "" { // what was passed over is no split
			_, wrong = chooseSplit(source, files, named, &o)
		}
	}
	if wrong != nil && !o.splitInside(files, func(i int) string { return kinds[i].name }) {
		return nil, wrong
	}
	// For errors, which must not show a signature that an address may have in its query.
	texts := make([]string, len(files))
	for i, file := range files {
		texts[i] = remote.Display(file)
	}
	o.away, o.lit = a, a.lit
	kind, err := oneKind(texts, &o, func(i int) (kind, error) { return kinds[i], nil })
	if err != nil {
		return nil, err
	}
	t, err := scan(texts, kind.name, o)
	if err != nil {
		return nil, err
	}
	return catalog.FromTableAway(t, a.below, a.storage)
}

// place finds the address that all files lie below. An index says that, and no query, which may be a secret; so
// all have to have the same one.
func (a *awayFiles) place(files []string) error {
	query := ""
	// The first file decides on the query and on a folder; each one behind it may lead that folder further up.
	for i, file := range files {
		base, own := file, ""
		if strings.HasPrefix(file, "http") {
			base, own, _ = strings.Cut(file, "?")
			base, _, _ = strings.Cut(base, "#")
		}
		// A query goes to every object below, so it has to be one that all may have.
		if i > 0 && own != query {
			return catalog.NewError(fault.KindArgument, remote.Display(file), "the addresses have different queries (expected the same query in all, because one root address has to lead to all of them)")
		}
		// An address that remote.IsURL takes has two slashes behind its scheme, so there is always one.
		folder := base[:strings.LastIndexByte(base, '/')]
		if query = own; i == 0 {
			a.below = folder
		}
		// Up, folder by folder, until the address is above this one, too.
		for !strings.HasPrefix(base, a.below+"/") {
			up := strings.LastIndexByte(a.below, '/')
			if up < 0 || strings.HasSuffix(a.below[:up+1], "://") {
				return catalog.NewError(fault.KindArgument, remote.Display(file), "the containers lie in several buckets or hosts; index them apart and concatenate them")
			}
			a.below = a.below[:up]
		}
	}
	for _, file := range files {
		base := file
		if query != "" {
			base = strings.TrimSuffix(file, "?"+query)
		}
		name := strings.TrimPrefix(base, a.below+"/")
		// Only addresses of http have escapes (RFC 3986, 2.1); a store's own scheme has keys as they are. remote.Join escapes
		// the name again.
		if strings.HasPrefix(file, "http") {
			plain, err := url.PathUnescape(name)
			if err != nil {
				return catalog.NewError(fault.KindArgument, remote.Display(file), "its escapes are not understood")
			}
			name = plain
		}
		a.names = append(a.names, name)
	}
	if a.shown = strings.TrimSuffix(remote.Display(a.below), "/"); query != "" {
		a.below += "?" + query
	}
	return nil
}

// open finds size, version and kind of all files.
// It takes a request or two for each file; one error ends all of them, for there will be no dataset.
func (a *awayFiles) open(files []string) ([]kind, error) {
	a.objects = make([]*remote.Object, len(files))
	kinds, errs := make([]kind, len(files)), make([]error, len(files))
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(len(files), sniffedAtOnce) {
		workers.Go(func() {
			for i := range next {
				if kinds[i], errs[i] = a.look(ctx, i, files[i]); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	workers.Wait()
	// By the order of files, so that the same error is told each time.
	for _, err := range errs { // the first that is not of being cancelled because of another
		if err != nil && fault.KindOf(err) != fault.KindClosed {
			return nil, catalog.OutOfStore(err)
		}
	}
	for _, err := range errs {
		if err != nil {
			return nil, catalog.OutOfStore(err)
		}
	}
	return kinds, nil
}

// look opens one object and tells its kind by its first bytes.
func (a *awayFiles) look(ctx context.Context, i int, file string) (found kind, err error) {
	defer fault.Recover(&err)
	object, err := remote.Open(ctx, file, a.storage)
	if err != nil {
		return kind{}, err
	}
	a.objects[i] = object
	// Known by its name alone, as no byte of it can be asked for.
	if object.Size() == 0 {
		return kindOfBlank(object.URL()), nil
	}
	// A tar's header is the longest that a kind is known by.
	head := make([]byte, min(formats.TarBlock, object.Size()))
	if err := object.ReadAt(ctx, head, 0); err != nil {
		return kind{}, err
	}
	r := &reading{ctx: ctx, object: object}
	// Before the first bytes, which are the number of items and may be any. Chunks have no other ending, and the index
	// beside one is a request.
	if path.Ext(object.URL()) == litChunkExt {
		chunk := formats.IsLitData(r, object.Size())
		if !chunk {
			if chunk, err = a.lit.names(object.URL()); err != nil {
				return kind{}, err
			}
		}
		if chunk {
			return kind{name: "litdata"}, r.failed
		}
	}
	return kindOfBytes(object.URL(), head, r, object.Size()), r.failed
}

// containers leaves away what is none, of files that were looked for.
func (a *awayFiles) containers(files []string, kinds []kind) ([]string, []kind) {
	isContainer := func(i int) bool { return kinds[i].name != "" && !kinds[i].beside }
	var found []string
	for i, file := range files {
		if isContainer(i) {
			found = append(found, file)
		}
	}
	// Filtered in place: the four slices stay in step.
	known, n := endingsOf(found), 0
	for i, file := range files {
		// As containersIn has it of a folder on disk.
		if missed := kinds[i].blank && known[filepath.Ext(file)]; !missed && !isContainer(i) {
			continue
		}
		files[n], kinds[n], a.names[n], a.objects[n] = files[i], kinds[i], a.names[i], a.objects[i]
		n++
	}
	a.names, a.objects = a.names[:n], a.objects[:n]
	return files[:n], kinds[:n]
}

// reading is an object as an io.ReaderAt, and what went wrong with it.
type reading struct {
	ctx    context.Context
	object *remote.Object
	failed error
}

// ReadAt is io.ReaderAt's. Of a range that ends behind the object it reads what there is, and says io.EOF.
func (r *reading) ReadAt(to []byte, offset int64) (int, error) {
	n := min(int64(len(to)), r.object.Size()-offset)
	if offset < 0 || n < 0 {
		return 0, io.EOF
	}
	if err := r.object.ReadAt(r.ctx, to[:n], offset); err != nil {
		// Whoever guesses a kind takes a read that failed for a no; this tells the two apart.
		r.failed = err
		return 0, err
	}
	if n < int64(len(to)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// walk reads the headers of container i.
func (a *awayFiles) walk(i int, walk func(*part) error, o *Options) (*part, catalog.ShardInfo, error) {
	object := a.objects[i]
	r := &reading{ctx: a.ctx, object: object}
	// Two requests of their own: the pieces of a tape would fetch megabytes for the last 64 KiB.
	// On disk walkFile does the same.
	ends, err := catalog.EndsOf(r, object.Size())
	if err != nil {
		return nil, catalog.ShardInfo{}, catalog.OutOfStore(err)
	}
	shard := catalog.ShardInfo{Name: a.names[i], Size: object.Size(), Ends: fmt.Sprintf("%08x", ends), Version: object.Version()}
	// What the walk may keep: a row of a table for each few kilobytes of a container.
	if short := headroom.Memory(min(shard.Size/64, 256<<20)); short != nil {
		return nil, shard, short
	}
	t := tape.New(a.ctx, object)
	defer t.Close()
	p := newPart(formats.NewWindow(t), shard.Size, o)
	p.path, p.lit = object.URL(), a.lit
	// By this the walkers know that the container lies in a store, where a read elsewhere costs megabytes.
	p.beside = a.readBeside
	err = walk(p)
	shard.Rows = int64(p.rows())
	// What a store said is not the container's fault, however deep in a walker's error it is.
	if of := (*remote.Error)(nil); errors.As(err, &of) {
		err = catalog.OutOfStore(of)
	}
	return p, shard, err
}

// readBeside is another object whole. Its address is one for texts.
func (a *awayFiles) readBeside(shown string) (io.ReadCloser, error) {
	at, err := remote.Join(a.below, strings.TrimPrefix(shown, a.shown+"/"))
	if err != nil {
		return nil, err
	}
	return wholeObject(a.ctx, at, a.storage)
}

// wholeObject holds a small object in memory.
// The size is the store's word, so it is checked before memory is taken.
func wholeObject(ctx context.Context, address string, storage remote.Storage) (io.ReadCloser, error) {
	object, err := remote.Open(ctx, address, storage)
	if err != nil {
		return nil, err
	}
	if object.Size() > maxBeside {
		return nil, catalog.NewError(fault.KindLimit, object.URL(), "the file has %d bytes, the limit is %d", object.Size(), int64(maxBeside))
	}
	if short := headroom.Memory(object.Size()); short != nil {
		return nil, short
	}
	text := make([]byte, object.Size())
	if err := object.ReadAt(ctx, text, 0); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}
