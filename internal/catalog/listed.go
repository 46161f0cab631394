package catalog

import (
	"fmt"
	"slices"
	"sync"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

// List is a list of files below a folder, with what the list says of each. Append fills it in the order of samples.
type List struct {
	Classes  []string
	Warnings []string

	names, keys formats.Names
	labels      []int64
	fields      []Field
	columns     []listColumn // one for each field
}

// listColumn holds the values of a field in one of its members.
type listColumn struct {
	ints   []int64
	floats []float64
	texts  formats.Names // also for bytes
	arrays []Array
}

// NewList makes an empty list whose files will have these fields.
func NewList(fields []Field) *List {
	return &List{fields: fields, columns: make([]listColumn, len(fields))}
}

// Append adds a file, by its name below the folder with slashes, and a value of each field.
func (l *List) Append(name, key string, label int64, values []any) error {
	if len(values) != len(l.fields) {
		return NewError(fault.KindInternal, name, "%d values of %d fields", len(values), len(l.fields))
	}
	l.names.Append(name)
	l.keys.Append(key)
	l.labels = append(l.labels, label)
	for n := range values {
		c, fits := &l.columns[n], false
		switch v := values[n].(type) {
		case int64:
			c.ints, fits = append(c.ints, v), l.fields[n].Type == Int
		case float64:
			c.floats, fits = append(c.floats, v), l.fields[n].Type == Float
		case string:
			c.texts.Append(v)
			fits = l.fields[n].Type == Str
		case []byte:
			c.texts.Append(string(v))
			fits = l.fields[n].Type == Bytes
		case Array:
			c.arrays, fits = append(c.arrays, v), l.fields[n].Type == ArrayType
		}
		if !fits {
			return NewError(fault.KindInternal, name, "field %q is of type %s, the value is %s", l.fields[n].Name, l.fields[n].Type, typeName(values[n]))
		}
	}
	return nil
}

// Len, Label and Path are the methods of fileList.
func (l *List) Len() int64          { return l.names.Len() }
func (l *List) Label(i int64) int64 { return l.labels[i] }
func (l *List) Path(i int64) string { return string(l.names.Bytes(i)) }

// FromList makes a dataset of files below a folder. No file is touched: a missing or damaged one is an error when it is
// read. The list belongs to the dataset from now on.
func FromList(folder string, l *List) (*Dataset, error) {
	if l.Len() == 0 {
		return nil, NewError(fault.KindEmpty, folder, "the list of files has no rows")
	}
	if err := CheckFields(l.fields); err != nil {
		return nil, NewError(fault.KindUnsupported, folder, "%v", err)
	}
	d := &Dataset{path: folder, kind: Listed, rows: l.Len(), files: l, classes: slices.Clone(l.Classes)}
	d.fingerprint = sync.OnceValue(func() string { return listFingerprint(l) })
	d.refs.Store(1)
	return d, nil
}

// listed returns the list from which a dataset was made, or nil.
func (d *Dataset) listed() *List {
	l, _ := d.files.(*List)
	return l
}

func (l *List) field(name string) int {
	return slices.IndexFunc(l.fields, func(f Field) bool { return f.Name == name })
}

// value returns the value of a field of file i.
func (l *List) value(i int64, name string) (any, error) {
	n := l.field(name)
	if n < 0 {
		return nil, NewError(fault.KindArgument, "", "there is no field %q", name)
	}
	c := &l.columns[n]
	switch l.fields[n].Type {
	case Int:
		return c.ints[i], nil
	case Float:
		return c.floats[i], nil
	case Str:
		return string(c.texts.Bytes(i)), nil
	case Bytes:
		return append([]byte{}, c.texts.Bytes(i)...), nil // never nil, which would mean no value
	case ArrayType:
		return c.arrays[i], nil
	}
	return nil, NewError(fault.KindInternal, "", "field %q is of the type %s", name, fmt.Sprint(l.fields[n].Type))
}

// mostBytes returns the bytes of the longest value of a field.
func (l *List) mostBytes(name string) (int64, error) {
	n := l.field(name)
	if n < 0 {
		return 0, NewError(fault.KindArgument, "", "there is no field %q", name)
	}
	most := int64(8) // the bytes of a number
	for i := range l.columns[n].texts.Len() {
		most = max(most, int64(len(l.columns[n].texts.Bytes(i))))
	}
	for _, one := range l.columns[n].arrays {
		most = max(most, int64(len(one.Data)))
	}
	return most, nil
}
