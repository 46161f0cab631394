package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/flat"
)

// fieldsAre compares a sample's fields, each as text, with those that the official reader found.
func fieldsAre(t *testing.T, d *catalog.Dataset, i int64, members map[string]uint32, image string) {
	for name, want := range members {
		if name == image || name == d.Source().Label {
			continue
		}
		value, err := d.FieldValue(i, name)
		require.NoError(t, err)
		require.Equal(t, want, crc32.ChecksumIEEE(fmt.Append(nil, value)), "%s of row %d: %v", name, i, value)
	}
}

// requireSavedDataset requires that a dataset is the one of testdata/maketables.py, as Hugging Face's reader reads it.
func requireSavedDataset(t *testing.T, d *catalog.Dataset, format string) {
	t.Helper()
	want := expected(t, "saved")
	require.Len(t, want, int(d.Len()))
	require.Equal(t, []string{format, "photo", "kind"}, []string{d.Source().Format, d.Source().Image, d.Source().Label}, "by its features")
	require.Equal(t, []string{"cat", "dog"}, d.Classes())
	require.Equal(t, []int64{0, 1, 0, 1, 0, 1, 0}, labels(t, d))
	for i, image := range contents(t, d) {
		require.Equal(t, want[i].Members["photo"], image)
		require.Equal(t, want[i].Key, keys(t, d)[i])
		fieldsAre(t, d, int64(i), want[i].Members, "photo")
	}
}

func TestASavedHuggingFaceDatasetIsReadAsItsOwnReaderReadsIt(t *testing.T) {
	d := open(t, "testdata/saved", Options{})
	requireSavedDataset(t, d, "arrow")
	for i := range int(d.Len()) {
		blob, err := d.FieldValue(int64(i), "binary")
		require.NoError(t, err)
		require.Len(t, blob, i)
	}
	for _, f := range d.Fields() {
		require.NotEqual(t, "list", f.Name)
	}
}

func TestAnArrowFileIsReadAsPyArrowReadsIt(t *testing.T) {
	for _, name := range []string{"table", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) { tableIsRead(t, name) })
	}
}

func tableIsRead(t *testing.T, name string) {
	d := open(t, "testdata/"+name+".arrow", Options{})
	s, err := d.Sample(0)
	require.NoError(t, err)
	require.Equal(t, name != "table", s.Block.Codec != 0, "compressed buffers are read by blocks")
	want := expected(t, "table.arrow")
	require.Len(t, want, int(d.Len()))
	require.Equal(t, []string{"ant", "cat", "dog"}, d.Classes())
	require.Equal(t, []int64{1, -1, 2, 0, 1, 2}, labels(t, d))
	for i, image := range contents(t, d) {
		require.Equal(t, want[i].Members["jpg"], image)
		require.Equal(t, fmt.Sprintf("%s/%d", name, i), keys(t, d)[i])
		word, err := d.FieldValue(int64(i), "view")
		require.NoError(t, err)
		require.Equal(t, want[i].Members["view"], crc32.ChecksumIEEE([]byte(word.(string))))
		fixed, err := d.FieldValue(int64(i), "fixed")
		require.NoError(t, err)
		require.Equal(t, want[i].Members["fixed"], crc32.ChecksumIEEE(fixed.([]byte)))
		when, err := d.FieldValue(int64(i), "when")
		require.NoError(t, err)
		require.Equal(t, i == 2, math.IsNaN(when.(float64)), when)
	}
}

func TestArrowColumnsOfViewsAreReadAsPyArrowReadsThem(t *testing.T) {
	d := open(t, "testdata/views.arrow", Options{})
	want := expected(t, "table.arrow")
	require.Len(t, want, int(d.Len()))
	for i, image := range contents(t, d) {
		require.Equal(t, want[i].Members["jpg"], image)
		word, err := d.FieldValue(int64(i), "view")
		require.NoError(t, err)
		require.Equal(t, want[i].Members["view"], crc32.ChecksumIEEE([]byte(word.(string))))
	}
}

// Before Arrow 0.15 there was no marker before a message.
func TestArrowFilesOfTheFormatBefore015AreReadLikeLaterOnes(t *testing.T) {
	want := open(t, "testdata/table.arrow", Options{Fields: []string{"fixed", "when", "word"}})
	for _, name := range []string{"early", "earlystream"} {
		d := open(t, "testdata/"+name+".arrow", Options{})
		require.Equal(t, contents(t, want), contents(t, d))
		require.Equal(t, labels(t, want), labels(t, d))
		require.Equal(t, want.Classes(), d.Classes())
		for i := range d.Len() {
			for _, f := range d.Fields() {
				here, err := d.FieldValue(i, f.Name)
				require.NoError(t, err)
				there, err := want.FieldValue(i, f.Name)
				require.NoError(t, err)
				if v, ok := here.(float64); !ok || !math.IsNaN(v) {
					require.Equal(t, there, here)
				}
			}
		}
	}
	stream := fixture(t, "earlystream.arrow")
	_, err := Open(put(t, map[string][]byte{"a.arrow": stream[:len(stream)/2]})+"/a.arrow", Options{})
	require.ErrorContains(t, err, "a body of 3104 bytes that ends behind the file's")
	first := flat.Root(stream[4:])
	require.Equal(t, uint16(3), first.U16(flat.MessageVersion))
	clear(stream[4+first.Field(flat.MessageVersion):][:2])
	_, err = Open(put(t, map[string][]byte{"a.arrow": stream})+"/a.arrow", Options{})
	require.ErrorContains(t, err, "metadata of version V1, of Arrow before 0.8")
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestTheFilesOfASavedDatasetAreReadInTheOrderOfItsStateFile(t *testing.T) {
	dir := put(t, map[string][]byte{"a.arrow": fixture(t, "saved/data-00001-of-00002.arrow"), "b.arrow": fixture(t, "saved/data-00000-of-00002.arrow"),
		"cache-1.arrow": fixture(t, "table.arrow"), "dataset_info.json": []byte("{}"), "state.json": []byte(`{"_data_files": [{"filename": "b.arrow"}, {"filename": "a.arrow"}]}`)})
	require.Equal(t, contents(t, open(t, "testdata/saved", Options{})), contents(t, open(t, dir, Options{})))
	require.NoError(t, os.Remove(filepath.Join(dir, "state.json")))
	require.Equal(t, int64(7), open(t, dir, Options{}).Len(), "files that map() keeps in the folder are no data")
	for state, want := range map[string]string{
		`{"_data_files": [{"filename": "../a.arrow"}]}`: "expected the name of a file beside it",
		`{"_data_files": []}`:                           "the dataset has no data file",
		`{"_data_files": [{"filename": "none.arrow"}]}`: "none.arrow: cannot open it",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "state.json"), []byte(state), 0o644))
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, want)
	}
}

// rowNumbers is a table of one column of row numbers, as Dataset.select makes it.
func rowNumbers(t *testing.T, rows ...uint64) []byte {
	return columnOf(t, arrow.PrimitiveTypes.Uint64, func(b array.Builder) {
		b.(*array.Uint64Builder).AppendValues(rows, nil)
	})
}

// floatRows is a table of row numbers that are floats.
func floatRows(t *testing.T, rows ...float64) []byte {
	return columnOf(t, arrow.PrimitiveTypes.Float64, func(b array.Builder) {
		b.(*array.Float64Builder).AppendValues(rows, nil)
	})
}

// columnOf is a table of one column, in a stream.
func columnOf(t *testing.T, of arrow.DataType, add func(array.Builder)) []byte {
	var out bytes.Buffer
	schema := arrow.NewSchema([]arrow.Field{{Name: "indices", Type: of}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	add(b.Field(0))
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	require.NoError(t, w.Write(b.NewRecordBatch()))
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestASavedSelectionOfRowNumbersHasThoseRows(t *testing.T) {
	all := open(t, "testdata/saved", Options{})
	files := map[string][]byte{"state.json": []byte(`{"_data_files": [{"filename": "0.arrow"}, {"filename": "1.arrow"}], "_indices_data_files": [{"filename": "indices.arrow"}]}`),
		"0.arrow": fixture(t, "saved/data-00000-of-00002.arrow"), "1.arrow": fixture(t, "saved/data-00001-of-00002.arrow")}
	files["indices.arrow"] = rowNumbers(t, 6, 0, 6, 3)
	dir := put(t, files)
	d := open(t, dir, Options{})
	require.Equal(t, pick(contents(t, all), []int64{6, 0, 6, 3}), contents(t, d))
	require.Equal(t, pick(labels(t, all), []int64{6, 0, 6, 3}), labels(t, d))
	require.Equal(t, []string{"1/photo 6", "photo 0", "1/1", "photo 3"}, keys(t, d))
	require.Equal(t, []int64{2, 2}, []int64{d.Shards()[0].Rows, d.Shards()[1].Rows})
	for i, row := range []int64{6, 0, 6, 3} {
		for _, f := range d.Fields() {
			want, err := all.FieldValue(row, f.Name)
			require.NoError(t, err)
			found, err := d.FieldValue(int64(i), f.Name)
			require.NoError(t, err)
			require.Equal(t, want, found)
		}
	}
	for want, rows := range map[string][]byte{
		"indices.arrow: at byte 128: bad: row 7 of 7 is selected": rowNumbers(t, 0, 7),
		"row 1.8446744073709552e+19 of 7 is selected":             rowNumbers(t, math.MaxUint64),
		"the selection has no row":                                rowNumbers(t),
		"a table of 13 columns (expected one of row numbers)":     files["0.arrow"],
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "indices.arrow"), rows, 0o644))
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, want)
	}
}

func TestARowNumberThatIsNotAWholeNumberIsRefused(t *testing.T) {
	const state = `{"_data_files": [{"filename": "0.arrow"}], "_indices_data_files": [{"filename": "indices.arrow"}]}`
	table := fixture(t, "saved/data-00000-of-00002.arrow")
	all := open(t, put(t, map[string][]byte{"0.arrow": table}), Options{})
	dir := put(t, map[string][]byte{"state.json": []byte(state), "0.arrow": table, "indices.arrow": floatRows(t, 2, 0)})
	require.Equal(t, pick(contents(t, all), []int64{2, 0}), contents(t, open(t, dir, Options{})))
	for want, rows := range map[string][]byte{
		"row 1.5 of 4 is selected, by number 1 of the table":  floatRows(t, 0, 1.5),
		"row -0.5 of 4 is selected, by number 0 of the table": floatRows(t, -0.5, 1),
		"row 3.5 of 4 is selected, by number 0 of the table":  floatRows(t, 3.5),
		"row NaN of 4 is selected, by number 2 of the table":  floatRows(t, 3, 2, math.NaN()),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "indices.arrow"), rows, 0o644))
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir+"/indices.arrow: ")
		require.Equal(t, fault.KindBadFile, fault.KindOf(err))
	}
}

func TestTheSplitsOfADatasetDictAreNamedIfNoneIsChosen(t *testing.T) {
	files := map[string][]byte{"dataset_dict.json": []byte(`{"splits": ["train", "test"]}`)}
	for _, split := range []string{"train", "test"} {
		files[split+"/data.arrow"], files[split+"/state.json"] = fixture(t, "saved/data-00000-of-00002.arrow"), []byte(`{"_data_files": [{"filename": "data.arrow"}]}`)
	}
	dir := put(t, files)
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, `there are several splits: ["test" "train"]; split= chooses one`)
	require.Equal(t, int64(4), open(t, dir, Options{Split: "test"}).Len())
}

func TestATruncatedArrowFileIsAnErrorOrASmallerDataset(t *testing.T) {
	for _, name := range []string{"saved/data-00000-of-00002.arrow", "table.arrow", "views.arrow", "dictionaries.arrow", "grown.arrow", "early.arrow", "earlystream.arrow"} {
		whole, file := fixture(t, name), filepath.Join(t.TempDir(), "a.arrow")
		for end := 0; end < len(whole); end += 8 {
			require.NoError(t, os.WriteFile(file, whole[:end], 0o644))
			opensOrFailsCleanly(t, file)
		}
	}
}

// numbersOf returns the offsets in a file at which eight bytes are a number from least to most.
func numbersOf(data []byte, least, most uint64) (at []int) {
	for i := 0; i+8 <= len(data); i += 8 {
		if n := binary.LittleEndian.Uint64(data[i:]); n >= least && n <= most {
			at = append(at, i)
		}
	}
	return at
}

func TestImpossibleLengthsAndOffsetsInAnArrowFileAreErrorsOrHarmless(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.arrow")
	for _, name := range []string{"saved/data-00000-of-00002.arrow", "table.arrow", "views.arrow", "dictionaries.arrow", "grown.arrow"} {
		whole := fixture(t, name)
		opened := 0
		for _, at := range numbersOf(whole, 1, uint64(len(whole))) {
			for _, value := range []uint64{math.MaxInt64, math.MaxUint64, 1 << 62, uint64(len(whole)), 1<<63 | 8} {
				data := bytes.Clone(whole)
				binary.LittleEndian.PutUint64(data[at:], value)
				require.NoError(t, os.WriteFile(file, data, 0o644))
				if opensOrFailsCleanly(t, file) {
					opened++
				}
			}
		}
		require.Positive(t, opened)
	}
}
