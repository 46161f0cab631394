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

// Index finds and keeps seek points. Its methods may be called from any goroutine.
type Index struct {
	cache   *cache.Cache    // nil if there is none
	beside  *beside.Indexes // indexes that lie beside files
	current string          // the working directory, for relative paths

	found, kept, tried atomic.Int64
}

// Counts counts images.
type Counts struct {
	Found int64 // images that had points, perhaps those of other bytes
	Kept  int64 // images of which something was learned and put into the cache
	Tried int64 // images that had no points and were to be learned, which takes time
}

// Counts returns the counts so far.
func (x *Index) Counts() Counts { return Counts{x.found.Load(), x.kept.Load(), x.tried.Load()} }

// Open opens the index in the user's cache. The text says what is wrong with the environment, and is empty if nothing
// is. If there is no cache, or none can be made, nothing is learned.
func Open() (*Index, string) {
	c, wrong := cache.OpenUsers()
	current, _ := os.Getwd() // if it is unknown, relative paths have other keys
	return &Index{cache: c, beside: beside.New(current), current: current}, wrong
}

// Close writes what waits in memory. No Name may be used afterwards.
func (x *Index) Close() {
	x.beside.Close()
	if x.cache != nil {
		x.cache.Close()
	}
}

// least is the size of an image from which on its points are looked up. A smaller one is decoded about as fast from its
// beginning.
const least = 4096

// Worth says whether an image's points are worth looking up: it is a JPEG, and not a small one.
func Worth(image mmap.View) bool {
	if image.Length < least {
		return false
	}
	first := unsafe.Slice((*byte)(image.Pointer), 2)
	return first[0] == 0xFF && first[1] == 0xD8
}

// Name identifies an image in the index.
type Name struct {
	key    cache.Key
	beside beside.Points // what the index beside the file has of it
}

// The first bytes of what is hashed say what a name is made of; the last of them is the version of what is kept.
const (
	ofFile  = "file\x01"
	ofBytes = "bytes\x01"
)

// File returns the name of a version of a file.
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

// endBytes is how much of an image's beginning and of its end is part of the name of bytes without a path. Headers
// distinguish most images, and the CRC-32C of all bytes is part of the name as well. Hashing all bytes would cost a
// tenth of a decode.
const endBytes = 2048

// Learns says whether there is a cache; without it nothing is known about bytes without a path.
func (x *Index) Learns() bool { return x.cache != nil }

// Bytes returns the name of an image by its content, whose CRC-32C is crc. data is in C's memory, or in Go's.
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

// A value in the cache is the CRC-32C of an image's bytes, as uint32, followed by its points. If an image cannot have
// points they are empty, so that it is not tried again.
const crcBytes = 4

// Find returns the points of an image, readable until b is used again. If there are none, they are to be learned, if
// they can be kept. Learned points come first: if a file was replaced and kept its size and time, the index beside it
// has no better ones.
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

// Learn keeps what c learned about the image that it made last, whose bytes must still be readable. It returns whether
// anything was kept.
func (x *Index) Learn(name Name, c *native.Context) bool {
	points, crc, ok := c.Learned()
	return ok && x.keep(name, points, crc)
}

// LearnBytes is Learn for bytes that the program may have changed since their CRC-32C was computed. If they changed, it
// is not known which bytes the points belong to.
func (x *Index) LearnBytes(name Name, c *native.Context, before uint32) bool {
	points, crc, ok := c.Learned()
	return ok && crc == before && x.keep(name, points, crc)
}

// values are buffers in which keep builds values. A new array for each would be 4 KiB in Go's heap for an image, and
// the garbage collector would run every 600 images, which costs 8 us an image.
var values = sync.Pool{New: func() any { return new([]byte) }}

func (x *Index) keep(name Name, points []byte, crc uint32) bool {
	room := values.Get().(*[]byte)
	defer values.Put(room)
	value := binary.LittleEndian.AppendUint32((*room)[:0], crc)
	if len(points) <= x.cache.MostValue()-crcBytes { // otherwise they can never be kept
		value = append(value, points...)
	}
	*room = value
	if !x.cache.Put(name.key, value) {
		return false // another thread may have learned them at the same time
	}
	x.kept.Add(1)
	return true
}
