package scan

import (
	"errors"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// mostDoubts of a container are listed: they repeat themselves sample by sample.
const mostDoubts = 4

// doubt notes what leaves image or label open where a container is only inspected, and then is no error any more.
// Only what is unsupported can be a doubt: a file that is damaged, or larger than a limit, is an error also to who only
// looks.
func (p *part) doubt(err error) error {
	if !p.inspect || !errors.Is(err, formats.ErrUnsupported) {
		return err
	}
	text := formats.Reason(err)
	if len(p.doubts) < mostDoubts && !slices.Contains(p.doubts, text) {
		p.doubts = append(p.doubts, text)
	}
	return nil
}

// inspected makes warnings of an error about columns and of all doubts, where a source is only inspected.
// The table stays as it is then, with what is missing of it empty.
func (o *Options) inspected(t *catalog.Table, err error) error {
	if !o.Inspect || err == nil {
		return err
	}
	var e *catalog.Error
	if !errors.As(err, &e) {
		return err
	}
	if !slices.Contains(t.Warnings, e.Clause()) {
		t.Warnings = append(t.Warnings, e.Clause())
	}
	return nil
}

// noteDoubts puts what the containers left open before all else.
// Containers of one program have the same doubts; each is told once.
func noteDoubts(t *catalog.Table, parts []*part) {
	var doubts []string
	for _, p := range parts {
		for _, text := range p.doubts {
			if !slices.Contains(doubts, text) {
				doubts = append(doubts, text)
			}
		}
	}
	t.Warnings = append(doubts[:len(doubts):len(doubts)], t.Warnings...)
}

// candidate says of a column that became neither image nor label that by its name it may be one of them.
// The question mark says that it was not taken: image= or label= may name it.
func candidate(name string, parts []*part) string {
	may := func(names func(*part) []string) bool {
		return slices.ContainsFunc(parts, func(p *part) bool { return slices.Contains(names(p), name) })
	}
	switch {
	case may(func(p *part) []string { return p.image.names }):
		return "image?"
	case may(func(p *part) []string { return p.label.names }):
		return "label?"
	}
	return ""
}

// typeOf is what a column holds, for the user.
// It is for people to read: no field has the type "mixed".
func (c *column) typeOf() string {
	switch {
	case c.mixed:
		return "mixed"
	case c.kind == arrayCell:
		return "array of " + c.dtype
	}
	return [...]string{bytesCell: "bytes", textCell: "str", intCell: "int", floatCell: "float", listCell: "list"}[c.kind]
}
