package scan

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/pathjson"
)

func numberColumn(values ...int64) (column []byte) {
	for _, v := range values {
		column = binary.LittleEndian.AppendUint64(column, uint64(v))
	}
	return column
}

// twoPlaces are a table of two rows in a file of 100 bytes.
func twoPlaces(t testing.TB) *Locations {
	path := filepath.Join(t.TempDir(), "own.bin")
	require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o644))
	return &Locations{
		Files: []pathjson.Text{pathjson.Text(path)}, File: numberColumn(0, 0), Offset: numberColumn(0, 40), Length: numberColumn(40, 60), Label: numberColumn(1, 0),
		Keys:   &Texts{Ends: numberColumn(1, 2), Data: []byte("ab")},
		Fields: []LocationsField{{Name: "s", Type: catalog.Str, Texts: &Texts{Ends: numberColumn(0, 2), Data: []byte("é")}}, {Name: "n", Type: catalog.Int, Numbers: numberColumn(5, 6)}},
	}
}

func TestGivenPlacesInAFileAreSamples(t *testing.T) {
	d, err := FromLocations(twoPlaces(t), nil)
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, []uint32{0, 0}, func() (all []uint32) {
		for i := range d.Len() {
			s, err := d.Sample(i)
			require.NoError(t, err)
			all = append(all, s.Shard)
		}
		return all
	}())
	text, err := d.FieldValue(1, "s")
	require.NoError(t, err)
	require.Equal(t, "é", text)
}

func TestAMalformedColumnOfLocationsIsAnError(t *testing.T) {
	for name, change := range map[string]func(*Locations){
		"no row":             func(l *Locations) { l.File = nil },
		"no file":            func(l *Locations) { l.Files = nil },
		"a short column":     func(l *Locations) { l.Offset = l.Offset[:8] },
		"half a number":      func(l *Locations) { l.Length = l.Length[:15] },
		"a long column":      func(l *Locations) { l.Label = numberColumn(0, 0, 0) },
		"file 2^63-1":        func(l *Locations) { l.File = numberColumn(0, math.MaxInt64) },
		"offset -2^63":       func(l *Locations) { l.Offset = numberColumn(0, math.MinInt64) },
		"length beyond":      func(l *Locations) { l.Length = numberColumn(40, 61) },
		"label -2^63":        func(l *Locations) { l.Label = numberColumn(0, math.MinInt64) },
		"label 2":            func(l *Locations) { l.Label = numberColumn(0, 2) },
		"ends that fall":     func(l *Locations) { l.Keys.Ends = numberColumn(2, 1) },
		"ends beyond":        func(l *Locations) { l.Keys.Ends = numberColumn(1, math.MaxInt64) },
		"ends of one":        func(l *Locations) { l.Keys.Ends = numberColumn(1) },
		"keys of no UTF-8":   func(l *Locations) { l.Keys.Data = []byte("a\xff") },
		"one key twice":      func(l *Locations) { l.Keys.Data = []byte("aa") },
		"texts of no UTF-8":  func(l *Locations) { l.Fields[0].Texts.Data = []byte("\xff\xff") },
		"no texts":           func(l *Locations) { l.Fields[0].Texts = nil },
		"too few numbers":    func(l *Locations) { l.Fields[1].Numbers = numberColumn(1) },
		"a field of nothing": func(l *Locations) { l.Fields[1].Type = "list" },
		"two of one name":    func(l *Locations) { l.Fields[1].Name = "s" },
	} {
		l := twoPlaces(t)
		change(l)
		d, err := FromLocations(l, []string{"x", "y"})
		require.Error(t, err, name)
		require.Nil(t, d, name)
	}
}
