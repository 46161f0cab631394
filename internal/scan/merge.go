package scan

import (
	"fmt"
	"hash/maphash"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// merge makes one table of what the containers hold, in their order.
func merge(root, format string, shards []catalog.ShardInfo, parts []*part, o *Options) (*catalog.Table, error) {
	t := &catalog.Table{Root: root, Shards: shards}
	t.Source.Format = format
	all := sumColumns(parts)
	for i, p := range parts {
		for _, warning := range p.warnings {
			t.Warnings = append(t.Warnings, shards[i].Name+": "+warning)
		}
		for range p.rows() {
			t.Shard = append(t.Shard, uint32(i))
		}
		t.Offset, t.Length, t.Frames = append(t.Offset, p.offset...), append(t.Length, p.length...), append(t.Frames, p.frames...)
	}
	if t.Source.Blocks = slices.ContainsFunc(parts, func(p *part) bool { return p.blocks != nil }); t.Source.Blocks {
		for _, p := range parts {
			t.Blocks = append(t.Blocks, grown(p.blocks, p.rows())...)
		}
		if bytes, count := blockBytes(parts); bytes > blocks.MostCached {
			t.Warnings = append(t.Warnings, fmt.Sprintf("the images lie in %d compressed blocks of %d kB on average, of which %d MB are kept: in shuffled order nearly every image costs a block; headrace pack makes shards of them",
				count, bytes/count>>10, blocks.MostCached>>20))
		}
	}
	if len(t.Shard) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, where(root, shards), "the containers hold no sample")
	}
	if err := chooseColumns(t, all, o); err != nil {
		return nil, err
	}
	if err := mergeLabels(t, parts, o); err != nil {
		return nil, err
	}
	if err := mergeFields(t, all, parts, o); err != nil {
		return nil, err
	}
	keys := make([]*formats.Names, len(parts))
	for i, p := range parts {
		keys[i] = &p.keys
	}
	uniqueKeys(t, keys...)
	return t, nil
}

// blockBytes are those of all blocks once they are decoded, and their number.
func blockBytes(parts []*part) (bytes, count int64) {
	for _, p := range parts {
		seen := make(map[int64]bool)
		for i := range p.blocks {
			if b := &p.blocks[i]; b.Codec != blocks.None && !seen[p.offset[i]] {
				seen[p.offset[i]] = true
				bytes, count = bytes+int64(b.Size), count+1
			}
		}
	}
	return bytes, count
}

// where is what an error about all containers names: the only one, or the folder of all.
func where(root string, shards []catalog.ShardInfo) string {
	if len(shards) == 1 {
		return filepath.Join(root, filepath.FromSlash(shards[0].Name))
	}
	return root
}

// sumColumns adds up what the parts have of each column, in the order of their first appearance.
func sumColumns(parts []*part) []*column {
	var all []*column
	by := make(map[string]*column)
	for _, p := range parts {
		for _, name := range p.order {
			c, sum := p.columns[name], by[name]
			if sum == nil {
				sum = &column{name: name, kind: c.kind}
				by[name] = sum
				all = append(all, sum)
			}
			sum.seen, sum.images, sum.labels = sum.seen+c.seen, sum.images+c.images, sum.labels+c.labels
			sum.mixed = sum.mixed || c.mixed
			switch {
			case sum.kind == c.kind:
			case isNumber(sum.kind) && isNumber(c.kind):
				sum.kind = floatCell
			default:
				sum.mixed = true
			}
		}
	}
	return all
}

func isNumber(k cellKind) bool { return k == intCell || k == floatCell }

// chooseColumns settles which columns were image and label, and refuses what is missing or in doubt.
func chooseColumns(t *catalog.Table, all []*column, o *Options) error {
	var images, labels []string
	for _, c := range all {
		use := ""
		switch {
		case c.images > 0:
			images, use = append(images, c.name), "image"
		case c.labels > 0:
			labels, use = append(labels, c.name), "label"
		}
		t.Source.Columns = append(t.Source.Columns, catalog.SourceColumn{Name: c.name, Samples: max(c.seen, c.labels), Use: use})
	}
	t.Source.Image, t.Source.Label = strings.Join(images, ";"), strings.Join(labels, ";")
	switch {
	case len(images) == 0 && o.Image != "":
		return catalog.NewError(fault.KindArgument, where(t.Root, t.Shards), "no sample has a column %q (found %s)", o.Image, columnList(all))
	case len(images) == 0:
		return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "no column is known as the image (found %s); image= names it", columnList(all))
	case len(labels) == 0 && o.Label != "":
		return catalog.NewError(fault.KindArgument, where(t.Root, t.Shards), "no sample has a column %q (found %s)", o.Label, columnList(all))
	case len(labels) > 1 && o.Label == "":
		return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "several columns may be the label: %s (found %s); label= says which", strings.Join(labels, ", "), columnList(all))
	case len(labels) == 0:
		t.Warnings = append(t.Warnings, fmt.Sprintf("no column is known as the label, so every label is -1 (found %s); label= names one", columnList(all)))
	}
	return nil
}

// columnList names a container's columns for a sentence.
func columnList(all []*column) string {
	const most = 20
	var names []string
	for _, c := range all {
		if len(names) == most {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(all)-most)
		}
		names = append(names, strconv.Quote(c.name))
	}
	if names == nil {
		return "no column"
	}
	return strings.Join(names, ", ")
}

// mergeLabels turns what the samples say into numbers: texts into their place among the sorted classes,
// numbers into themselves. Fractions are no classes and become a field.
func mergeLabels(t *catalog.Table, parts []*part, o *Options) error {
	var seen [listLabel + 1]int64
	texts := make(map[string]int64)
	for _, p := range parts {
		for i := range p.labels {
			seen[p.labels[i].kind]++
			if p.labels[i].kind == textLabel {
				texts[p.labels[i].text] = 0
			}
		}
	}
	named := seen[textLabel] > 0
	if named { // a number among texts is a text, too
		for _, p := range parts {
			for i := range p.labels {
				if l := &p.labels[i]; l.kind == intLabel {
					l.kind, l.text = textLabel, strconv.FormatInt(l.number, 10)
					texts[l.text] = 0
				}
			}
		}
		for name := range texts {
			t.Classes = append(t.Classes, name)
		}
		slices.Sort(t.Classes)
	}
	wrong := fault.KindArgument
	switch {
	case o.Classes != nil:
		t.Classes = slices.Clone(o.Classes)
	case !named:
		var err error
		if t.Classes, err = ownClasses(t, parts); err != nil {
			return err
		}
		wrong = fault.KindBadFile
	}
	for i, name := range t.Classes {
		texts[name] = int64(i)
	}
	measured := seen[fractionLabel] > 0 && !named // a column of measured values, of which some are whole
	for shard, p := range parts {
		for i := range p.labels {
			l := &p.labels[i]
			number := int64(catalog.NoLabel)
			switch l.kind {
			case intLabel:
				if !measured {
					number = l.number
				}
			case textLabel:
				number = texts[l.text]
				if o.Classes != nil && !slices.Contains(o.Classes, l.text) {
					return labelError(wrong, t, shard, len(t.Label), p.offset[i], fmt.Sprintf("the label %.80q is none of classes", l.text))
				}
			}
			if n := int64(len(t.Classes)); n > 0 && (number < catalog.NoLabel || number >= n) {
				return labelError(wrong, t, shard, len(t.Label), p.offset[i], fmt.Sprintf("the label is %d, there are %d classes", number, n))
			}
			t.Label = append(t.Label, number)
		}
	}
	if measured {
		t.Warnings = append(t.Warnings, "labels are fractions, which are no classes: they are the field \"label\", and every label is -1")
		var values []float64
		for _, p := range parts {
			for i := range p.labels {
				values = append(values, fractionOf(&p.labels[i]))
			}
		}
		addNumbers(t, catalog.Field{Name: "label", Type: catalog.Float}, nil, values)
	}
	if seen[listLabel] > 0 {
		t.Warnings = append(t.Warnings, "the labels are lists or objects, which are no classes: every such label is -1")
	}
	return nil
}

// ownClasses are the names of classes that the containers have of the label's column themselves.
func ownClasses(t *catalog.Table, parts []*part) ([]string, error) {
	var names []string
	first := -1
	for i, p := range parts {
		switch own := p.names[t.Source.Label]; {
		case p.rows() == 0:
		case first < 0:
			names, first = own, i
		case !slices.Equal(own, names):
			return nil, catalog.NewError(fault.KindUnsupported, filepath.Join(t.Root, filepath.FromSlash(t.Shards[i].Name)),
				"the names of its %d classes differ from those of %s, which has %d; classes= says which hold", len(own), t.Shards[first].Name, len(names))
		}
	}
	return slices.Clone(names), nil
}

func fractionOf(l *label) float64 {
	switch l.kind {
	case intLabel:
		return float64(l.number)
	case fractionLabel:
		return l.fraction
	}
	return math.NaN()
}

func labelError(kind fault.Kind, t *catalog.Table, shard, record int, offset int64, text string) error {
	e := catalog.NewError(kind, filepath.Join(t.Root, filepath.FromSlash(t.Shards[shard].Name)), "%s", text)
	e.Record, e.Offset = int64(record), offset
	return e
}

// ofEverySample are names that a batch has for every sample.
var ofEverySample = []string{"index", "path", "key", "image", "label"}

// mergeFields makes fields of the columns that are neither image nor label.
func mergeFields(t *catalog.Table, all []*column, parts []*part, o *Options) error {
	taken := make(map[string]bool)
	for _, f := range t.Fields {
		taken[f.Name] = true
	}
	for _, name := range o.Fields {
		if !slices.ContainsFunc(all, func(c *column) bool { return c.name == name }) {
			return catalog.NewError(fault.KindArgument, where(t.Root, t.Shards), "fields: no sample has a column %q (found %s)", name, columnList(all))
		}
	}
	for n, c := range all {
		asked := slices.Contains(o.Fields, c.name)
		if c.mixed || c.kind == listCell {
			if asked {
				return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "the column %q holds lists, or values of several types", c.name)
			}
			continue
		}
		if !asked && (o.Fields != nil || c.images > 0 || c.labels > 0) {
			continue
		}
		name := c.name
		for taken[name] || slices.Contains(ofEverySample, name) {
			name += "_"
		}
		taken[name] = true
		before := len(t.Fields)
		addColumn(t, name, c, parts)
		if t.Source.Columns[n].Use == "" && len(t.Fields) > before {
			t.Source.Columns[n].Use = "field"
		}
	}
	return nil
}

// addColumn puts together the parts of one column.
func addColumn(t *catalog.Table, name string, c *column, parts []*part) {
	switch c.kind {
	case intCell:
		if c.seen < int64(len(t.Shard)) { // a whole number that is missing could not be told from any other
			addNumbers(t, catalog.Field{Name: name, Type: catalog.Float}, nil, floatsOf(c.name, parts))
			return
		}
		var values []int64
		for _, p := range parts {
			if col := p.columns[c.name]; col != nil { // a container without a sample has no column
				values = append(values, col.ints...)
			}
		}
		addNumbers(t, catalog.Field{Name: name, Type: catalog.Int}, values, nil)
	case floatCell:
		addNumbers(t, catalog.Field{Name: name, Type: catalog.Float}, nil, floatsOf(c.name, parts))
	default:
		if slices.ContainsFunc(parts, func(p *part) bool { return p.columns[c.name] != nil && p.columns[c.name].texts != nil }) {
			addHeld(t, name, c, parts)
			return
		}
		kind := catalog.Bytes
		if c.kind == textCell {
			kind = catalog.Str
		}
		var places []catalog.Place
		for _, p := range parts {
			var own []catalog.Place
			if col := p.columns[c.name]; col != nil {
				own = col.places
			}
			places = append(places, grown(own, p.rows())...)
		}
		addField(t, catalog.Field{Name: name, Type: kind, Located: true}, places, nil, nil, nil)
	}
}

func floatsOf(name string, parts []*part) []float64 {
	var values []float64
	for _, p := range parts {
		var own []float64
		if col := p.columns[name]; col != nil {
			own = col.floats
			for _, v := range col.ints {
				own = append(own, float64(v))
			}
		}
		values = append(values, grownWith(own, p.rows(), math.NaN())...)
	}
	return values
}

func addNumbers(t *catalog.Table, f catalog.Field, ints []int64, floats []float64) {
	addField(t, f, nil, ints, floats, nil)
}

// addField adds a field with its values, of which there is one kind.
func addField(t *catalog.Table, f catalog.Field, places []catalog.Place, ints []int64, floats []float64, texts *formats.Names) {
	t.Fields = append(t.Fields, f)
	t.Places, t.Ints = append(t.Places, places), append(t.Ints, ints)
	t.Numbers, t.Texts = append(t.Numbers, floats), append(t.Texts, texts)
}

// uniqueKeys keeps the containers' own keys, which stand in the order of rows, where they are unique. An
// absent or repeated one becomes CONTAINER/KEY, and where that is not enough, CONTAINER/ROW.
func uniqueKeys(t *catalog.Table, lists ...*formats.Names) {
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	hash := func(key string) [2]uint64 { // 128 bits: a collision by chance would need 2^64 keys
		return [2]uint64{maphash.String(seeds[0], key), maphash.String(seeds[1], key)}
	}
	count := make(map[[2]uint64]uint32, len(t.Shard))
	for _, keys := range lists {
		for i := range keys.Len() {
			count[hash(string(keys.Bytes(i)))]++
		}
	}
	containers := make([]string, len(t.Shards))
	for i := range containers {
		containers[i] = formats.SampleKey(t.Shards[i].Name)
	}
	rows := make([]int64, len(t.Shards)) // of each container so far
	at := 0
	for _, keys := range lists {
		for i := range keys.Len() {
			key, shard := string(keys.Bytes(i)), t.Shard[at]
			if key == "" || len(key) > formats.MaxNameBytes || count[hash(key)] > 1 {
				if key = containers[shard] + "/" + key; key[len(key)-1] == '/' || len(key) > formats.MaxNameBytes || count[hash(key)] > 0 {
					key = fmt.Sprintf("%s/%d", containers[shard], rows[shard])
				}
				for count[hash(key)] > 0 {
					key += "@"
				}
				count[hash(key)] = 1
			}
			t.Keys.Append(key)
			rows[shard]++
			at++
		}
	}
}
