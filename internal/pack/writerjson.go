package pack

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pathjson"
)

// AddJSON is Add for callers across the C ABI: one JSON object with "label" (a number or a class name), "key" and the
// fields, in the forms of catalog.ValueFromJSON. All are optional.
// The order of members does not matter, because the order of fields is that of the first sample.
func (w *Writer) AddJSON(image, fields []byte) error {
	var raw map[string]json.RawMessage
	wrong := func(name string, err error) error {
		return &catalog.Error{Kind: fault.KindArgument, Record: w.Len(), Offset: -1, Text: name, Err: err}
	}
	if !utf8.Valid(fields) { // encoding/json would change the key or the text
		return wrong("the fields are no valid UTF-8", nil)
	}
	if len(fields) > 0 {
		if err := json.Unmarshal(fields, &raw); err != nil {
			return wrong("the fields are no JSON object", err)
		}
	}
	a := Added{Fields: make(map[string]any, len(raw))}
	for name, value := range raw {
		var err error
		switch name {
		case "key":
			// The key is read as a path, so that invalid text is refused and does not become U+FFFD.
			err = json.Unmarshal(value, (*pathjson.Text)(&a.Key))
		case "label":
			a.Label, err = w.labelFromJSON(value)
		default:
			a.Fields[name], err = catalog.ValueFromJSON(w.declared(name), value)
		}
		if err != nil {
			return wrong(name, err)
		}
	}
	return w.Add(image, a)
}

// labelFromJSON returns a number, or the place of a name among the writer's classes.
func (w *Writer) labelFromJSON(value json.RawMessage) (*int64, error) {
	// This comes before the string, because json reads null into a string without an error.
	if string(value) == "null" {
		return nil, nil
	}
	var name string
	if json.Unmarshal(value, &name) == nil {
		if i := slices.Index(w.config.Classes, name); i >= 0 {
			label := int64(i)
			return &label, nil
		}
		if len(w.config.Classes) == 0 {
			return nil, fmt.Errorf("%q is a text (expected a whole number, as no classes are given)", name)
		}
		return nil, fmt.Errorf("%q is none of the %d classes", name, len(w.config.Classes))
	}
	var label int64
	err := json.Unmarshal(value, &label)
	return &label, err
}

// declared returns the declared field of that name. Its type decides what JSON leaves open: 3 may be meant as a float.
func (w *Writer) declared(name string) *catalog.Field {
	w.mu.Lock()
	defer w.mu.Unlock()
	fields := w.fields
	if fields == nil {
		fields = w.config.Fields
	}
	for i := range fields {
		if fields[i].Name == name {
			return &fields[i]
		}
	}
	return nil
}

// Len returns the number of samples that were added.
// It takes the lock, because samples may come from several threads.
func (w *Writer) Len() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
