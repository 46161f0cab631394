package learned

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/headrace/headrace/internal/cache"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// Index finds and keeps points. A nil Index has none and keeps none. Its methods may be called from any
// goroutine.
type Index struct {
	cache   *cache.Cache
	current string // the working directory, for paths that begin there

	found, kept atomic.Int64
}

// Counts is how many images had points, and of how many points were learned. Those of an image that was
// replaced are in both.
func (x *Index) Counts() (found, kept int64) { return x.found.Load(), x.kept.Load() }

// Open opens the index in the user's cache. The text says what is wrong with the environment, and is empty
// where nothing is; there is no index then, as where the cache is off or cannot be made.
func Open() (*Index, string) {
	c, wrong := cache.OpenUsers()
	if c == nil {
		return nil, wrong
	}
	current, _ := os.Getwd() // unknown, it makes other keys
	return &Index{cache: c, current: current}, ""
}

// Close writes what waits.
func (x *Index) Close() {
	if x != nil {
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
type Name struct{ key cache.Key }

// The first byte of what is hashed says what a name is made of; the last, the version of what is kept.
const (
	ofFile  = "file\x01"
	ofBytes = "bytes\x01"
)

// File names a version of a file.
func (x *Index) File(path string, stamp mmap.Stamp) Name {
	var room [512]byte
	b := append(room[:0], ofFile...)
	b = binary.LittleEndian.AppendUint64(b, uint64(stamp.Size))
	b = binary.LittleEndian.AppendUint64(b, uint64(stamp.MTimeNs))
	if !filepath.IsAbs(path) {
		b = append(append(b, x.current...), '/')
	}
	return named(append(b, path...))
}

// endBytes of an image's beginning and of its end are in the name of bytes without a path. Headers tell
// most images apart, and the CRC-32C of all bytes is in the name as well: to hash all of them would cost
// a tenth of a decode.
const endBytes = 2048

// Bytes names an image by its content, whose CRC-32C is crc. data is C's memory, or Go's.
func (x *Index) Bytes(data []byte, crc uint32) Name {
	var room [2*endBytes + 64]byte
	b := append(room[:0], ofBytes...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, crc)
	b = append(b, data[:min(endBytes, len(data))]...)
	return named(append(b, data[max(0, len(data)-endBytes):]...))
}

func named(b []byte) Name {
	sum := sha256.Sum256(b)
	return Name{cache.Key(sum[:])}
}

// What is kept of an image is the CRC-32C of its bytes, as uint32, and its points.
const crcBytes = 4

// Find is the points of an image, readable until b is used again; where there are none, they are to be
// learned. Without an Index neither.
func (x *Index) Find(name Name, b *mmap.Buffer) native.Seek {
	if x == nil {
		return native.Seek{}
	}
	kept, ok := x.cache.Get(name.key, b)
	if !ok || kept.Length <= crcBytes {
		return native.Seek{Learn: true}
	}
	x.found.Add(1)
	crc := binary.LittleEndian.Uint32(kept.Bytes())
	return native.Seek{Data: unsafe.Add(kept.Pointer, crcBytes), Length: kept.Length - crcBytes,
		Image: crc, HasImage: true, Learn: true}
}

// Learn keeps what c learned of the image that it made last, whose bytes must still be readable.
func (x *Index) Learn(name Name, c *native.Context) {
	if points, crc, _ := c.Learned(); points != nil {
		x.keep(name, points, crc)
	}
}

// LearnBytes is Learn for bytes that the program may have changed since their CRC-32C was taken: then
// nothing is known of which the points are.
func (x *Index) LearnBytes(name Name, c *native.Context, before uint32) {
	if points, crc, _ := c.Learned(); points != nil && crc == before {
		x.keep(name, points, crc)
	}
}

func (x *Index) keep(name Name, points []byte, crc uint32) {
	var room [4096]byte
	value := binary.LittleEndian.AppendUint32(room[:0], crc)
	if x.cache.Put(name.key, append(value, points...)) {
		x.kept.Add(1) // another thread may have learned them at the same time
	}
}
