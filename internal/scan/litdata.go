package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

// Names that LitData gives its files (litdata/constants.py).
const (
	litIndexName = "index.json"
	litChunkExt  = ".bin" // also of compressed ones, called chunk-0-0.zstd.bin
	maxLitIndex  = 256 << 20
)

// litFolder is the index of the folder that chunks were last found in: read once for all of them.
// A folder has hundreds of chunks, and its index may have megabytes. Only one index is kept: where chunks of several folders
// are read in turn, each is read again.
type litFolder struct {
	// open opens a file by its path, or an object of a store by its address; fs.ErrNotExist where there is none.
	open func(path string) (io.ReadCloser, error)

	mu    sync.Mutex
	index *formats.LitIndex
	path  string
	err   error
}

// of is the index of a chunk's folder; nil where that has none.
// The folder is what stands before the last slash, for the path may be an address.
func (l *litFolder) of(chunk string) (*formats.LitIndex, error) {
	return l.in(chunk[:strings.LastIndexByte(chunk, '/')+1])
}

// in is the index of the chunks of a folder, whose path or address ends with a slash, or is empty.
func (l *litFolder) in(dir string) (*formats.LitIndex, error) {
	l.mu.Lock()
	// Held while the file is read: workers that open chunks of one folder at once wait for one of them.
	defer l.mu.Unlock()
	if path := dir + litIndexName; l.path != path {
		l.path = path
		l.index, l.err = readLitIndex(path, l.open)
	}
	return l.index, l.err
}

// readLitIndex gives nil and no error where there is no such file, for most folders are none of LitData's.
func readLitIndex(path string, open func(path string) (io.ReadCloser, error)) (*formats.LitIndex, error) {
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if already := (*catalog.Error)(nil); errors.As(err, &already) {
		return nil, err
	}
	if err != nil {
		return nil, catalog.IOError(path, "cannot open it", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLitIndex))
	if err != nil {
		return nil, catalog.IOError(path, "cannot read it", err)
	}
	index, err := formats.ParseLitIndex(text)
	if err != nil {
		return nil, catalog.FormatError(path, err)
	}
	return index, nil
}

// newLitFolder is one of folders on disk.
func newLitFolder() *litFolder {
	return &litFolder{open: func(path string) (io.ReadCloser, error) { return mmap.OpenRegular(path) }}
}

// chunks are those of a folder in the order of its index; none where that is of something else.
// The order of the index is that of the samples' numbers in LitData itself.
func (l *litFolder) chunks(dir string) (files []string, err error) {
	index, err := l.in(dir)
	if index == nil || err != nil {
		return nil, err
	}
	for _, chunk := range index.Chunks {
		files = append(files, dir+chunk.Name)
	}
	return files, nil
}

// names is true of a file that the index beside it names.
// Names of chunks are compared by their last part, as the index has them.
func (l *litFolder) names(path string) (bool, error) {
	index, err := l.of(path)
	if index == nil || err != nil {
		return false, err
	}
	_, named := index.Chunk(filepath.Base(path))
	return named, nil
}

// scanLitData reads the items of a chunk. What they are its folder's index says. A leaf that is encoded as an
// image is the image whatever its name, where there is only one.
func scanLitData(p *part) error {
	index, err := p.lit.of(p.path)
	if err != nil {
		return err
	}
	if index == nil {
		return fmt.Errorf("%w: a chunk of LitData without the %s of its folder, which says what its items are", formats.ErrUnsupported, litIndexName)
	}
	chunk, named := index.Chunk(filepath.Base(p.path))
	if !named {
		return fmt.Errorf("%w: the %s beside it does not name the chunk", formats.ErrBad, litIndexName)
	}
	// chunk.Samples is the index's count, which has to be that of the chunk's own head.
	l, err := formats.NewLitData(p.file, p.size, index, chunk.Samples, p.mostBlock)
	if err != nil {
		return err
	}
	// A column of a usual name is the image, whatever its encoding, as in every other container.
	usual := func(c tableColumn) bool { return slices.Contains(imageNames, c.name) }
	if encoded := index.Encoded(); !p.image.given && len(encoded) == 1 && !slices.ContainsFunc(tableColumns(l.Leaves), usual) {
		p.image.names = encoded
	}
	// An array or a tensor begins with a head of its type and shape. litForm takes it off, of a column that is needed as the
	// image or as a vector, and for that the value has to come as bytes.
	for i, c := range tableColumns(l.Leaves) {
		if form := l.Leaves[i].Form; (form == formats.LitNumpy || form == formats.LitTensor) && (p.isImage(c.name) || p.wantsVector(c.name)) {
			l.Leaves[i].Kind = formats.BytesLeaf
		}
	}
	return p.readTable(l.Leaves, "", l.Next)
}

// litForm takes the head off a value that has one.
// A form is a serializer of LitData's, by its name in the index (litdata/streaming/serializers.py).
func (p *part) litForm(c *cell, form string) error {
	switch form {
	case "pil":
		return p.decodePIL(c)
	case "jpeg_array":
		return p.imageOfList(c, 0)
	}
	return p.litArray(c, form)
}

// litArray takes an array of several axes (litdata/streaming/serializers.py): uint32 of its type, of how many axes there
// are, and of each; little-endian of NumPy's. Those of tensors are big-endian, and little-endian of its first releases.
func (p *part) litArray(c *cell, form string) error {
	// More axes than images have; they bound the head that is read.
	const word, mostAxes = 4, 8
	var space [(2 + mostAxes) * word]byte
	b, err := p.head(c, space[:])
	if err != nil {
		return err
	}
	// No file says which release of LitData wrote it, so of tensors both orders are tried.
	orders := []binary.ByteOrder{binary.LittleEndian}
	if form == formats.LitTensor {
		orders = []binary.ByteOrder{binary.BigEndian, binary.LittleEndian}
	}
	for _, order := range orders {
		// A scalar of NumPy has no axes, so it is as short as this. Fewer bytes are not an array.
		if len(b) < 2*word {
			break
		}
		dtype, axes := formats.LitElement(form, order.Uint32(b)), int64(order.Uint32(b[word:]))
		if dtype == "" || axes > mostAxes || (2+axes)*word > int64(len(b)) {
			continue
		}
		if axes == 0 && c.length-2*word == widths[dtype] { // one number
			c.behind(2 * word)
			c.dtype = dtype
			return p.number(c)
		}
		var shape []int64
		for axis := range axes {
			shape = append(shape, int64(order.Uint32(b[(2+axis)*word:])))
		}
		// The right order is the one whose shape fills the bytes: for the other one a type or a side is 2^24 and
		// more.
		if n, ok := arrayBytes(shape, widths[dtype]); !ok || n != c.length-(2+axes)*word {
			continue
		}
		c.behind((2 + axes) * word)
		c.kind, c.dtype, c.shape = arrayCell, dtype, shape
		return p.imageOfArray(c)
	}
	c.kind, c.holds = listCell, "what is no array of numbers here"
	return nil
}
