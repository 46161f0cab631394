package transform

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// tableJSON is what Python's transforms are generated from, too (generate.py), so that names, defaults and texts are the same
// in both. A test compares the generated files with it.
//
//go:embed transforms.json
var tableJSON []byte

// argument is one row of a transform in the table. An absent default makes it required.
type argument struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Nullable bool            `json:"nullable"`
	Default  json.RawMessage `json:"default"`
}

// entry is a transform, or a label, of the table. generate.py reads more of it, for Python alone.
type entry struct {
	Name     string `json:"name"`
	Internal bool   `json:"internal"`  // of functional, not in a user's list
	Batch    bool   `json:"batch"`     // done to a batch, not to one sample
	NoLabels bool   `json:"no_labels"` // torchvision moves no label with it
	NoScale  bool   `json:"no_scale"`  // an image of another scale does not move with it
	// WithChance: the op is done with its probability p. Flips and what is named for its draw (as
	// RandomErasing) draw for themselves.
	WithChance bool       `json:"with_chance"`
	Arguments  []argument `json:"arguments"`
}

// table is what transforms.json holds.
type table struct {
	Choices    map[string][]string `json:"choices"` // what an argument of the type may say
	Labels     []entry             `json:"labels"`  // what a field that moves with the image may be
	Transforms []entry             `json:"transforms"`
}

// theTable is parsed once. The file is part of the binary, so that it cannot be read is a mistake
// in this package, found by its first test.
var theTable = sync.OnceValue(func() *table {
	var t table
	if err := json.Unmarshal(tableJSON, &t); err != nil {
		panic("transforms.json: " + err.Error())
	}
	return &t
})

// entry is nil for a name that is no transform.
func (t *table) entry(name string) *entry { return find(t.Transforms, name) }

func find(entries []entry, name string) *entry {
	for i := range entries {
		if entries[i].Name == name {
			return &entries[i]
		}
	}
	return nil
}

// names are those of the transforms that a user may ask for.
// Those of functional are left out: they would be noise in an error about a list.
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
