package formats

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// LitIndex is what index.json says about a folder of LitData's chunks; the chunks do not say it themselves.
type LitIndex struct {
	Chunks []LitChunk

	byName map[string]int
	leaves []Leaf
	widths []int64 // sizes of numbers in bytes, 0 for other leaves
	level  string  // of compression: "", "chunk", "batch" or "sample"
}

// LitChunk is a file of the folder.
type LitChunk struct {
	Name    string `json:"filename"`
	Samples int64  `json:"chunk_size"`
}

// litIndex is the file. Another program's index.json lacks one of the two members.
type litIndex struct {
	Chunks *[]LitChunk `json:"chunks"`
	Config *litConfig  `json:"config"`
}

type litConfig struct {
	Formats     []string        `json:"data_format"`
	Spec        *string         `json:"data_spec"`
	Compression *string         `json:"compression"`
	Level       *string         `json:"compression_level"`
	Encryption  json.RawMessage `json:"encryption"`
	Loader      *string         `json:"item_loader"`
}

// litSpec is PyTorch's TreeSpec as JSON: the containers of a sample around its leaves. A leaf has no type.
type litSpec struct {
	Type     *string   `json:"type"`
	Context  *string   `json:"context"` // for a dict, the list of its keys as JSON
	Children []litSpec `json:"children_spec"`
}

// ParseLitIndex reads an index.json; it returns nil for another program's, such as that of MDS.
func ParseLitIndex(text []byte) (*LitIndex, error) {
	var index litIndex
	if json.Unmarshal(text, &index) != nil || index.Chunks == nil || index.Config == nil {
		return nil, nil
	}
	c := index.Config
	x := &LitIndex{Chunks: *index.Chunks, byName: make(map[string]int)}
	switch {
	// litdata/streaming/writer.py (get_config) shows what LitData writes in each case.
	case len(c.Encryption) > 0 && string(c.Encryption) != "null":
		return nil, fmt.Errorf("%w: the chunks are encrypted", ErrUnsupported)
	case c.Loader != nil && *c.Loader != "PyTreeLoader" && *c.Loader != "":
		return nil, fmt.Errorf("%w: chunks of LitData's %.80q (expected \"PyTreeLoader\")", ErrUnsupported, *c.Loader)
	case c.Compression != nil && *c.Compression != "":
		if name, _, _ := strings.Cut(*c.Compression, ":"); name != "zstd" {
			return nil, fmt.Errorf("%w: chunks compressed by %.80q (expected \"zstd\")", ErrUnsupported, *c.Compression)
		}
		x.level = "chunk"
		if c.Level != nil && *c.Level != "" {
			x.level = *c.Level
		}
	}
	for i, chunk := range x.Chunks {
		x.byName[chunk.Name] = i
		// Names of an index are opened, so none may lead out of its folder.
		if chunk.Name == "" || !filepath.IsLocal(chunk.Name) || filepath.Base(chunk.Name) != chunk.Name || chunk.Samples < 0 {
			return nil, fmt.Errorf("%w: a chunk called %.80q of %d samples (expected the name of a file beside the index)", ErrBad, chunk.Name, chunk.Samples)
		}
	}
	return x, x.readLeaves(c)
}

func (x *LitIndex) readLeaves(c *litConfig) error {
	if len(c.Formats) == 0 || len(c.Formats) > maxTableLeaves {
		return fmt.Errorf("%w: a data_format of %d leaves (expected 1 to %d)", ErrBad, len(c.Formats), maxTableLeaves)
	}
	var paths [][]string
	if c.Spec != nil {
		var protocol int
		var spec litSpec
		// torch.utils._pytree.treespec_dumps writes the protocol's number and the tree.
		if err := json.Unmarshal([]byte(*c.Spec), &[]any{&protocol, &spec}); err != nil || protocol != 1 {
			return fmt.Errorf("%w: a data_spec of protocol %d (expected 1, that of PyTorch's TreeSpec)", ErrUnsupported, protocol)
		}
		if err := spec.leaves(nil, &paths); err != nil {
			return err
		}
	}
	if paths != nil && len(paths) != len(c.Formats) {
		return fmt.Errorf("%w: a data_spec of %d leaves (expected %d, as data_format has)", ErrBad, len(paths), len(c.Formats))
	}
	for i, format := range c.Formats {
		leaf, width := litLeaf(format)
		if leaf.Path = []string{strconv.Itoa(i)}; paths != nil && len(paths[i]) > 0 {
			leaf.Path = paths[i]
		}
		x.leaves, x.widths = append(x.leaves, leaf), append(x.widths, width)
	}
	return nil
}

// leaves collects the names of the containers around each leaf: keys of dicts, and numbers in lists and tuples.
func (s *litSpec) leaves(path []string, to *[][]string) error {
	if len(*to) > maxTableLeaves || len(path) > maxTableFields {
		return fmt.Errorf("%w: a data_spec of more than %d leaves", ErrLimit, maxTableLeaves)
	}
	// A leaf has no type and no children.
	if s.Type == nil {
		*to = append(*to, path)
		return nil
	}
	var keys []string
	if s.Context != nil { // an OrderedDict has keys, too; lists and tuples have null
		_ = json.Unmarshal([]byte(*s.Context), &keys)
	}
	for i := range s.Children {
		name := strconv.Itoa(i)
		// In lists and tuples the numbers serve as names, and also in a dict whose keys are not texts.
		if len(keys) == len(s.Children) {
			name = keys[i]
		}
		below := append(path[:len(path):len(path)], name)
		if err := checkName(below, 0); err != nil {
			return err
		}
		if err := s.Children[i].leaves(below, to); err != nil {
			return err
		}
	}
	return nil
}

// litArrays and litTensors are types of numbers by their places in litdata/constants.py; "": no field can have it.
var (
	litArrays  = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "", "", "bool"}
	litTensors = []string{"float32", "float32", "float64", "float64", "", "", "", "", "float16", "float16", "", "uint8", "int8", "int16", "int16",
		"int32", "int32", "int64", "int64", "bool", "uint16"}
)

// litLeaf returns the leaf for a format (litdata/streaming/serializers.py), and the size of its numbers. Some formats
// have a dtype or an extension after a colon.
func litLeaf(format string) (Leaf, int64) {
	name, dtype, _ := strings.Cut(format, ":")
	switch name {
	case "jpeg", "image", "bytes", "file", "tiff", "tifffile":
		return Leaf{Kind: BytesLeaf, Type: name}, 0
	case "pil", "jpeg_array":
		return Leaf{Kind: BytesLeaf, Type: name, Form: name}, 0
	case "str", "text":
		return Leaf{Kind: TextLeaf}, 0
	case "int":
		return Leaf{Kind: IntLeaf}, 8
	case "bool":
		return Leaf{Kind: IntLeaf}, 1
	case "float":
		return Leaf{Kind: FloatLeaf}, 8
	// These are named in the error, because otherwise the user would look for a damaged file.
	case "pickle", "graph":
		return Leaf{Kind: RefusedLeaf, Type: "a pickle, which can run any code when it is read"}, 0
	case LitNumpy, LitTensor:
		return Leaf{Kind: RefusedLeaf, Type: ListType, Form: name}, 0
	case "no_header_numpy", "no_header_tensor": // arrays of one axis; those with more have a head
		number, err := strconv.Atoi(dtype)
		types := litTensors
		if name == "no_header_numpy" {
			types = litArrays
		}
		if err == nil && number >= 0 && number < len(types) && types[number] != "" {
			return Leaf{Kind: ArrayLeaf, Type: ListType, Element: types[number]}, 0
		}
	}
	return Leaf{Kind: RefusedLeaf, Type: fmt.Sprintf("%.80q", format)}, 0
}

// These are the forms of arrays of several axes, whose heads have type and shape.
const LitNumpy, LitTensor = "numpy", "tensor"

// LitElement returns the type of an array's numbers, by its number in the head; "" if no field can have it.
func LitElement(form string, number uint32) string {
	types := litTensors
	if form == LitNumpy {
		types = litArrays
	}
	if uint64(number) >= uint64(len(types)) {
		return ""
	}
	return types[number]
}

// Encoded returns the names of the columns whose format is one of images: of encoded images, if there are none of
// pixels, and if there are none of these of lists of images.
func (x *LitIndex) Encoded() (names []string) {
	for _, types := range [][]string{{"jpeg", "image", "tiff", "tifffile"}, {"pil"}, {"jpeg_array"}} {
		for _, leaf := range x.leaves {
			if slices.Contains(types, leaf.Type) {
				names = append(names, strings.Join(leaf.Path, "."))
			}
		}
		if names != nil {
			break
		}
	}
	return names
}

// Chunk returns what the index says about a file; false if it does not name it.
func (x *LitIndex) Chunk(name string) (LitChunk, bool) {
	i, named := x.byName[name]
	if !named {
		return LitChunk{}, false
	}
	return x.Chunks[i], true
}
