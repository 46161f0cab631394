package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sort"
	"strconv"
	"sync"
	"unsafe"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/mmap"
)

// ArrayConfig says which arrays of pixels (uint8) a dataset consists of, in files or in memory. Images are numbered in
// the order of Stretches.
type ArrayConfig struct {
	Height   int64    `json:"height"`
	Width    int64    `json:"width"`
	Channels int64    `json:"channels"` // 1, 3 or 4
	Strides  [3]int64 `json:"strides"`  // bytes from row to row, pixel to pixel, channel to channel

	Files  []pathjson.Text `json:"files"`  // either these
	Memory *MemoryConfig   `json:"memory"` // or one piece of the program's memory

	Stretches []Stretch    `json:"stretches"`
	Source    *ArraySource `json:"source"` // what Info reports
}

// ArraySource says how an array was found, in the words of the code that found it.
type ArraySource struct {
	Format string   `json:"format"`           // "hdf5", "npy", "memory"
	Image  string   `json:"image,omitempty"`  // the name of the array of images
	Label  string   `json:"label,omitempty"`  // the name of the array of labels, or of their file
	Layout string   `json:"layout"`           // "NHWC"
	Shape  []int64  `json:"shape"`            //
	DType  string   `json:"dtype"`            //
	Chunks []int64  `json:"chunks,omitempty"` // the shape of a chunk
	Codecs []string `json:"codecs,omitempty"` // that the chunks are decoded with
	Arrays []string `json:"arrays,omitempty"` // the other arrays in the file
}

// MemoryConfig is readable memory that stays in place as long as the dataset and its loaders exist.
type MemoryConfig struct {
	Address uint64 `json:"address"`
	Bytes   int64  `json:"bytes"`
}

// Stretch is a series of images at equal distances.
type Stretch struct {
	File   int64 `json:"file"`   // its number among Files
	Offset int64 `json:"offset"` // of the first value of the first image, in bytes
	Stride int64 `json:"stride"` // from image to image
	Rows   int64 `json:"rows"`

	// For a compressed chunk: Offset is a position in the decoded chunk.
	Chunk *ChunkConfig `json:"chunk"`
	// For images that lie in pieces of several chunks: Offset is a position in what these decode to together.
	Tiles *TilesConfig `json:"tiles"`
}

// arrays is an ArrayConfig that was checked.
type arrays struct {
	pixels    Pixels
	length    int64 // bytes from an image's lowest to its highest address
	stretches []Stretch
	ends      []int64        // the number of images up to the end of each stretch
	memory    unsafe.Pointer // nil if there are files
	shards    []ShardInfo
	labels    []int64      // nil: there are none
	source    *ArraySource // nil: unknown
}

// mostSide bounds a side as for any image (native's HRN_MAX_LENGTH). mostStretches stretches take a gigabyte. Rows may
// take no memory, if images lie on top of each other, so mostRows bounds the numbers that are computed from them.
const (
	mostSide      = 1 << 24
	mostStretches = 1 << 25
	mostRows      = 1 << 40
)

// FromArrays makes a dataset of arrays of pixels. It checks that every image lies inside its file or memory, so that no
// later number can lead outside. labels may be nil, and so may classes.
func FromArrays(c *ArrayConfig, labels []int64, classes []string) (*Dataset, error) {
	a, err := newArrays(c)
	if err != nil {
		return nil, err
	}
	d := &Dataset{kind: Arrays, arrays: a, classes: append([]string(nil), classes...)}
	var sizes []int64
	if c.Memory != nil {
		d.kind, sizes = InMemory, []int64{c.Memory.Bytes}
		// This is an address of the program's own memory, which has never had a Go type.
		a.memory = *(*unsafe.Pointer)(unsafe.Pointer(&c.Memory.Address))
	} else if d.path, sizes, err = a.open(c.Files); err != nil {
		return nil, err
	}
	if err := a.place(c, sizes); err != nil {
		return nil, err
	}
	d.rows, a.source = a.ends[len(a.ends)-1], c.Source
	if err := a.label(labels, classes, d.rows); err != nil {
		return nil, err
	}
	d.fingerprint = sync.OnceValue(func() string { return a.fingerprint(d.rows) })
	d.refs.Store(1)
	return d, nil
}

// newArrays checks an image's shape, and finds out which bytes of a file it spans.
func newArrays(c *ArrayConfig) (*arrays, error) {
	refuse := func(format string, args ...any) (*arrays, error) {
		return nil, NewError(fault.KindArgument, "", "array: "+format, args...)
	}
	switch {
	case (c.Files == nil) == (c.Memory == nil):
		return refuse("files and memory: one of them is expected")
	case c.Height < 1 || c.Height > mostSide || c.Width < 1 || c.Width > mostSide:
		return refuse("%s", fault.Differs("the sides of an image", fmt.Sprintf("1 to %d", mostSide), fmt.Sprintf("%d x %d", c.Height, c.Width)))
	case c.Channels != 1 && c.Channels != 3 && c.Channels != 4:
		return refuse("%s", fault.Differs("the channels of an image", "1, 3 or 4", c.Channels))
	case len(c.Stretches) == 0 || len(c.Stretches) > mostStretches:
		return nil, NewError(fault.KindEmpty, "", "the array holds no image")
	}
	low, high := int64(0), int64(0)
	// Strides may be negative, as in a flipped array. Then the first value is not the first byte.
	for i, count := range []int64{c.Height, c.Width, c.Channels} {
		whole, ok := product(c.Strides[i], count-1)
		if ok && whole < 0 {
			low, ok = sum(low, whole)
		} else if ok {
			high, ok = sum(high, whole)
		}
		if !ok {
			return refuse("strides %v lead beyond all memory", c.Strides)
		}
	}
	// low is greater than the least int64, or sum would have failed. So its negation fits.
	length, ok := sum(high+1, -low)
	if !ok || high == math.MaxInt64 {
		return refuse("strides %v lead beyond all memory", c.Strides)
	}
	return &arrays{length: length, pixels: Pixels{Height: uint32(c.Height), Width: uint32(c.Width), Channels: uint32(c.Channels),
		Origin: -low, Row: c.Strides[0], Pixel: c.Strides[1], Channel: c.Strides[2]}}, nil
}

// product and sum also return whether the result fits.
func product(a, b int64) (int64, bool) {
	c := a * b
	return c, a == 0 || (c/a == b && !(a == -1 && b == math.MinInt64))
}

func sum(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

// open looks at the files, and returns the folder that contains all of them.
func (a *arrays) open(files []pathjson.Text) (root string, sizes []int64, err error) {
	if len(files) == 0 {
		return "", nil, NewError(fault.KindEmpty, "", "the array has no file")
	}
	paths := make([]string, len(files))
	for i, path := range files {
		paths[i] = string(path)
	}
	root, names := CommonRoot(paths)
	for i, path := range paths {
		f, err := mmap.OpenRegular(path)
		if err != nil {
			return "", nil, IOError(path, "cannot open the array", err)
		}
		shard, err := ShardOf(names[i], f)
		f.Close()
		if err != nil {
			return "", nil, IOError(path, "cannot read the array", err)
		}
		a.shards, sizes = append(a.shards, shard), append(sizes, shard.Size)
	}
	return root, sizes, nil
}

// place checks the stretches; each has to lie inside its file.
func (a *arrays) place(c *ArrayConfig, sizes []int64) error {
	rows, tiles := int64(0), 0
	for i, s := range c.Stretches {
		if s.File < 0 || s.File >= int64(len(sizes)) {
			return NewError(fault.KindArgument, "", "array: stretch %d is of file %d of %d", i, s.File, len(sizes))
		}
		file := ""
		if c.Memory == nil {
			file = string(c.Files[s.File])
		}
		size, what := sizes[s.File], "the array ends before its last image does"
		switch {
		case s.Tiles != nil:
			if tiles += len(s.Tiles.Chunks); s.Chunk != nil || c.Memory != nil || tiles > mostStretches {
				return NewError(fault.KindArgument, file, "array: stretch %d has tiles and a chunk, lies in memory, or there are more than %d tiles", i, mostStretches)
			}
			if err := s.Tiles.check(c.Files, sizes); err != nil {
				return err
			}
			s.File = int64(s.Tiles.named.Container)
			size, what = s.Tiles.tiles.Size(), "the array's tiles end before its last image does"
		case s.Chunk != nil:
			if err := s.Chunk.check(file, size, false); err != nil {
				return err
			}
			size, what = s.Chunk.Size, "the array's chunk ends before its last image does"
		}
		begin := s.Offset - a.pixels.Origin // both are checked below: an origin is 0 or more
		whole, ok := product(s.Stride, s.Rows-1)
		last, fits := sum(begin, whole)
		// Images may go backwards in the file, so the image that ends last is the first or the last one of the stretch.
		end, ends := sum(max(begin, last), a.length)
		switch {
		case s.Rows < 1 || s.Rows > mostRows-rows:
			return NewError(fault.KindArgument, file, "%s", fault.Argument("rows", s.Rows, fmt.Sprintf("1 to %d, all stretches together", int64(mostRows))))
		case !ok || !fits || !ends || s.Offset < 0 || min(begin, last) < 0:
			return NewError(fault.KindBadFile, file, "the array's shape and strides lead beyond its memory")
		case end > size:
			e := NewError(fault.KindTruncated, file, "%s", fault.Differs(what, fmt.Sprintf("%d bytes", end), size))
			e.Offset = size
			return e
		}
		s.Offset = begin
		rows += s.Rows
		if c.Memory == nil {
			a.shards[s.File].Rows += s.Rows
		}
		a.stretches, a.ends = append(a.stretches, s), append(a.ends, rows)
	}
	return nil
}

func (a *arrays) label(labels []int64, classes []string, rows int64) error {
	if labels == nil {
		return nil
	}
	if int64(len(labels)) != rows {
		return NewError(fault.KindArgument, "", "labels has %d entries (expected %d, one for each image)", len(labels), rows)
	}
	for i, label := range labels {
		if label < NoLabel || len(classes) > 0 && label >= int64(len(classes)) {
			return NewError(fault.KindArgument, "", "labels[%d] is %d (expected -1 for none, or a class; there are %d classes)", i, label, len(classes))
		}
	}
	a.labels = labels
	return nil
}

// at returns the stretch of image i, and the offset of the image's first byte.
func (a *arrays) at(i int64) (s *Stretch, offset int64) {
	n := 0
	// Most arrays are one stretch, and this is called for every sample.
	if len(a.ends) > 1 {
		n = sort.Search(len(a.ends), func(n int) bool { return a.ends[n] > i })
	}
	s = &a.stretches[n]
	return s, s.Offset + (i-(a.ends[n]-s.Rows))*s.Stride
}

func (a *arrays) sample(i int64) Sample {
	stretch, offset := a.at(i)
	s := Sample{Index: i, Offset: offset, Length: a.length, Label: NoLabel, Pixels: &a.pixels,
		Facts: Facts{Width: a.pixels.Width, Height: a.pixels.Height, Channels: uint8(a.pixels.Channels), Codec: codecRaw, Process: processRaw},
	}
	if a.memory == nil {
		s.Shard = uint32(stretch.File)
	}
	switch {
	case stretch.Tiles != nil:
		s.Shard, s.Offset, s.Block = stretch.Tiles.place(offset)
	case stretch.Chunk != nil:
		s.Offset, s.Block = stretch.Chunk.Offset, stretch.Chunk.place(offset)
	}
	if a.labels != nil {
		s.Label = a.labels[i]
	}
	return s
}

// fingerprint covers shape and labels, for files also their sizes and ends, and for memory the values of a few images.
// Reading all of either would take as long as an epoch.
func (a *arrays) fingerprint(rows int64) string {
	const looked = 16
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d\n", rows, a.pixels.Height, a.pixels.Width, a.pixels.Channels)
	for _, shard := range a.shards {
		fmt.Fprintf(h, "%d %s\n", shard.Size, shard.Ends)
	}
	if a.memory == nil { // several arrays may lie in the same file
		fmt.Fprintf(h, "%+v", a.pixels)
		for i := range a.stretches {
			fmt.Fprintf(h, " %s", a.stretches[i].String())
		}
	}
	var b []byte
	for i := range a.labels {
		if b = binary.LittleEndian.AppendUint64(b, uint64(a.labels[i])); len(b) > 1<<16 {
			h.Write(b)
			b = b[:0]
		}
	}
	h.Write(b)
	// It takes the first image, the last one, and some between.
	for k := int64(0); a.memory != nil && k < min(looked, rows); k++ {
		_, offset := a.at(k * ((rows - 1) / max(1, min(looked, rows)-1)))
		if file, err := a.pixels.PPM(unsafe.Slice((*byte)(unsafe.Add(a.memory, offset)), a.length)); err == nil {
			h.Write(file)
		}
	}
	return "arrays-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// ArraySource returns how the dataset's array was found; nil if that is unknown.
func (d *Dataset) ArraySource() *ArraySource {
	if d.arrays == nil {
		return nil
	}
	return d.arrays.source
}

func (a *arrays) key(i int64) string { return strconv.FormatInt(i, 10) }
