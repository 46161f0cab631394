package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

const (
	litIndexName = "index.json"
	maxLitIndex  = 256 << 20
)

// litFolder is the index of the folder that chunks were last found in: read once for all of them.
type litFolder struct {
	mu    sync.Mutex
	dir   string
	index *formats.LitIndex
	err   error
}

// of is the index of a folder's chunks; nil where the folder has none.
func (l *litFolder) of(dir string) (*formats.LitIndex, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir != dir {
		l.dir = dir
		l.index, l.err = readLitIndex(filepath.Join(dir, litIndexName))
	}
	return l.index, l.err
}

func readLitIndex(path string) (*formats.LitIndex, error) {
	f, err := mmap.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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

// litChunks are the chunks of a folder in the order of its index; none where that is of something else.
func litChunks(dir string) (files []string, err error) {
	var folder litFolder
	index, err := folder.of(dir)
	if index == nil || err != nil {
		return nil, err
	}
	for _, chunk := range index.Chunks {
		files = append(files, filepath.Join(dir, chunk.Name))
	}
	return files, nil
}

// isLitChunk is true of a file that the index beside it names.
func isLitChunk(path string, folder *litFolder) bool {
	index, err := folder.of(filepath.Dir(path))
	if index == nil || err != nil {
		return false
	}
	_, named := index.Chunk(filepath.Base(path))
	return named
}

// scanLitData reads the items of a chunk. What they are its folder's index says. A leaf that is encoded as an
// image is the image whatever its name, where there is only one.
func scanLitData(p *part) error {
	index, err := p.lit.of(filepath.Dir(p.path))
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
	l, err := formats.NewLitData(p.file, p.size, index, chunk.Samples, p.mostBlock)
	if err != nil {
		return err
	}
	usual := func(c tableColumn) bool { return slices.Contains(imageNames, c.name) }
	if encoded := index.Encoded(); !p.image.given && len(encoded) == 1 && !slices.ContainsFunc(tableColumns(l.Leaves), usual) {
		p.image.names = encoded
	}
	for i, c := range tableColumns(l.Leaves) {
		if form := l.Leaves[i].Form; (form == formats.LitNumpy || form == formats.LitTensor) && (p.isImage(c.name) || p.wantsVector(c.name)) {
			l.Leaves[i].Kind = formats.BytesLeaf
		}
	}
	return p.readTable(l.Leaves, "", l.Next)
}

// litForm takes the head off a value that has one.
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
	const word, mostAxes = 4, 8
	var space [(2 + mostAxes) * word]byte
	b, err := p.head(c, space[:])
	if err != nil {
		return err
	}
	orders := []binary.ByteOrder{binary.LittleEndian}
	if form == formats.LitTensor {
		orders = []binary.ByteOrder{binary.BigEndian, binary.LittleEndian}
	}
	for _, order := range orders {
		if len(b) < 2*word {
			break
		}
		dtype, axes := formats.LitElement(form, order.Uint32(b)), int64(order.Uint32(b[word:]))
		if dtype == "" || axes < 1 || axes > mostAxes || (2+axes)*word > int64(len(b)) {
			continue
		}
		var shape []int64
		for axis := range axes {
			shape = append(shape, int64(order.Uint32(b[(2+axis)*word:])))
		}
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
