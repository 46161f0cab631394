package transform

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// tableJSON is also what Python's transforms are generated from (generate.py), so that names, defaults and texts are
// the same in both. A test compares the generated files with it.
//
//go:embed transforms.json
var tableJSON []byte

// argument is one row of a transform in the table. Without a default it is required.
type argument struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Nullable bool            `json:"nullable"`
	Default  json.RawMessage `json:"default"`
}

// entry is a transform, or a label, of the table. generate.py reads more of it, which only Python needs.
type entry struct {
	Name     string `json:"name"`
	Internal bool   `json:"internal"`  // only for functional, not for a user's list
	Batch    bool   `json:"batch"`     // applies to a batch, not to one sample
	NoLabels bool   `json:"no_labels"` // torchvision moves no label with it
	NoScale  bool   `json:"no_scale"`  // an image of another scale does not move with it
	// WithChance: the op is done with its probability p. Flips and transforms that are named for their draw (such as
	// RandomErasing) draw by themselves.
	WithChance bool       `json:"with_chance"`
	Arguments  []argument `json:"arguments"`
}

// table is what transforms.json holds.
type table struct {
	Choices    map[string][]string `json:"choices"` // the words that an argument of a type may be
	Labels     []entry             `json:"labels"`  // the kinds of fields that move with the image
	Transforms []entry             `json:"transforms"`
}

// theTable is parsed once. The file is part of the binary, so if it cannot be read, that is a mistake in this package,
// which its first test finds.
var theTable = sync.OnceValue(func() *table {
	var t table
	if err := json.Unmarshal(tableJSON, &t); err != nil {
		panic("transforms.json: " + err.Error())
	}
	return &t
})

// entry returns nil for a name that is not a transform.
func (t *table) entry(name string) *entry { return find(t.Transforms, name) }

func find(entries []entry, name string) *entry {
	for i := range entries {
		if entries[i].Name == name {
			return &entries[i]
		}
	}
	return nil
}

// names returns the names of the transforms that a user may ask for. Those of functional are left out, because they
// would only distract in an error about a list.
func (t *table) names() []string { return namesOf(t.Transforms) }

func namesOf(entries []entry) []string {
	var names []string
	for i := range entries {
		if !entries[i].Internal {
			names = append(names, entries[i].Name)
		}
	}
	return names
}

func (e *entry) argumentNames() []string {
	names := make([]string, len(e.Arguments))
	for i := range e.Arguments {
		names[i] = e.Arguments[i].Name
	}
	return names
}

func (e *entry) takes(name string) bool {
	for i := range e.Arguments {
		if e.Arguments[i].Name == name {
			return true
		}
	}
	return false
}
