package scan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/store"
)

// unpacked is what MXNet's own reader finds in a record.
type unpacked struct {
	sample
	Label []float32 `json:"label"`
	ID    int64     `json:"id"`
}

func records(t *testing.T, name string) []unpacked {
	var all map[string][]unpacked
	require.NoError(t, json.Unmarshal(fixture(t, "records.json"), &all))
	require.NotEmpty(t, all[name])
	return all[name]
}

func TestRecordIOIsReadAsMXNetReadsIt(t *testing.T) {
	d := open(t, "testdata/labels.rec", Options{})
	want := records(t, "labels.rec")
	require.Equal(t, "recordio", d.Source().Format)
	require.Len(t, want, int(d.Len()), "the record without an image is not a sample")
	require.Len(t, d.Warnings(), 1)
	require.Contains(t, d.Warnings()[0], "1 of 6 records are headers without an image")
	split := 0
	for i, image := range contents(t, d) {
		require.Equal(t, want[i].Members["image"], image)
		require.Equal(t, want[i].Key, keys(t, d)[i])
		require.Equal(t, int64(want[i].Label[0]), labels(t, d)[i])
		id, err := d.FieldValue(int64(i), "id")
		require.NoError(t, err)
		require.Equal(t, want[i].ID, id)
		s, err := d.Sample(int64(i))
		require.NoError(t, err)
		if s.Block.Codec == blocks.RecordIO {
			split++
		}
	}
	require.Equal(t, 2, split, "records that contain the magic number are read part by part")
}

func TestLabelVectorsInRecordIOAreAField(t *testing.T) {
	d := open(t, "testdata/vectors.rec", Options{})
	want := records(t, "vectors.rec")
	require.Len(t, want, int(d.Len()))
	for i, image := range contents(t, d) {
		require.Equal(t, want[i].Members["image"], image)
		require.Equal(t, want[i].Key, keys(t, d)[i])
		require.Equal(t, int64(-1), labels(t, d)[i])
		value, err := d.FieldValue(int64(i), "label")
		require.NoError(t, err)
		found := value.(catalog.Array)
		require.Equal(t, []int64{3}, found.Shape)
		for n, v := range want[i].Label {
			require.Equal(t, v, math.Float32frombits(binary.LittleEndian.Uint32(found.Data[4*n:])))
		}
	}
	require.Contains(t, d.Warnings()[0], `vectors of one type are the field "label"`)
}

// A record is split where its image contains the magic number, as one in a hundred thousand photographs does.
func TestLabelVectorsInRecordIOAreAFieldEvenIfRecordsAreSplit(t *testing.T) {
	le := binary.LittleEndian
	magic := le.AppendUint32(nil, blocks.RecordIOMagic)
	vectors := [][]float32{{1, 2.5, 3}, {4, 5, 6}, {math.Float32frombits(blocks.RecordIOMagic), 8, 9}, {10, 11, 12}}
	for first := range vectors { // each record is the first one once
		var file []byte
		for n := range vectors {
			record := make([]byte, 24)
			le.PutUint32(record, 3)
			for _, v := range vectors[(first+n)%4] {
				record = le.AppendUint32(record, math.Float32bits(v))
			}
			record = append(record, "\xff\xd8\xff\xe0"...)
			if (first+n)%4 == 1 {
				record = append(record, magic...)
			}
			parts := bytes.Split(append(record, "ends"...), magic)
			for i, part := range parts {
				flag := uint32(0)
				if len(parts) > 1 {
					flag = []uint32{1, 3}[i]
				}
				file = append(le.AppendUint32(append(file, magic...), flag<<29|uint32(len(part))), part...)
			}
		}
		d := open(t, put(t, map[string][]byte{"a.rec": file})+"/a.rec", Options{})
		contents(t, d)
		for n := range vectors {
			require.Equal(t, int64(-1), labels(t, d)[n])
			s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
			require.NoError(t, err)
			value, err := s.FieldValue(t.Context(), int64(n), "label")
			require.NoError(t, err)
			s.Close()
			for i, v := range vectors[(first+n)%4] {
				require.Equal(t, math.Float32bits(v), le.Uint32(value.(catalog.Array).Data[4*i:]))
			}
		}
	}
}

// im2rec writes as many labels as each image has. If there is one, MXNet makes a number of it.
func TestRecordsWithOneLabelAmongOthersWithSeveralAreAWarning(t *testing.T) {
	le := binary.LittleEndian
	var file []byte
	for _, values := range [][]float32{{5}, {1, 2}, {7, 8, 9}} {
		record := make([]byte, 24)
		le.PutUint32(record, uint32(len(values)))
		for _, v := range values {
			record = le.AppendUint32(record, math.Float32bits(v))
		}
		record = append(record, "\xff\xd8\xff\xd9"...)
		file = le.AppendUint32(le.AppendUint32(file, 0xced7230a), uint32(len(record)))
		file = append(file, record...)
	}
	d := open(t, put(t, map[string][]byte{"a.rec": file})+"/a.rec", Options{})
	require.Equal(t, []int64{5, -1, -1}, labels(t, d))
	require.Contains(t, fmt.Sprint(d.Warnings()), `the column "label" has vectors and other values, so it is no field, and the labels are those of its numbers alone`)
}

func TestErrorsInRecordIOHaveRecordAndOffset(t *testing.T) {
	whole := fixture(t, "vectors.rec")
	second := 8 + int(binary.LittleEndian.Uint32(whole[4:])+3)&^3
	file := filepath.Join(t.TempDir(), "a.rec")
	word := func(flag, length uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[second+4:], flag<<29|length); return b }
	}
	for want, edit := range map[string]func([]byte) []byte{
		"no frame begins here: the magic is":                                                                    func(b []byte) []byte { b[second] ^= 1; return b },
		"a frame's head of 5 bytes (expected 8)":                                                                func(b []byte) []byte { return b[:second+5] },
		"a part of flag 0 and 536870911 bytes":                                                                  word(0, 1<<29-1),
		"a frame of flag 2 where a record begins":                                                               word(2, 100),
		"a part of flag 7 and 100 bytes":                                                                        word(7, 100),
		"a record of 23 bytes (expected at least the 24 of the header":                                          word(0, 23),
		"whose header says that 4294967295 labels follow":                                                       func(b []byte) []byte { binary.LittleEndian.PutUint32(b[second+8:], math.MaxUint32); return b },
		"RecordIO of dmlc-core before 2015, with the magic 0x3ed7230a":                                          func(b []byte) []byte { binary.LittleEndian.PutUint32(b[second:], 0x3ed7230a); return b },
		fmt.Sprintf("a part of flag 0 and %d bytes, 12 are left", binary.LittleEndian.Uint32(whole[second+4:])): func(b []byte) []byte { return b[:second+20] },
	} {
		require.NoError(t, os.WriteFile(file, edit(bytes.Clone(whole)), 0o644))
		_, err := Open(file, Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, fmt.Sprintf("%s: record 1 at byte %d", file, second))
		if want == "a part of flag 7 and 100 bytes" {
			require.Equal(t, fault.KindBadFile, fault.KindOf(err), "no bytes are missing, so it is not truncated")
		}
	}
	require.NoError(t, os.WriteFile(file, word(1, 100)(bytes.Clone(whole)), 0o644))
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, fmt.Sprintf("at byte %d: bad: no frame begins here", second+108), "a record goes on behind its first part")
}

func TestAnIdxFileThatDoesNotFitItsRecordsIsAnErrorThatNamesTheLine(t *testing.T) {
	rec := fixture(t, "vectors.rec")
	for want, idx := range map[string]string{
		"the .idx file has the key \"a\" twice, or at an offset where no record begins": "a\t4\n",
		"line 2 is \"b 12\" (expected a key, a tab and an offset)":                      "a\t0\nb 12\n",
		"line 1 is \"a\\t-1\"":                  "a\t-1\n",
		"line 1 is \"a\\t9223372036854775808\"": "a\t9223372036854775808\n",
		"at byte 9223372036854775807: bad: the .idx file has the key \"a\" twice, or":   "a\t9223372036854775807\n",
		"the .idx file has the key \"b\" twice, or at an offset where no record begins": "a\t0\nb\t0\n",
		"line 4 is \"b\"":      "\na\t0\n\nb\n",
		"line 2 has more than": "a\t0\n" + string(bytes.Repeat([]byte("x"), 10_000)),
	} {
		dir := put(t, map[string][]byte{"a.rec": rec, "a.idx": []byte(idx)})
		_, err := Open(dir+"/a.rec", Options{})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindBadFile, fault.KindOf(err))
	}
	d := open(t, put(t, map[string][]byte{"a.rec": rec, "a.idx": []byte("a\t0\r\n\n")})+"/a.rec", Options{})
	require.Equal(t, []string{"a", "a/1", "a/2", "a/3"}, keys(t, d))
	require.Contains(t, d.Warnings()[0], "3 records have no key in the .idx file")
}

func TestATruncatedRecFileIsAnErrorOrASmallerDataset(t *testing.T) {
	whole, file := fixture(t, "labels.rec"), filepath.Join(t.TempDir(), "a.rec")
	for end := 0; end <= len(whole); end += 4 {
		require.NoError(t, os.WriteFile(file, whole[:end], 0o644))
		opensOrFailsCleanly(t, file)
	}
}
