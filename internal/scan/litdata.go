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

// These are names that LitData gives its files (litdata/constants.py).
const (
	litIndexName = "index.json"
	litChunkExt  = ".bin" // also of compressed chunks, as in chunk-0-0.zstd.bin
	maxLitIndex  = 256 << 20
)

// litFolder has the index of the folder whose chunks were last looked at. It is read once for all of them.
// A folder has hundreds of chunks, and its index may have megabytes. Only one index is kept: if chunks of several
// folders are read in turn, each index is read again and again.
type litFolder struct {
	// open opens a file by its path, or an object in a store by its address; the error is fs.ErrNotExist if there is none.
	open func(path string) (io.ReadCloser, error)

	mu    sync.Mutex
	index *formats.LitIndex
	path  string
	err   error
}

// of returns the index of a chunk's folder; nil if the folder has none.
// The folder is the text before the last slash, because the path may be an address.
func (l *litFolder) of(chunk string) (*formats.LitIndex, error) {
	return l.in(chunk[:strings.LastIndexByte(chunk, '/')+1])
}

// in returns the index of a folder, whose path or address ends with a slash or is empty.
func (l *litFolder) in(dir string) (*formats.LitIndex, error) {
	l.mu.Lock()
	// The lock is held while the file is read, so that workers on chunks of one folder wait for one of them.
	defer l.mu.Unlock()
	if path := dir + litIndexName; l.path != path {
		l.path = path
		l.index, l.err = readLitIndex(path, l.open)
	}
	return l.index, l.err
}

// readLitIndex returns nil without an error if there is no such file, because most folders are not LitData's.
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

// newLitFolder makes a litFolder for folders on disk.
func newLitFolder() *litFolder {
	return &litFolder{open: func(path string) (io.ReadCloser, error) { return mmap.OpenRegular(path) }}
}

// chunks returns the chunks of a folder in the order of its index; none if the index is another program's.
// That order is also the order of LitData's sample numbers.
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

// names is true if the index beside a file names it.
// Only the last part of the file's path is compared, because that is what the index has.
func (l *litFolder) names(path string) (bool, error) {
	index, err := l.of(path)
	if index == nil || err != nil {
		return false, err
	}
	_, named := index.Chunk(filepath.Base(path))
	return named, nil
}

// scanLitData reads the items of a chunk. The index of its folder says what they are. If only one leaf is encoded as an
// image, it is the image, whatever its name.
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
	// chunk.Samples is the index's count; it has to agree with the head of the chunk.
	l, err := formats.NewLitData(p.file, p.size, index, chunk.Samples, p.mostBlock)
	if err != nil {
		return err
	}
	// A column with a usual name is the image, whatever its encoding, as in every other container.
	usual := func(c tableColumn) bool { return slices.Contains(imageNames, c.name) }
	if encoded := index.Encoded(); !p.image.given && len(encoded) == 1 && !slices.ContainsFunc(tableColumns(l.Leaves), usual) {
		p.image.names = encoded
	}
	// An array or a tensor begins with a head of its type and shape. litForm removes the head if the column is needed as
	// image or as vector. For that the value has to come as bytes.
	for i, c := range tableColumns(l.Leaves) {
		if form := l.Leaves[i].Form; (form == formats.LitNumpy || form == formats.LitTensor) && (p.isImage(c.name) || p.wantsVector(c.name)) {
			l.Leaves[i].Kind = formats.BytesLeaf
		}
	}
	return p.readTable(l.Leaves, "", l.Next)
}

// litForm removes the head of a value that has one.
// A form is the name of one of LitData's serializers in the index (litdata/streaming/serializers.py).
func (p *part) litForm(c *cell, form string) error {
	switch form {
	case "pil":
		return p.decodePIL(c)
	case "jpeg_array":
		return p.imageOfList(c, 0)
	}
	return p.litArray(c, form)
}

// litArray reads an array of several axes (litdata/streaming/serializers.py). Its head has a uint32 for the type, one
// for the number of axes, and one for each axis. They are little-endian for NumPy's arrays and big-endian for tensors,
// but little-endian in LitData's first releases.
func (p *part) litArray(c *cell, form string) error {
	// Images have fewer axes. The limit bounds the size of the head.
	const word, mostAxes = 4, 8
	var space [(2 + mostAxes) * word]byte
	b, err := p.head(c, space[:])
	if err != nil {
		return err
	}
	// A file does not say which release of LitData wrote it, so for tensors both byte orders are tried.
	orders := []binary.ByteOrder{binary.LittleEndian}
	if form == formats.LitTensor {
		orders = []binary.ByteOrder{binary.BigEndian, binary.LittleEndian}
	}
	for _, order := range orders {
		// The shortest array is a NumPy scalar, which has no axes.
		if len(b) < 2*word {
			break
		}
		dtype, axes := formats.LitElement(form, order.Uint32(b)), int64(order.Uint32(b[word:]))
		if dtype == "" || axes > mostAxes || (2+axes)*word > int64(len(b)) {
			continue
		}
		if axes == 0 && c.length-2*word == widths[dtype] { // a single number
			c.behind(2 * word)
			c.dtype = dtype
			return p.number(c)
		}
		var shape []int64
		for axis := range axes {
			shape = append(shape, int64(order.Uint32(b[(2+axis)*word:])))
		}
		// The right byte order is the one whose shape fills the bytes. In the other one the type or a side would be 2^24 or
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
