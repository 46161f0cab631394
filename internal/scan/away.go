package scan

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
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

// These constants limit what one scan does at the same time, and what it keeps in memory.
const (
	// awayAtOnce is how many containers are walked at a time: each reads ahead, and mostly waits for the store.
	awayAtOnce = 4
	// sniffedAtOnce is how many files are checked for their kind at a time, with a request or two each.
	sniffedAtOnce = 32
	// maxBeside limits a file beside a container that is kept in memory.
	maxBeside = 1 << 30
)

// awayFiles are the opened containers in a store, in their order.
// names and objects have an entry for each file. The index holds the names, so they have no scheme, host and query:
// when the index is opened, the files may be below another address.
type awayFiles struct {
	ctx     context.Context
	storage remote.Storage
	below   string // the address that all files are below, with the query that all share
	shown   string // the same for messages
	names   []string
	objects []*remote.Object
	lit     *litFolder // the index of LitData's chunks
}

// atOnce returns how many containers are walked at a time.
// A nil awayFiles stands for files on disk, whose walks are limited by the number of cores.
func (a *awayFiles) atOnce() int {
	if a == nil {
		return processors.Cores()
	}
	return awayAtOnce
}

// OpenAway opens containers in a store by their headers, and takes as long as fetching those takes. A source is an
// object, a pattern, or an address below which all containers are meant. The dataset then reads the containers where
// they are.
func OpenAway(ctx context.Context, sources []string, o Options) (*catalog.Dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Root != "" {
		return nil, catalog.NewError(fault.KindArgument, remote.Display(sources[0]), "root is for an index of containers, and these are containers themselves")
	}
	var each []string
	for _, source := range sources {
		each = append(each, apart(source)...)
	}
	sources = each
	// The store's list is asked for before any object, because it says what is there and how large it is.
	// It also refuses sources that are not URLs.
	found, err := expandAllAway(ctx, sources, o.Storage)
	if err != nil {
		return nil, err
	}
	files, named := found.files, found.named
	o.rows = found.rows
	source := remote.Display(sources[0])
	// The split is chosen before the files are opened, so that a file outside it costs no request. An error is kept until
	// the kind of the files is known, because in an LMDB a split is a database, whatever the files' names are.
	chosen, wrong := chooseSplit(source, files, named, &o)
	if wrong == nil {
		files = chosen
	}
	if len(files) > maxFiles {
		return nil, catalog.NewError(fault.KindLimit, source, "there are %d containers (expected at most %d)", len(files), maxFiles)
	}
	// All chunks of LitData share one index, which is one object. So it is read once, for all of them.
	a := &awayFiles{ctx: ctx, storage: o.Storage}
	a.lit = &litFolder{open: a.readBeside}
	if err := a.place(files); err != nil {
		return nil, err
	}
	kinds, err := a.open(files)
	if err != nil {
		return nil, err
	}
	// A folder may hold anything, so other files in it are ignored. A file that was named, or that a saved dataset names,
	// has to be a container; otherwise there is an error below.
	if !named && !found.saved { // the files come from a folder or pattern
		opened := slices.Clone(files) // files is filtered in place
		if files, kinds = a.containers(files, kinds, found.fixed); len(files) == 0 && len(found.folders) > 0 {
			return openSplitAway(ctx, found.below, found.folders, o)
		}
		if missed, ok := without(files, opened, found.each); len(files) == 0 || ok {
			return nil, noContainerAway(ctx, cmp.Or(missed, sources[0]), o.Storage)
		}
		if o.Split == "" { // files that were ignored are no splits
			_, wrong = chooseSplit(source, files, named, &o)
		}
	}
	if wrong != nil && !o.splitInside(files, func(i int) string { return kinds[i].name }) {
		return nil, wrong
	}
	// These texts are for errors, which must not show a signature in an address's query.
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

// place finds the address that all files are below. An index holds it, but without the query, which may be a secret. So
// all files must have the same query.
func (a *awayFiles) place(files []string) error {
	query := ""
	// The first file gives the query and a folder; each later file may move that folder further up.
	for i, file := range files {
		base, own := file, ""
		if strings.HasPrefix(file, "http") {
			base, own, _ = strings.Cut(file, "?") // without a fragment (remote.Normal)
		}
		// The query is sent for every object below the address, so all must share it.
		if i > 0 && own != query {
			return catalog.NewError(fault.KindArgument, remote.Display(file), "the addresses have different queries (expected the same query in all, because one root address has to lead to all of them)")
		}
		// remote.IsURL has checked that "://" is there, so a slash is always found.
		folder := base[:strings.LastIndexByte(base, '/')]
		if query = own; i == 0 {
			a.below = folder
		}
		// Move up folder by folder until the address contains this file as well.
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
		// Only addresses of http have escapes (RFC 3986, 2.1); with a store's own scheme a key is written as it is.
		// remote.Join escapes the name again.
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
// It makes a request or two for each file. One error ends all of them, because there will be no dataset.
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
	// Errors are looked for in the order of the files, so that the same one is reported each time.
	for _, err := range errs { // the first error that is not the cancelling after another error
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

// look opens one object and finds its kind by its first bytes.
func (a *awayFiles) look(ctx context.Context, i int, file string) (found kind, err error) {
	defer fault.Recover(&err)
	object, err := remote.Open(ctx, file, a.storage)
	if err != nil {
		return kind{}, err
	}
	a.objects[i] = object
	// An object without bytes is known by its name alone.
	if object.Size() == 0 {
		return kindOfBlank(object.URL()), nil
	}
	// Of the beginnings by which kinds are known, a tar's header is the longest.
	head := make([]byte, min(formats.TarBlock, object.Size()))
	if err := object.ReadAt(ctx, head, 0); err != nil {
		return kind{}, err
	}
	r := &reading{ctx: ctx, object: object}
	// LitData comes before the other kinds, because a chunk begins with the number of its items, which may look like
	// anything.
	// Its chunks always have this extension; for other files the request for the index beside them is saved.
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

// containers drops the files that are no containers, if the files come from a folder or pattern. Those in
// fixed stay.
func (a *awayFiles) containers(files []string, kinds []kind, fixed map[string]bool) ([]string, []kind) {
	isContainer := func(i int) bool { return kinds[i].name != "" && !kinds[i].beside || fixed[files[i]] }
	var found []string
	for i, file := range files {
		if isContainer(i) && !kinds[i].blank {
			found = append(found, file)
		}
	}
	// The four slices are filtered in place and stay aligned.
	known, n := likesOf(found), 0
	for i, file := range files {
		// containersIn has the same rule for a folder on disk.
		if missed := kinds[i].name == "" && known.has(file); !missed && !isContainer(i) {
			continue
		}
		files[n], kinds[n], a.names[n], a.objects[n] = files[i], kinds[i], a.names[i], a.objects[i]
		n++
	}
	a.names, a.objects = a.names[:n], a.objects[:n]
	return files[:n], kinds[:n]
}

// without returns the first address of which files were opened, but no container is left; ok is false if there is
// none. Addresses may overlap.
func without(left, opened []string, each []origin) (address string, ok bool) {
	if slices.Equal(left, opened) {
		return "", false
	}
	was, is := make(map[string]bool), make(map[string]bool)
	for _, file := range opened {
		was[file] = true
	}
	for _, file := range left {
		is[file] = true
	}
	for _, o := range each {
		if slices.ContainsFunc(o.files, func(file string) bool { return was[file] }) &&
			!slices.ContainsFunc(o.files, func(file string) bool { return is[file] }) {
			return o.address, true
		}
	}
	return "", false
}

// reading is an object as an io.ReaderAt, with the error of a failed read.
type reading struct {
	ctx    context.Context
	object *remote.Object
	failed error
}

// ReadAt implements io.ReaderAt. Of a range that ends behind the object it reads what exists, and returns io.EOF.
func (r *reading) ReadAt(to []byte, offset int64) (int, error) {
	n := min(int64(len(to)), r.object.Size()-offset)
	if offset < 0 || n < 0 {
		return 0, io.EOF
	}
	if err := r.object.ReadAt(r.ctx, to[:n], offset); err != nil {
		// Code that guesses a kind takes a failed read for "no". The error is kept so that the caller can see the difference.
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
	// The ends are read with two requests of their own. A tape would fetch megabytes for the last 64 KiB.
	// walkFile does the same on disk.
	ends, err := catalog.EndsOf(r, object.Size())
	if err != nil {
		return nil, catalog.ShardInfo{}, catalog.OutOfStore(err)
	}
	shard := catalog.ShardInfo{Name: a.names[i], Size: object.Size(), Ends: fmt.Sprintf("%08x", ends), Version: object.Version()}
	// The walk may keep this much memory: a row of a table for every few kilobytes of a container.
	if short := headroom.Memory(min(shard.Size/64, 256<<20)); short != nil {
		return nil, shard, short
	}
	t := tape.New(a.ctx, object)
	defer t.Close()
	p := newPart(formats.NewWindow(t), shard.Size, o)
	p.path, p.lit = object.URL(), a.lit
	// A walker sees by this that its container is in a store, where a read at another place costs megabytes.
	p.beside = a.readBeside
	err = walk(p)
	shard.Rows = int64(p.rows())
	// An error of the store is not the container's fault, however deep it is wrapped in a walker's error.
	if of := (*remote.Error)(nil); errors.As(err, &of) {
		err = catalog.OutOfStore(of)
	}
	return p, shard, err
}

// readBeside reads another object as a whole. It takes the address in the form for messages.
func (a *awayFiles) readBeside(shown string) (io.ReadCloser, error) {
	at, err := remote.Join(a.below, strings.TrimPrefix(shown, a.shown+"/"))
	if err != nil {
		return nil, err
	}
	return wholeObject(a.ctx, at, a.storage)
}

// wholeObject reads a small object into memory.
// The store states the size, so it is checked before memory is allocated.
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
