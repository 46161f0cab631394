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

// keptVersion is part of every key. It is raised when a walker finds something else in a file than before.
// The version of Headrace is in the key too (catalog.CreatedBy); this number covers changes between two versions.
const keptVersion = 11

// settled is how old a file must be for its scan to be kept. If a file is written twice in one tick of the file
// system's clock, its size and time may stay the same though its bytes differ.
const settled = 2 * time.Second

// keeper finds the scan of some files in the user's cache, and keeps it there.
// It serves one opening. If anything prevents keeping it is nil, and the files are scanned, which is slow but right.
type keeper struct {
	cache  *cache.Cache
	key    cache.Key
	files  []string
	stamps []stamp
}

// stamp distinguishes versions of a file.
type stamp struct{ size, time int64 }

// newKeeper returns nil if nothing can be kept: without a cache, or if a file is still being written.
// The key is a hash of all that a scan depends on: the walkers' version, the options, and the path, size and time of
// each file.
func newKeeper(files []string, kind string, o *Options) *keeper {
	k := &keeper{files: files}
	h := sha256.New()
	words := *o
	// A file's contents do not depend on the root or on credentials; the paths are added below.
	words.Options = catalog.Options{}
	if err := json.NewEncoder(h).Encode([]any{keptVersion, catalog.CreatedBy, kind, words}); err != nil {
		return nil
	}
	for i, file := range append(files[:len(files):len(files)], append(o.rows, beside(files, choose(o.Label, labelNames).names)...)...) {
		s, ok := stampOf(file)
		// A file beside the containers may be missing, and its absence is part of the key.
		if !ok && i < len(files) || ok && time.Since(time.Unix(0, s.time)) < settled {
			return nil
		}
		if i < len(files) {
			k.stamps = append(k.stamps, s)
		}
		// A file with two paths is scanned twice. That is better than one scan for two files.
		path, err := filepath.Abs(file)
		if err != nil {
			return nil
		}
		// The path is encoded as bytes, because it need not be UTF-8 and JSON would replace all invalid bytes alike.
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

// beside returns the paths of files that may say something about containers in the same folder.
// They are part of the key even if they do not exist: a walker looks for them, and its result depends on them.
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

// stampOf returns false if the file cannot be examined.
// Permissions and owner do not matter: confirmed notices if the file may not be read.
func stampOf(path string) (stamp, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, false
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}, true
}

// scanOrKept returns the result of scan, or of an earlier scan that was kept. If several processes open the same files
// at once, one scans and the others wait for its result.
// An error is not kept: the file may be repaired, and the error should describe its present state.
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
	// The ranks of a machine open their datasets at the same moment. Without taking turns each would scan.
	if t == nil {
		defer k.cache.Turn(k.key)()
		k.cache.Look()
		t = k.find()
	}
	defer k.cache.Close() // before the turn ends, so that the next process finds what was put
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

// find returns nil if nothing is kept, or if anything about it is wrong.
// It returns no error, because the files can be scanned instead.
func (k *keeper) find() *catalog.Table {
	var buffer mmap.Buffer
	defer buffer.Free()
	// A head is read and then the parts, because the cache limits the size of a value.
	head, ok := k.cache.Get(k.key, &buffer)
	if !ok || head.Length != headBytes {
		return nil
	}
	// Two processes may keep the same scan at the same time. Each uses its own number for its parts, and the head has the
	// number of the last writer. So parts of two writers are never mixed.
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

// confirmed checks that the files are those of the table, by sizes, times and checksums of their ends.
// It opens every file, as a scan does; what it saves is the walks.
func (k *keeper) confirmed(t *catalog.Table) bool {
	if len(t.Shards) != len(k.files) {
		return false
	}
	root, names := catalog.CommonRoot(k.files)
	// The root is computed from today's paths, because the files may be opened from another working directory.
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
		t.Shards[i].Name = names[i] // a name may be any bytes, which JSON does not keep
		// The checksum of both ends finds a file that was overwritten in place and got its old time back.
		if err != nil || now != t.Shards[i] {
			return false
		}
	}
	return true
}

// unchanged checks that the table is of the files as they were when the key was made.
// Those times are from before the scan, so a file that changed during the scan is noticed.
func (k *keeper) unchanged(t *catalog.Table) bool {
	for i, s := range t.Shards {
		if (stamp{s.Size, s.MTimeNs}) != k.stamps[i] {
			return false
		}
	}
	return true
}

// A scan is kept in parts, because the cache limits the size of values. The key's value is the head: a unique number,
// from which the keys of the parts are made, and the total size of the parts.
const headBytes = 16 + 8

// most is the largest size of a scan that is kept, so that it does not push out everything else.
// It is a quarter, because the learned index of whole datasets is in the same cache.
func (k *keeper) most() int64 { return k.cache.Bound() / 4 }

// put keeps a table. A dataset uses the table already, so put does not change it.
func (k *keeper) put(t *catalog.Table) {
	if !k.unchanged(t) {
		return
	}
	// Otherwise the table of a file that was written during the scan would be kept as that of its older version.
	for i, file := range k.files { // the files must also be unchanged now, after they were read
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
		// A part is at most a megabyte, so that one value never takes a large part of a segment.
		part := data[:min(len(data), 1<<20, k.cache.MostValue())]
		data = data[len(part):]
		k.cache.Put(partKey(id, n), part)
	}
	// The head comes last, so that whoever finds it finds the parts too, unless the cache has dropped one.
	k.cache.Put(k.key, head)
}

// partKey hashes a prefix, "scan\x01", as well, so that no other user of the cache has the same keys.
func partKey(id [16]byte, n int) cache.Key {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(append([]byte("scan\x01"), id[:]...), uint64(n)))
	return cache.Key(sum[:16])
}
