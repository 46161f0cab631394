package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// JSON has fewer types than fields do. These forms are read and written: numbers and texts as they are, {"bytes":
// base64}, {"dtype", "shape", "data": base64} for arrays, and {"float": "nan"} for numbers that JSON lacks. A field
// that is known to be bytes is plain base64.
type jsonValue struct {
	Bytes *[]byte `json:"bytes,omitempty"`
	Float *string `json:"float,omitempty"`
	DType *string `json:"dtype,omitempty"`
	Shape []int64 `json:"shape,omitempty"`
	Data  []byte  `json:"data,omitempty"`
}

// ValueToJSON turns a field's value into something that encoding/json writes in that form.
func ValueToJSON(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) || v == 0 && math.Signbit(v) { // a reader would take -0 for a whole number
			return map[string]string{"float": strconv.FormatFloat(v, 'g', -1, 64)}
		}
	case Array:
		return map[string]any{"dtype": v.DType, "shape": v.Shape, "data": v.Data}
	}
	return v
}

// ValueFromJSON reads a value. f is nil if the field was not declared; then the form alone gives the type.
func ValueFromJSON(f *Field, raw json.RawMessage) (any, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, fmt.Errorf("the value is missing")
	}
	switch raw[0] {
	case '"':
		if f != nil && f.Type == Bytes {
			var b []byte
			err := json.Unmarshal(raw, &b)
			return b, err
		}
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{':
		return valueFromObject(raw)
	case '[', 'n', 't', 'f':
		return nil, fmt.Errorf("%.40s is no value of a field; lists become arrays", raw)
	}
	// It is first read as a whole number, because a float64 would round numbers beyond 2^53.
	if f == nil || f.Type == Int {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return n, nil
		}
	}
	return strconv.ParseFloat(string(raw), 64)
}

func valueFromObject(raw json.RawMessage) (any, error) {
	var v jsonValue
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch {
	case v.DType != nil:
		if v.Shape == nil {
			v.Shape = []int64{}
		}
		return Array{DType: *v.DType, Shape: v.Shape, Data: v.Data}, nil
	case v.Bytes != nil:
		return *v.Bytes, nil
	case v.Float != nil:
		return strconv.ParseFloat(*v.Float, 64)
	}
	return nil, fmt.Errorf("%.40s is no value of a field", raw)
}

// FieldOf describes a value of an undeclared field. An array's shape is assumed to vary.
func FieldOf(name string, value any) Field {
	f := Field{Name: name, Type: FieldType(typeName(value))}
	if a, ok := value.(Array); ok {
		f.DType = a.DType
	}
	return f
}

// CheckValue returns an error if a value does not fit the field.
func (f *Field) CheckValue(value any) error {
	var scratch []*column
	for _, c := range f.arrowFields() {
		scratch = append(scratch, newColumn(c.Type))
	}
	return f.encode(value, scratch)
}
