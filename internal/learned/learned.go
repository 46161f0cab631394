package learned

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/beside"
	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// Index finds and keeps points. Its methods may be called from any goroutine.
type Index struct {
	cache   *cache.Cache    // nil where there is none
	beside  *beside.Indexes // of files
	current string          // the working directory, for paths that begin there

	found, kept, tried atomic.Int64
}

// Counts are of images.
type Counts struct {
	Found int64 // that had points, perhaps of other bytes
	Kept  int64 // of which something was learned and put into the cache
	Tried int64 // that had no points and were to be learned, which takes time
}

// Counts are those of so far.
func (x *Index) Counts() Counts { return Counts{x.found.Load(), x.kept.Load(), x.tried.Load()} }

// Open opens the index in the user's cache. The text says what is wrong with the environment, and is empty
// where nothing is. Where there is no cache, or none can be made, nothing is learned.
func Open() (*Index, string) {
	c, wrong := cache.OpenUsers()
	current, _ := os.Getwd() // unknown, it makes other keys
	return &Index{cache: c, beside: beside.New(current), current: current}, wrong
}

// Close writes what waits. No Name may be used afterwards.
func (x *Index) Close() {
	x.beside.Close()
	if x.cache != nil {
		x.cache.Close()
	}
}

// least is how many bytes an image has that points are worth a look for. With fewer it is decoded
// about as fast from its beginning.
const least = 4096

// Worth says whether an image may have points that are worth a look: it is a JPEG, and no small one.
func Worth(image mmap.View) bool {
	if image.Length < least {
		return false
	}
	first := unsafe.Slice((*byte)(image.Pointer), 2)
	return first[0] == 0xFF && first[1] == 0xD8
}

// Name is what an image is found by.
type Name struct {
	key    cache.Key
	beside beside.Points // what the index that lies beside a file has of it
}

// The first byte of what is hashed says what a name is made of; the last, the version of what is kept.
const (
	ofFile  = "file\x01"
	ofBytes = "bytes\x01"
)

// File names a version of a file.
func (x *Index) File(path string, stamp mmap.Stamp) Name {
	points := x.beside.Find(path, stamp)
	if x.cache == nil {
		return Name{beside: points}
	}
	return Name{x.keyOf(path, stamp), points}
}

func (x *Index) keyOf(path string, stamp mmap.Stamp) cache.Key {
	var room [512]byte
	b := append(room[:0], ofFile...)
	b = binary.LittleEndian.AppendUint64(b, uint64(stamp.Size))
	b = binary.LittleEndian.AppendUint64(b, uint64(stamp.MTimeNs))
	if !filepath.IsAbs(path) {
		b = append(append(b, x.current...), '/')
	}
	return keyed(append(b, path...))
}

// endBytes of an image's beginning and of its end are in the name of bytes without a path. Headers tell
// most images apart, and the CRC-32C of all bytes is in the name as well: to hash all of them would cost
// a tenth of a decode.
const endBytes = 2048

// Learns says whether there is a cache, without which nothing is known of bytes without a path.
func (x *Index) Learns() bool { return x.cache != nil }

// Bytes names an image by its content, whose CRC-32C is crc. data is C's memory, or Go's.
func (x *Index) Bytes(data []byte, crc uint32) Name {
	var room [2*endBytes + 64]byte
	b := append(room[:0], ofBytes...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, crc)
	b = append(b, data[:min(endBytes, len(data))]...)
	return Name{key: keyed(append(b, data[max(0, len(data)-endBytes):]...))}
}

func keyed(b []byte) cache.Key {
	sum := sha256.Sum256(b)
	return cache.Key(sum[:])
}

// What is kept of an image is the CRC-32C of its bytes, as uint32, and its points. Those of an image that can
// have none are empty: it is not tried again.
const crcBytes = 4

// Find is the points of an image, readable until b is used again; where there are none, they are to be
// learned, if they can be kept. What was learned comes first: of a file that was replaced with its size and time
// kept, the index beside it knows no better.
func (x *Index) Find(name Name, b *mmap.Buffer) native.Seek {
	var seek native.Seek
	if x.cache != nil {
		kept, known := x.cache.Get(name.key, b)
		if known && kept.Length > crcBytes {
			x.found.Add(1)
			return native.Seek{Data: unsafe.Add(kept.Pointer, crcBytes), Length: kept.Length - crcBytes,
				Image: binary.LittleEndian.Uint32(kept.Bytes()), HasImage: true, Learn: x.cache.Writable()}
		}
		seek.Learn = !known && x.cache.Writable()
	}
	if points := name.beside.Read(b); points.Length > 0 {
		x.found.Add(1)
		seek.Data, seek.Length = points.Pointer, points.Length
		seek.CRC32C, seek.HasCRC = name.beside.CRC32C(), true
		seek.Image, seek.HasImage = name.beside.Image, true
	} else if seek.Learn {
		x.tried.Add(1)
	}
	return seek
}

// Learn keeps what c learned of the image that it made last, whose bytes must still be readable, and says
// whether that was anything.
func (x *Index) Learn(name Name, c *native.Context) bool {
	points, crc, ok := c.Learned()
	return ok && x.keep(name, points, crc)
}

// LearnBytes is Learn for bytes that the program may have changed since their CRC-32C was taken: then
// nothing is known of which the points are.
func (x *Index) LearnBytes(name Name, c *native.Context, before uint32) bool {
	points, crc, ok := c.Learned()
	return ok && crc == before && x.keep(name, points, crc)
}

// values hold what keep puts together. An array of its own would lie in Go's heap, 4 KiB an image, and the
// collector would run every 600 images: 8 us an image.
var values = sync.Pool{New: func() any { return new([]byte) }}

func (x *Index) keep(name Name, points []byte, crc uint32) bool {
	room := values.Get().(*[]byte)
	defer values.Put(room)
	value := binary.LittleEndian.AppendUint32((*room)[:0], crc)
	if len(points) <= x.cache.MostValue()-crcBytes { // or else they never can be kept
		value = append(value, points...)
	}
	*room = value
	if !x.cache.Put(name.key, value) {
		return false // another thread may have learned them at the same time
	}
	x.kept.Add(1)
	return true
}
