package catalog

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pathjson"
)

// arrayFile is a file of so many bytes and an array of 10 images of 4 x 5 x 3 in it.
func arrayFile(t *testing.T, bytes int) *ArrayConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "array.bin")
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return &ArrayConfig{Height: 4, Width: 5, Channels: 3, Strides: [3]int64{15, 3, 1},
		Files: []pathjson.Text{pathjson.Text(path)}, Stretches: []Stretch{{Offset: 7, Stride: 60, Rows: 10}}}
}

func TestImagesOfAnArrayLieWhereItsStretchesSay(t *testing.T) {
	c := arrayFile(t, 607)
	c.Stretches = []Stretch{{Offset: 307, Stride: 60, Rows: 5}, {Offset: 247, Stride: -60, Rows: 5}}
	d, err := FromArrays(c, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	for i, offset := range []int64{307, 367, 427, 487, 547, 247, 187, 127, 67, 7} {
		s, err := d.Sample(int64(i))
		if err != nil || s.Offset != offset || s.Length != 60 || s.Pixels.Origin != 0 {
			t.Errorf("sample %d: %+v, %v (expected offset %d)", i, s, err, offset)
		}
	}
	if s, _ := d.Sample(9); s.Label != NoLabel || d.Len() != 10 || d.Kind() != Arrays {
		t.Errorf("label %d of the last of %d", s.Label, d.Len())
	}
}

func TestAnArrayThatEndsBeforeItsLastImageIsTruncated(t *testing.T) {
	if d, err := FromArrays(arrayFile(t, 607), nil, nil); err != nil {
		t.Fatal(err)
	} else {
		d.Release()
	}
	_, err := FromArrays(arrayFile(t, 606), nil, nil)
	if fault.KindOf(err) != fault.KindTruncated || fault.PlaceOf(err).Offset != 606 {
		t.Errorf("one byte too few: %v", err)
	}
}

// Each number of a configuration is set to values where sums and products overflow. None leads to an
// image outside the file.
func TestNoNumberOfAnArraysDescriptionLeadsOutsideItsFile(t *testing.T) {
	extremes := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1 << 32, -607, -60, -1, 0, 1, 2, 3, 4, 60, 546,
		547, 548, 607, 1 << 24, 1<<24 + 1, 1 << 31, 1 << 32, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	random := rand.New(rand.NewPCG(1, 2))
	opened := 0
	base := arrayFile(t, 607)
	for range 20_000 {
		c := *base
		s := base.Stretches[0]
		fields := []*int64{&c.Height, &c.Width, &c.Channels, &c.Strides[0], &c.Strides[1], &c.Strides[2],
			&s.File, &s.Offset, &s.Stride, &s.Rows}
		for range 1 + random.IntN(3) {
			*fields[random.IntN(len(fields))] = extremes[random.IntN(len(extremes))]
		}
		c.Stretches = []Stretch{s}
		d, err := FromArrays(&c, nil, nil)
		if err != nil {
			if fault.KindOf(err) == fault.KindInternal {
				t.Fatalf("%+v: %v", c, err)
			}
			continue
		}
		opened++
		for _, i := range []int64{0, d.Len() / 2, d.Len() - 1} {
			found, err := d.Sample(i)
			if err != nil || found.Offset < 0 || found.Length < 1 || found.Offset > 607-found.Length {
				t.Fatalf("%+v: sample %d is %+v, %v", c, i, found, err)
			}
			if found.Length <= 607 {
				if _, err := found.Pixels.PPM(make([]byte, found.Length)); err != nil {
					t.Fatal(err)
				}
			}
		}
		d.Release()
	}
	if opened < 100 {
		t.Errorf("only %d of the configurations were good, too few to show anything", opened)
	}
}
