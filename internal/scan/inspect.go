package scan

import (
	"errors"
	"slices"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// mostDoubts is how many doubts of a container are listed, because they repeat from sample to sample.
const mostDoubts = 4

// doubt notes why image or label are unclear. If a container is only inspected, that is then no error.
// Only an unsupported file can be a doubt: a file that is damaged or exceeds a limit is an error even if it is only
// inspected.
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

// inspected turns an error about columns into a warning if a source is only inspected.
// The table then stays as it is, and what it lacks is empty.
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

// noteDoubts puts the containers' doubts before all other warnings.
// Containers of one program have the same doubts, so each is listed once.
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

// candidate says, for a column that is neither image nor label, whether its name suggests that it may be one.
// The question mark says that it was not chosen; image= or label= can name it.
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

// typeOf says what a column holds, for the user.
// The text is for people only: no field has the type "mixed".
func (c *column) typeOf() string {
	switch {
	case c.mixed:
		return "mixed"
	case c.kind == arrayCell:
		return "array of " + c.dtype
	}
	return [...]string{bytesCell: "bytes", textCell: "str", intCell: "int", floatCell: "float", listCell: "list"}[c.kind]
}
