package scan

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// mergeLabels turns the samples' labels into numbers: a text becomes its place among the sorted classes, a number stays
// itself. Fractions are no classes and become a field.
// The meaning of labels depends on the whole dataset: one text among a million numbers makes names of all of them.
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
	given := make(map[string]bool, len(o.Classes))
	for _, name := range o.Classes {
		given[name] = true
	}
	// With classes=, digits are names if all labels are names of classes: "7" is then that class, and not the eighth.
	named := seen[textLabel] > 0 || o.Classes != nil && allAre(parts, given)
	if named {
		t.Classes = makeTexts(parts, texts)
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
		// The classes are the container's own, so a label beyond them is the container's fault and not the caller's.
		wrong = fault.KindBadFile
	}
	for i, name := range t.Classes {
		texts[name] = int64(i)
	}
	// If one label is a fraction, the whole ones are measured values as well.
	measured := seen[fractionLabel] > 0 && !named // the labels are measured values, some of them whole
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
				if o.Classes != nil && !given[l.text] {
					return labelError(wrong, t, shard, len(t.Label), p.offset[i], fmt.Sprintf("the label %.80q is none of classes", l.text))
				}
			}
			// A label without a class name would be out of range in the list of names.
			if n := int64(len(t.Classes)); n > 0 && (number < catalog.NoLabel || number >= n) {
				return labelError(wrong, t, shard, len(t.Label), p.offset[i], fmt.Sprintf("the label is %d, there are %d classes", number, n))
			}
			t.Label = append(t.Label, number)
		}
	}
	if measured {
		var values []float64
		what := "fractions"
		for _, p := range parts {
			for i := range p.labels {
				v := fractionOf(&p.labels[i])
				values = append(values, v)
				if p.labels[i].kind == fractionLabel && v == math.Trunc(v) {
					what = "fractions, or numbers too large to be a label"
				}
			}
		}
		t.Warnings = append(t.Warnings, "labels are "+what+", which are no classes: they are the field \"label\", and every label is -1")
		addNumbers(t, catalog.Field{Name: "label", Type: catalog.Float}, nil, values)
	}
	if seen[listLabel] > 0 {
		t.Warnings = append(t.Warnings, "the labels are lists or objects, which are no classes: every such label is -1, and vectors of one type are the field \"label\"")
	}
	return nil
}

// makeTexts makes a text of every label, because a number among texts is a name too. It adds the texts to the known
// ones, and returns all of them sorted.
// A number becomes the text that it was written as, otherwise its shortest form.
func makeTexts(parts []*part, texts map[string]int64) []string {
	for _, p := range parts {
		for i := range p.labels {
			if l := &p.labels[i]; l.kind == intLabel || l.kind == fractionLabel {
				l.kind, l.text = textLabel, l.said()
				texts[l.text] = 0
			}
		}
	}
	// ImageFolder sorts its folders likewise: a class's number depends only on the names, and not on which came first.
	return slices.Sorted(maps.Keys(texts))
}

// allAre is true if every label was written as text, even if it is a number, and is the name of a class.
// It serves classes= with names such as "7". If no label is another text, nothing else distinguishes names from
// numbers.
func allAre(parts []*part, classes map[string]bool) bool {
	words := 0
	for _, p := range parts {
		for i := range p.labels {
			l := &p.labels[i]
			if l.kind == noLabel {
				continue
			}
			if !l.word || !classes[l.said()] {
				return false
			}
			words++
		}
	}
	return words > 0
}

// ownClasses returns the names of classes that the containers have for the label's column.
// Hugging Face's ClassLabel and TFDS write such names. All containers must agree, because otherwise a number would mean
// several classes.
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

// fractionOf returns a label as a float; NaN if there is none, as in any field of floats.
func fractionOf(l *label) float64 {
	switch l.kind {
	case intLabel:
		return float64(l.number)
	case fractionLabel:
		return l.fraction
	}
	return math.NaN()
}

// labelError makes the error about one label. record counts the samples of all containers, as an index does.
func labelError(kind fault.Kind, t *catalog.Table, shard, record int, offset int64, text string) error {
	e := catalog.NewError(kind, filepath.Join(t.Root, filepath.FromSlash(t.Shards[shard].Name)), "%s", text)
	e.Record, e.Offset = int64(record), offset
	return e
}

// ofEverySample are the names that a batch has for every sample.
var ofEverySample = []string{"index", "path", "key", "image", "label"}
