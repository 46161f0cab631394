package scan

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

// keptVersion stands in every key. It rises when a walker finds anything else in a file than before.
// A version of Headrace is in the key as well (catalog.CreatedBy); this number is for changes between two of them.
const keptVersion = 10

// settled is how old a file must be for its scan to be kept: one that was written to in the same tick of the
// file system's clock would have the same size and time, and other bytes.
const settled = 2 * time.Second

// keeper finds the scan of some files in the user's cache, and keeps it there.
// One serves one opening. It is nil wherever anything speaks against keeping: then the files are scanned, which is slow
// and right.
type keeper struct {
	cache  *cache.Cache
	key    cache.Key
	files  []string
	stamps []stamp
}

// stamp is what tells a version of a file from another.
type stamp struct{ size, time int64 }

// newKeeper is nil where nothing is kept: without a cache, and of files that are still written to.
// The key is a hash of all that a scan depends on: the walkers' version, the options, and of each file its path, size
// and time.
func newKeeper(files []string, kind string, o *Options) *keeper {
	k := &keeper{files: files}
	h := sha256.New()
	words := *o
	// Where it lies and by whose credentials is no part of what is in it; files are by their paths below.
	words.Options = catalog.Options{}
	if err := json.NewEncoder(h).Encode([]any{keptVersion, catalog.CreatedBy, kind, words}); err != nil {
		return nil
	}
	for i, file := range append(files[:len(files):len(files)], append(o.rows, beside(files, choose(o.Label, labelNames).names)...)...) {
		s, ok := stampOf(file)
		// A file beside them need not be there, and its absence is part of the key.
		if !ok && i < len(files) || ok && time.Since(time.Unix(0, s.time)) < settled {
			return nil
		}
		if i < len(files) {
			k.stamps = append(k.stamps, s)
		}
		// One file by two paths is scanned twice, which is better than two files by one.
		path, err := filepath.Abs(file)
		if err != nil {
			return nil
		}
		// As bytes, for a path need be no UTF-8, and JSON would put the same letter in the place of each wrong one.
		if json.NewEncoder(h).Encode([]any{[]byte(path), s.size, s.time}) != nil {
			return nil
		}
	}
	k.key = cache.Key(h.Sum(nil)[:16])
	if k.cache, _ = cache.OpenUsers(); k.cache == nil {
		return nil
	}
	return k
}

// beside are files that say something of containers in their own folder, where there are such.
// They are part of the key though they are seldom there: a walker looks for them, and its result would be another one.
func beside(files, labels []string) (paths []string) {
	seen := make(map[string]bool)
	for _, file := range files {
		stem := strings.TrimSuffix(file, filepath.Ext(file))
		paths = append(paths, file+".idx", stem+".idx")
		if dir := filepath.Dir(file); !seen[dir] {
			seen[dir] = true
			for _, name := range []string{savedStateName, savedInfo, "index.json"} {
				paths = append(paths, filepath.Join(dir, name))
			}
			for _, name := range labels {
				paths = append(paths, namesFile(file, name))
			}
		}
	}
	return paths
}

// stampOf is false of a file that cannot be looked at.
// Permissions and owner do not matter: whoever may not read a file finds that out in confirmed.
func stampOf(path string) (stamp, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, false
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}, true
}

// scanOrKept is scan, or what an earlier one found. Of several processes that open the same files at once, one
// scans and the others wait for what it finds.
// An error of a scan is not kept. The file may be mended, and the sentence is to name what is there now.
func scanOrKept(files []string, kind string, o Options) (*catalog.Dataset, error) {
	k := newKeeper(files, kind, &o)
	if k == nil {
		t, err := scan(files, kind, o)
		if err != nil {
			return nil, err
		}
		return catalog.FromTable(t)
	}
	t := k.find()
	// Ranks of a machine open their datasets at the same moment; without a turn each would scan.
	if t == nil {
		defer k.cache.Turn(k.key)()
		k.cache.Look()
		t = k.find()
	}
	defer k.cache.Close() // before the turn ends, so that what was put is there for the next
	if t != nil {
		return catalog.FromTable(t)
	}
	t, err := scan(files, kind, o)
	if err != nil {
		return nil, err
	}
	d, err := catalog.FromTable(t)
	if err == nil {
		k.put(t)
	}
	return d, err
}

// find is nil where nothing is kept, or anything of it is not what it should be.
// Whatever is wrong with the kept bytes, the files can be scanned: no error leaves this function.
func (k *keeper) find() *catalog.Table {
	var buffer mmap.Buffer
	defer buffer.Free()
	// A head and then its parts, for the cache bounds the size of a value.
	head, ok := k.cache.Get(k.key, &buffer)
	if !ok || head.Length != headBytes {
		return nil
	}
	// Two processes may keep the same scan at the same time. Each has a number of its own for its parts, and the head names
	// that of the one who wrote last, so that parts of two are not mixed.
	id, size := *(*[16]byte)(head.Bytes()), binary.LittleEndian.Uint64(head.Bytes()[16:])
	if size > uint64(k.most()) || headroom.Memory(2*int64(size)) != nil {
		return nil
	}
	data := make([]byte, 0, size)
	for n := 0; uint64(len(data)) < size; n++ {
		part, ok := k.cache.Get(partKey(id, n), &buffer)
		if !ok || part.Length == 0 || uint64(part.Length) > size-uint64(len(data)) {
			return nil
		}
		data = append(data, part.Bytes()...)
	}
	t, err := decodeTable(data)
	if err != nil || !k.confirmed(t) {
		return nil
	}
	return t
}

// confirmed: the files are those of the table, by their sizes, times and ends.
// It opens every file, as a scan does; what is saved are the walks.
func (k *keeper) confirmed(t *catalog.Table) bool {
	if len(t.Shards) != len(k.files) {
		return false
	}
	root, names := catalog.CommonRoot(k.files)
	// The root is that of today's paths: the same files may be opened from another working directory.
	if t.Root = root; !k.unchanged(t) {
		return false
	}
	for i, file := range k.files {
		f, err := mmap.OpenRegular(file)
		if err != nil {
			return false
		}
		now, err := catalog.ShardOf(names[i], f)
		f.Close()
		now.Rows = t.Shards[i].Rows
		t.Shards[i].Name = names[i] // of any bytes, which JSON does not keep
		// The checksum of both ends finds a file that was written over in place with its time put back.
		if err != nil || now != t.Shards[i] {
			return false
		}
	}
	return true
}

// unchanged: the table is of the files as they were when the key was made.
// The times are those from before the scan, so that a file which changed during it is seen.
func (k *keeper) unchanged(t *catalog.Table) bool {
	for i, s := range t.Shards {
		if (stamp{s.Size, s.MTimeNs}) != k.stamps[i] {
			return false
		}
	}
	return true
}

// A scan is kept in parts, for values of the cache are small. Under the key stands a number that nothing else
// has, in whose name the parts are kept, and how many bytes they have together.
const headBytes = 16 + 8

// most is how many bytes a scan may have to be kept: it is not to push out everything else.
// A quarter: the learned index of whole datasets lies in the same cache.
func (k *keeper) most() int64 { return k.cache.Bound() / 4 }

// put keeps a table that a dataset was made of already, so it changes nothing in it.
func (k *keeper) put(t *catalog.Table) {
	if !k.unchanged(t) {
		return
	}
	// Else the table of a file that was written to during the scan would be kept as that of the older one.
	for i, file := range k.files { // and still are now that they were read
		if s, ok := stampOf(file); !ok || s != k.stamps[i] {
			return
		}
	}
	data, err := encodeTable(t)
	if err != nil || int64(len(data)) > k.most() {
		return
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	head := binary.LittleEndian.AppendUint64(id[:], uint64(len(data)))
	for n := 0; len(data) > 0; n++ {
		// A megabyte at most, so that one value never takes a large part of a segment.
		part := data[:min(len(data), 1<<20, k.cache.MostValue())]
		data = data[len(part):]
		k.cache.Put(partKey(id, n), part)
	}
	// Last: who finds the number finds the parts, unless the cache has let go of one.
	k.cache.Put(k.key, head)
}

// partKey begins with "scan\x01", so that no other user of the cache has the same keys.
func partKey(id [16]byte, n int) cache.Key {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(append([]byte("scan\x01"), id[:]...), uint64(n)))
	return cache.Key(sum[:16])
}
