package scan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unique"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

// scanArrow reads the rows of an Arrow stream or file.
// datasets writes its features into the schema's metadata.
func scanArrow(p *part) error {
	a, err := formats.NewArrow(p.file, p.size, p.mostBlock)
	if err != nil {
		return err
	}
	return p.readTable(a.Leaves, a.Metadata["huggingface"], a.Next)
}

// scanParquet reads the rows of a Parquet file.
// datasets writes its features into the footer's key-value metadata.
func scanParquet(p *part) error {
	t, err := formats.NewParquet(p.file, p.size, p.mostBlock)
	if err != nil {
		return err
	}
	return p.readTable(t.Leaves, t.Metadata[huggingFaceKey], t.Next)
}

// huggingFaceKey is the name of Hugging Face's metadata in a table's schema (datasets/arrow_writer.py).
const huggingFaceKey = "huggingface"

// HasImages says whether a Parquet file is a container of images. Otherwise it is a list of files, which has a column of
// paths. said is true if the caller gave words that only containers have.
// It reads only the footer. A file that cannot be opened counts as a list; opening the list then gives the error.
func HasImages(path string, said bool) bool {
	leaves, metadata := footerOf(path)
	if !slices.ContainsFunc(leaves, func(l formats.Leaf) bool { return l.Kind == formats.BytesLeaf }) {
		return false
	}
	// A list may have bytes beside its column path, such as thumbnails, and a container may have paths beside its images.
	// A column that Dataset takes for the image without a word is one here, too.
	return said || !hasLeaf(leaves, "path") || knowsImage(leaves, metadata)
}

// knowsImage is true if a column of bytes is an image by its name or by Hugging Face's metadata.
func knowsImage(leaves []formats.Leaf, metadata string) bool {
	p, columns := newPart(nil, 0, &Options{}), tableColumns(leaves)
	p.features(columns, metadata)
	for i := range leaves {
		if leaves[i].Kind == formats.BytesLeaf && slices.Contains(p.image.names, columns[i].name) {
			return true
		}
	}
	return false
}

// HasColumn is true if a Parquet file has a flat column of this name. As in HasImages, a file that cannot be opened has
// none.
func HasColumn(path, name string) bool {
	leaves, _ := footerOf(path)
	return hasLeaf(leaves, name)
}

func hasLeaf(leaves []formats.Leaf, name string) bool {
	return slices.ContainsFunc(leaves, func(l formats.Leaf) bool { return len(l.Path) == 1 && l.Path[0] == name })
}

// footerOf returns the columns of a Parquet file and Hugging Face's metadata; none if it cannot be opened.
func footerOf(path string) (leaves []formats.Leaf, metadata string) {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, ""
	}
	t, err := formats.NewParquet(f, info.Size(), blocks.MostBytes)
	if err != nil {
		return nil, ""
	}
	return t.Leaves, t.Metadata[huggingFaceKey]
}

// tableColumn is the use of a leaf of a table.
// A leaf is a column of values; a struct has a leaf for each of its members.
type tableColumn struct {
	name   string
	inner  bool // it has the path of an image whose bytes are another leaf
	paths  int  // of an image's bytes: the number of the leaf with its path, otherwise -1
	passed bool // it is ignored
}

// readTable makes a sample of every row of a table. Hugging Face writes an image as a struct of its bytes and its path,
// and the meaning of columns into the schema's metadata.
// Before the first row it marks in the leaves which need not be read (Skip), and whose bytes are needed (Want).
func (p *part) readTable(leaves []formats.Leaf, metadata string, next func([]formats.Value) (int64, error)) error {
	p.plain = false
	columns := tableColumns(leaves)
	p.features(columns, metadata)
	var unread []string
	for i := range leaves {
		// R and pandas write row names as a column without a name.
		if columns[i].passed = leaves[i].Empty; !isColumnName(columns[i].name) {
			columns[i].passed = true
			p.warnings = append(p.warnings, fmt.Sprintf("a column is called %.40q, which no field can be called, so it is none", columns[i].name))
		}
		if leaves[i].Kind == formats.ArrayLeaf && !p.wantsVector(columns[i].name) {
			leaves[i].Kind, leaves[i].Type = formats.RefusedLeaf, formats.ListType
		}
		if leaves[i].Skip = columns[i].passed || !p.needs(&columns[i]); leaves[i].Skip && !columns[i].passed {
			unread = append(unread, columns[i].name)
		}
		// Labels and paths are used now; of all other bytes and texts only the places are kept.
		leaves[i].Want = columns[i].inner || slices.Contains(p.label.names, columns[i].name)
	}
	p.unread = unique.Make(strings.Join(unread, columnsJoint))
	// This comes before any row: an image of a type that is not read would be missing in every one.
	if err := p.checkTypes(leaves, columns); err != nil {
		return err
	}
	values := make([]formats.Value, len(leaves))
	var cells []cell
	// elsewhere counts images with a path only: their bytes are on the machine that wrote the table.
	elsewhere := int64(0)
	for {
		begin, err := next(values)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		cells = cells[:0]
		// A row has a key only if its image has a path.
		key, pixels := "", false
		for i := range leaves {
			if columns[i].passed {
				continue
			}
			v := &values[i]
			// A refused column has a cell in each row, so that errors list it among the columns.
			if leaves[i].Kind == formats.RefusedLeaf || !v.Null || v.Gaps {
				c := tableCell(columns[i].name, &leaves[i], v)
				if leaves[i].Form != "" && leaves[i].Kind == formats.BytesLeaf {
					if err := p.litForm(&c, leaves[i].Form); err != nil {
						return at(fmt.Errorf("the column %.80q: %w", c.name, err), begin)
					}
					pixels = pixels || c.raw != (catalog.RawSize{})
				}
				cells = append(cells, c)
			}
			if paths := columns[i].paths; paths >= 0 && !values[paths].Null && slices.Contains(p.image.names, columns[i].name) {
				key = keyOfPath(values[paths].Data)
				if v.Null {
					elsewhere++
				}
			}
		}
		if pixels {
			if err := p.pixelsBeside(cells); err != nil {
				return at(err, begin)
			}
		}
		if err := p.add(key, begin, cells); err != nil {
			return at(err, begin)
		}
	}
	switch {
	case elsewhere > 0 && elsewhere == int64(p.rows()):
		return fmt.Errorf("%w: the images are not in the container, which has only their paths (Dataset.save_to_disk and push_to_hub embed them, to_parquet does not)", formats.ErrUnsupported)
	case elsewhere > 0:
		p.warnings = append(p.warnings, fmt.Sprintf("%d images are not in the container, which has only their paths", elsewhere))
	}
	return nil
}

// tableColumns names the leaves. A name is made of the names of the structs around a leaf and its own. For an image's
// bytes it is made of those of the structs alone.
func tableColumns(leaves []formats.Leaf) []tableColumn {
	// A leaf of a struct is called "struct.member"; image= and label= accept that name.
	columns := make([]tableColumn, len(leaves))
	for i := range leaves {
		columns[i] = tableColumn{name: strings.Join(leaves[i].Path, "."), paths: -1}
	}
	for i := range leaves {
		parent, last := leaves[i].Path[:len(leaves[i].Path)-1], leaves[i].Path[len(leaves[i].Path)-1]
		// datasets.Image is a struct of bytes and path (datasets/features/image.py).
		if leaves[i].Kind != formats.BytesLeaf || last != "bytes" || len(parent) == 0 {
			continue
		}
		for j := range leaves {
			if !slices.Equal(leaves[j].Path, append(slices.Clone(parent), "path")) {
				continue
			}
			columns[i].name = strings.Join(parent, ".")
			if leaves[j].Kind == formats.TextLeaf { // if no image has a path, writers may give the column no type
				columns[i].paths, columns[j].inner = j, true
			}
		}
	}
	return columns
}

// features reads what Hugging Face's metadata says about the columns: which one is an image, and the names of classes.
// A column with a usual name takes precedence, as everywhere.
// What the user named takes precedence over both.
func (p *part) features(columns []tableColumn, metadata string) {
	var said struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if metadata == "" {
		return
	}
	if err := json.Unmarshal([]byte(metadata), &said); err != nil {
		p.warnings = append(p.warnings, fmt.Sprintf("Hugging Face's metadata is no JSON and passed over: %v", err))
		return
	}
	var images, labels []string
	for _, c := range columns {
		var feature struct {
			Type  string   `json:"_type"`
			Names []string `json:"names"`
		}
		if json.Unmarshal(said.Info.Features[c.name], &feature) != nil { // for example a list of features
			continue
		}
		switch feature.Type {
		case "Image":
			images = append(images, c.name)
		case "ClassLabel":
			labels = append(labels, c.name)
			if len(feature.Names) > 0 {
				p.names[c.name] = feature.Names
			}
		}
	}
	// A column called image is the image in every container, even if the metadata calls another one an image.
	usual := func(names []string) bool {
		return slices.ContainsFunc(columns, func(c tableColumn) bool { return slices.Contains(names, c.name) })
	}
	if !p.image.given && len(images) > 0 && !usual(imageNames) {
		p.image.names = images
	}
	if !p.label.given && len(labels) > 0 && !usual(labelNames) {
		p.label.names = labels
	}
}

// checkTypes refuses an image or a label of a type that is not read. A list as label is no class and only gives a
// warning.
// Other columns of such types are left out of the fields.
func (p *part) checkTypes(leaves []formats.Leaf, columns []tableColumn) error {
	for i, c := range columns {
		if c.passed || leaves[i].Kind != formats.RefusedLeaf || leaves[i].Type == formats.ListType {
			continue
		}
		if slices.Contains(p.image.names, c.name) || slices.Contains(p.label.names, c.name) {
			if err := p.doubt(fmt.Errorf("%w: the column %.80q is %s%s", formats.ErrUnsupported, c.name, leaves[i].Type, packInstead)); err != nil {
				return err
			}
		}
	}
	return nil
}

// needs is false for a column that is neither image, label nor path, if the chosen fields do not include it.
// A leaf that is not needed is skipped, and its pages are not decoded.
func (p *part) needs(c *tableColumn) bool {
	return p.fields == nil || c.inner || slices.Contains(p.fields, c.name) || c.name == "json" && p.jsonPath != "" ||
		slices.Contains(p.image.names, c.name) || slices.Contains(p.label.names, c.name)
}

// tableCell makes a cell of a leaf's value. If the value lies in a block, the offset counts from the block's first
// byte.
func tableCell(name string, leaf *formats.Leaf, v *formats.Value) cell {
	c := cell{name: name, offset: v.Offset, length: v.Length, int: v.Int, number: v.Float, data: v.Data, block: v.Block, held: v.Held}
	if v.Gaps {
		c.kind, c.gaps = listCell, true
		return c
	}
	switch leaf.Kind {
	case formats.ArrayLeaf:
		c.kind, c.dtype = arrayCell, leaf.Element
		c.shape = []int64{v.Length / widths[leaf.Element]}
	case formats.TextLeaf:
		c.kind = textCell
	case formats.IntLeaf:
		if c.kind = intCell; v.Large {
			c.kind = floatCell
		}
	case formats.FloatLeaf:
		c.kind = floatCell
	case formats.RefusedLeaf:
		if c.kind = listCell; leaf.Type != formats.ListType {
			c.why = "is " + leaf.Type
		}
	}
	return c
}

// keyOfPath makes the key of an image with a path. It drops the folders, which may be those of another machine.
func keyOfPath(name []byte) string {
	if len(name) == 0 || slices.Contains(name, 0) {
		return ""
	}
	return formats.SampleKey(path.Base(string(name)))
}
