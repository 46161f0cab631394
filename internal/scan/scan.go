package scan

import (
	"errors"
	"os"
	"sync"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/mmap"
)

// walkers has, for each kind, the function that reads the samples of a container into a part.
// A walker reads what identifies samples, and at most the first bytes of an image; the rest is read with its sample.
// For that, compressed containers have to be decoded.
var walkers = map[string]func(*part) error{
	"tar":      scanWebDataset,
	"tfrecord": scanTFRecord,
	"recordio": scanRecordIO,
	"beton":    scanBeton,
	"zip":      scanZip,
	"mds":      scanMDS,
	"lmdb":     scanLMDB,
	"arrow":    scanArrow,
	"parquet":  scanParquet,
	"litdata":  scanLitData,
}

// scan reads the headers of all files, several at a time, and makes one table of them.
// An archive of class folders or of archives is walked twice, because only its end shows that it is one.
func scan(files []string, kind string, o Options) (*catalog.Table, error) {
	root, names := catalog.CommonRoot(files)
	if o.away != nil {
		root, names = o.away.shown, o.away.names
	}
	// format="tar" means class folders and "webdataset" means samples; both are tars.
	walk := walkers[kind]
	if o.Format == "tar" {
		walk = scanClassFolders
	}
	parts, shards, err := walkAll(files, names, walk, &o)
	if err != nil {
		return nil, err
	}
	format, images := kind, kind == "zip" || o.Format == "tar"
	if kind == "tar" && o.Format == "" && o.Image == "" && o.Label == "" && holdArchives(parts) {
		if parts, shards, err = walkAll(files, names, scanInnerTars, &o); err != nil {
			return nil, err
		}
		format, images = "tar", true
	}
	if kind == "tar" && !images {
		format = "webdataset"
		// If the user names a column, the archive has samples with such columns.
		if o.Format == "" && o.Image == "" && o.Label == "" && arePlain(parts) {
			// If there are only images in folders, the folders may be classes.
			folders, again, err := walkAll(files, names, scanImageFiles, &o)
			if err != nil {
				return nil, err
			}
			// Otherwise they are WebDataset's samples that have only images.
			if haveClasses(folders) {
				parts, shards, format, images = folders, again, "tar", true
			}
		}
	}
	var t *catalog.Table
	// If the archive is one of class folders, breaking the rules of WebDataset is no error.
	if err := lateError(files, parts); err != nil && !images {
		return nil, err
	}
	switch {
	case images:
		t, err = imageFiles(root, format, shards, parts, &o)
	case o.within != "":
		err = noSplits(where(root, shards), o.within)
	default:
		t, err = merge(root, format, shards, parts, &o)
	}
	if err == nil && o.rows != nil {
		err = selectRows(t, o.rows, o.away)
	}
	if err != nil {
		return nil, err
	}
	if !images {
		noteWithoutImage(t, parts)
		noteWithoutLabel(t, parts)
	}
	return t, nil
}

// lateError returns the first error that was kept because the archives might be of class folders.
// rows counts the samples of the containers before, as record numbers in errors do.
func lateError(files []string, parts []*part) error {
	rows := int64(0)
	for i, p := range parts {
		if p.late != nil {
			return placed(p.late, files[i], rows, p)
		}
		rows += int64(p.rows())
	}
	return nil
}

// arePlain is true if in all archives the folders hold nothing but images.
func arePlain(parts []*part) bool {
	for _, p := range parts {
		if !p.plain {
			return false
		}
	}
	return true
}

// walkAll walks the files on all cores and returns what each holds, in their order. If several have errors, it returns
// that of the first file, even if another one was met earlier.
func walkAll(files, names []string, walk func(*part) error, o *Options) ([]*part, []catalog.ShardInfo, error) {
	workers, short := processors.Take(min(len(files), o.away.atOnce()), 1)
	if workers < 1 {
		return nil, nil, short
	}
	defer processors.Return(workers)
	// This is a copy, because the options are the caller's.
	counted := *o
	counted.walked = beginWalk(len(files))
	defer counted.walked.end()
	// A panic in a walker becomes an error of its file, so that it does not end the process that loaded the library.
	guarded := func(p *part) (err error) {
		defer fault.Recover(&err)
		return walk(p)
	}
	parts, shards, errs := make([]*part, len(files)), make([]catalog.ShardInfo, len(files)), make([]error, len(files))
	// The channel has no buffer, so files are begun in their order. All files before one with an error were walked, and
	// the first error is the one that a run on one core would give.
	next := make(chan int)
	stop := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				if parts[i], shards[i], errs[i] = walkAnywhere(i, files[i], names[i], guarded, &counted); errs[i] != nil {
					once.Do(func() { close(stop) })
				}
				parts[i].finish()
			}
		})
	}
	// If a worker is free and stop is closed, Go may choose either: then one more file is walked, which does no harm.
feed:
	for i := range files {
		select {
		case next <- i:
		case <-stop:
			break feed
		}
	}
	close(next)
	wg.Wait()
	rows := int64(0)
	for i := range files { // files that were not walked come after one with an error
		if errs[i] != nil {
			return nil, nil, placed(errs[i], files[i], rows, parts[i])
		}
		rows += int64(parts[i].rows())
	}
	return parts, shards, nil
}

// walkAnywhere reads container i on disk or in a store.
func walkAnywhere(i int, file, name string, walk func(*part) error, o *Options) (*part, catalog.ShardInfo, error) {
	if o.away != nil {
		return o.away.walk(i, walk, o)
	}
	return walkFile(file, name, walk, o)
}

// placed adds file and record to a walk's error. An error from a store has its place already.
// A walker knows only the offset; the file and the sample's number in the whole dataset are added here.
func placed(err error, file string, before int64, p *part) error {
	if already := (*catalog.Error)(nil); p != nil && p.beside != nil && errors.As(err, &already) {
		return already
	}
	err = catalog.FormatError(file, err)
	var e *catalog.Error
	if errors.As(err, &e) && p != nil && e.Kind != fault.KindIO {
		e.Record = before + int64(p.rows())
	}
	return err
}

// walkFile reads the headers of a container on disk. It takes size and checksums before the walk, so that a change
// during the walk is noticed when the dataset is opened.
func walkFile(path, name string, walk func(*part) error, o *Options) (p *part, shard catalog.ShardInfo, err error) {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, shard, catalog.IOError(path, "cannot open the container", err)
	}
	defer f.Close()
	if shard, err = catalog.ShardOf(name, f); err != nil {
		return nil, shard, catalog.IOError(path, "cannot read the container", err)
	}
	// Mostly a container's table is much smaller than the container; 1/64 is a guess. Only one made of headers has more.
	if short := headroom.Memory(min(shard.Size/64, 256<<20)); short != nil {
		return nil, shard, short
	}
	p = newPart(formats.NewWindow(f), shard.Size, o)
	p.path, p.lit = path, o.lit
	err = walk(p)
	shard.Rows = int64(p.rows())
	if err == nil {
		// Otherwise a file that is still being written would be indexed with the samples it has so far.
		err = unchanged(f, shard.Size)
	}
	return p, shard, err
}

// unchanged refuses a file that grew or shrank while it was walked.
// It compares the size, which notices a program that appends. Writing in place is at most noticed later, by the
// checksum of the ends.
func unchanged(f *os.File, size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = catalog.NewError(fault.KindBadFile, f.Name(), "%s", fault.Differs("the container changed while it was read", size, info.Size()))
	}
	return err
}
