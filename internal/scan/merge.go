package scan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// warningsOf collects the warnings of all containers. A warning that several containers share is given once.
func warningsOf(shards []catalog.ShardInfo, parts []*part) (said []string) {
	place, again := make(map[string]int), make(map[int]int)
	for i, p := range parts {
		for _, warning := range p.warnings {
			if at, known := place[warning]; known {
				again[at]++
				continue
			}
			place[warning] = len(said)
			said = append(said, shards[i].Name+": "+warning)
		}
	}
	for at, count := range again {
		said[at] += fmt.Sprintf(" (and so in %d more files)", count)
	}
	return said
}

// merge makes one table of all containers, in their order.
// Rows are in the order of the files, and within a file in the order of its samples. So a sample always has the same
// number.
func merge(root, format string, shards []catalog.ShardInfo, parts []*part, o *Options) (*catalog.Table, error) {
	t := &catalog.Table{Root: root, Shards: shards}
	t.Source.Format = format
	// The use of a column depends on its contents in all containers together.
	all := sumColumns(parts)
	t.Warnings = warningsOf(shards, parts)
	for i, p := range parts {
		for range p.rows() {
			t.Shard = append(t.Shard, uint32(i))
		}
		t.Offset, t.Length, t.Frames = append(t.Offset, p.offset...), append(t.Length, p.length...), append(t.Frames, p.frames...)
	}
	if t.Source.Blocks = slices.ContainsFunc(parts, func(p *part) bool { return p.blocks != nil }); t.Source.Blocks {
		// Rows of containers without blocks get empty places, because a table has a place for every row or for none.
		for _, p := range parts {
			t.Blocks = append(t.Blocks, grown(p.blocks, p.rows())...)
		}
	}
	if slices.ContainsFunc(parts, func(p *part) bool { return p.raw != nil }) {
		for _, p := range parts {
			t.Raw = append(t.Raw, grown(p.raw, p.rows())...)
		}
	}
	if len(t.Shard) == 0 {
		return nil, catalog.NewError(fault.KindEmpty, where(root, shards), "the containers hold no sample")
	}
	// The order is columns, labels, fields: a column that is neither image nor label is a field, and labels may become
	// one.
	if err := o.inspected(t, chooseColumns(t, all, parts, o)); err != nil {
		return nil, err
	}
	if err := o.inspected(t, mergeLabels(t, parts, o)); err != nil {
		return nil, err
	}
	// The table needs a label for each row; otherwise it cannot be looked at.
	for len(t.Label) < len(t.Shard) { // after a label was refused in a source that is only inspected
		t.Label = append(t.Label, catalog.NoLabel)
	}
	if err := o.inspected(t, mergeFields(t, all, parts, o)); err != nil {
		return nil, err
	}
	noteDoubts(t, parts)
	keys := make([]*formats.Names, len(parts))
	for i, p := range parts {
		keys[i] = &p.keys
	}
	uniqueKeys(t, keys...)
	return t, nil
}

// where returns the name for an error about all containers: the only one, or the folder of all.
func where(root string, shards []catalog.ShardInfo) string {
	if len(shards) == 1 {
		return filepath.Join(root, filepath.FromSlash(shards[0].Name))
	}
	return root
}

// sumColumns adds up the parts' columns by name, in the order of their first appearance.
func sumColumns(parts []*part) []*column {
	var all []*column
	by := make(map[string]*column)
	for _, p := range parts {
		for _, name := range p.order {
			c, sum := p.columns[name], by[name]
			if sum == nil {
				sum = &column{name: name, kind: c.kind, dtype: c.dtype, shape: c.shape}
				by[name] = sum
				all = append(all, sum)
			}
			sum.seen, sum.images, sum.labels = sum.seen+c.seen, sum.images+c.images, sum.labels+c.labels
			sum.mixed, sum.gaps, sum.arrays = sum.mixed || c.mixed, sum.gaps || c.gaps, sum.arrays || c.arrays
			sum.twice, sum.why = sum.twice || c.twice, cmp.Or(sum.why, c.why)
			if c.kind == arrayCell {
				sum.like(c.dtype, c.shape)
			}
			switch {
			case sum.kind == c.kind:
			// Whole numbers in one container and fractions in another become floats in both.
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

// chooseColumns decides which columns are image and label, and refuses what is missing or unclear.
// Without that, samples without images would be trained on silently, or labels out of several columns of which nobody
// chose one. choice.find has refused several columns of images in one sample.
func chooseColumns(t *catalog.Table, all []*column, parts []*part, o *Options) error {
	// All columns are listed that some sample uses as its image: one dataset may have jpg and png.
	var images, labels []string
	mayBe := 0 // how many columns may be the label, none of which was chosen
	for _, c := range all {
		use := ""
		switch {
		case c.images > 0:
			images, use = append(images, c.name), "image"
		case c.labels > 0:
			labels, use = append(labels, c.name), "label"
		case o.Inspect:
			if use = candidate(c.name, parts); use == "label?" {
				mayBe++
			}
		}
		t.Source.Columns = append(t.Source.Columns, catalog.SourceColumn{Name: c.name, Type: c.typeOf(), Samples: max(c.seen, c.labels), Use: use})
	}
	// This is for people to look at: the columns of one sample, in its own order.
	if first := slices.IndexFunc(parts, func(p *part) bool { return p.rows() > 0 }); first >= 0 {
		t.Source.Sample = parts[first].first
	}
	t.Source.Image, t.Source.Label = strings.Join(images, ";"), strings.Join(labels, ";")
	switch {
	case len(images) == 0 && o.Image != "":
		return catalog.NewError(fault.KindArgument, where(t.Root, t.Shards), "image: no sample has a column %q (found %s)", o.Image, columnList(all, parts))
	case len(images) == 0 && len(all) > 0 && !slices.ContainsFunc(all, func(c *column) bool { return !isArchive(c.name) }):
		return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), archivesInside, columnList(all, parts))
	case len(images) == 0:
		return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "no column is known as the image (found %s); image= names it%s", columnList(all, parts), orInnerTars(t, all, o))
	case len(labels) == 0 && o.Label != "":
		return catalog.NewError(fault.KindArgument, where(t.Root, t.Shards), "label: no sample has a column %q (found %s)", o.Label, columnList(all, parts))
	case len(labels) > 1 && o.Label == "":
		return catalog.NewError(fault.KindUnsupported, where(t.Root, t.Shards), "several columns may be the label: %s (found %s); label= says which", strings.Join(labels, ", "), columnList(all, parts))
	case len(labels) == 0 && mayBe < 2: // of several a doubt has been noted
		t.Warnings = append(t.Warnings, fmt.Sprintf("no column is known as the label, so every label is -1 (found %s); label= names one", columnList(all, parts))+orArchives(t, all, parts))
	}
	return nil
}

// noteWithoutImage warns of samples without an image: reading one is an error, which may come hours from now. It counts
// only samples that a selection has left.
func noteWithoutImage(t *catalog.Table, parts []*part) {
	rows, images := int64(0), int64(0)
	for _, p := range parts {
		rows += int64(p.rows())
		for _, c := range p.columns {
			images += c.images
		}
	}
	if images == 0 || images >= rows { // without any image there was an error already
		return
	}
	missing := 0 // such samples have no bytes (part.add)
	for _, length := range t.Length {
		if length == 0 {
			missing++
		}
	}
	if missing > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d of %d samples have no image, and are errors where they are read; on_error=\"replace\" of a loader passes over them", missing, len(t.Length)))
	}
}

// noteWithoutLabel warns of samples without a label if others have one: -1 is no class, and ends a training that meets
// it.
// It does not warn about a selection, whose labels are numbers by then; -1 may be one of the container's own.
func noteWithoutLabel(t *catalog.Table, parts []*part) {
	rows, missing := 0, 0
	for _, p := range parts {
		rows += p.rows()
		for i := range p.labels {
			switch p.labels[i].kind {
			case noLabel:
				missing++
			case fractionLabel, listLabel: // there was a warning already that every label is -1
				return
			}
		}
	}
	if missing > 0 && missing < rows && rows == len(t.Label) {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d of %d samples have no label, theirs is -1", missing, rows))
	}
}

// columnList lists a container's columns for an error, those that were not read as the last.
func columnList(all []*column, parts []*part) string {
	// An error is one line, but a table may have a thousand columns.
	const most = 20
	var names []string
	listed := make(map[string]bool)
	list := func(name string) {
		if !listed[name] {
			listed[name] = true
			names = append(names, strconv.Quote(name))
		}
	}
	for _, c := range all {
		list(c.name)
	}
	walked := make(map[unique.Handle[string]]bool) // a million parts may have the same thousand columns
	for _, p := range parts {
		if p.unread == (unique.Handle[string]{}) || walked[p.unread] || p.unread.Value() == "" {
			continue
		}
		walked[p.unread] = true
		for _, name := range strings.Split(p.unread.Value(), columnsJoint) {
			list(name)
		}
	}
	switch {
	case names == nil:
		return "no column"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
