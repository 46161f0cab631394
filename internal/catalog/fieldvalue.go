package catalog

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// decode returns the value in row n of the field's columns, copied out of the mapping.
func (f *Field) decode(from []*column, n int) (any, error) {
	row := from[0].row(n)
	if f.Located {
		at := Extent{int64(binary.LittleEndian.Uint64(row)), int64(binary.LittleEndian.Uint64(from[1].row(n)))}
		if !f.Blocks {
			return at, nil
		}
		u32 := func(c int) uint32 { return binary.LittleEndian.Uint32(from[c].row(n)) }
		return BlockExtent{at, ValuePlace{BlockPlace{u32(2), u32(3), u32(4), from[5].row(n)[0]}, u32(6)}}, nil
	}
	switch f.Type {
	case Int:
		return int64(binary.LittleEndian.Uint64(row)), nil
	case Float:
		return math.Float64frombits(binary.LittleEndian.Uint64(row)), nil
	case Str:
		if !utf8.Valid(row) {
			return nil, fmt.Errorf("field %q is not UTF-8", f.Name)
		}
		return string(row), nil
	case Bytes:
		return append([]byte{}, row...), nil
	}
	a := Array{DType: f.DType, Shape: slices.Clone(f.Shape), Data: append([]byte{}, row...)}
	if f.fixed() {
		return a, nil
	}
	a.Shape = []int64{}
	for raw := from[1].row(n); len(raw) > 0; raw = raw[8:] {
		a.Shape = append(a.Shape, int64(binary.LittleEndian.Uint64(raw)))
	}
	// The two columns of one array are independent bytes of the file, so they are compared.
	count, err := elements(a.Shape)
	if err != nil || count*int64(width(from[0].typ)) != int64(len(row)) {
		return nil, fmt.Errorf("field %q: %d bytes are no array of shape %v", f.Name, len(row), a.Shape)
	}
	return a, nil
}

// located returns the array whose bytes were read out of a container. It has one dimension if shapes differ, and no
// shape if the bytes do not make an array. A sample that lacks an array has an empty one, if that is a shape it may
// have.
func (f *Field) located(data []byte) Array {
	width := int64(dtypes[f.DType].Bytes())
	a := Array{DType: f.DType, Data: data}
	if f.fixed() {
		if n, err := elements(f.Shape); err == nil && n*width == int64(len(data)) {
			a.Shape = slices.Clone(f.Shape)
		}
	} else if int64(len(data))%width == 0 {
		a.Shape = []int64{int64(len(data)) / width}
	}
	return a
}
