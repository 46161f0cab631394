package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/mmap"
)

// seal writes the checksums of a changed index into the manifest, as an attacker would.
func seal(m *Manifest, data []byte) {
	crc := func(from, to int64) string {
		from, to = min(from, int64(len(data))), min(to, int64(len(data)))
		return hexCRC(crc32.Checksum(data[from:to], castagnoli))
	}
	x := &m.Index
	x.Size = int64(len(data))
	end := x.Batches[0].Offset
	x.Head = crc(0, end)
	for i := range x.Batches {
		end = x.Batches[i].Offset + x.Batches[i].Length
		x.Batches[i].CRC32C = crc(x.Batches[i].Offset, end)
	}
	x.Tail = crc(end, x.Size)
}

func load(t testing.TB, dir string) (*Manifest, []byte) {
	m, err := ReadManifest(filepath.Join(dir, ManifestName))
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, m.Index.Name))
	require.NoError(t, err)
	return m, data
}

// forge writes an index with rows as no correct writer appends them, and opens it.
func forge(t *testing.T, edit func(rows []Row), shards ...ShardInfo) error {
	dir := t.TempDir()
	w, err := NewWriter(filepath.Join(dir, IndexFileName(0)), Packed, nil)
	require.NoError(t, err)
	rows := make([]Row, 4)
	for i := range rows {
		rows[i] = testRow(int64(i))
		rows[i].Fields = nil
	}
	edit(rows)
	for i := range rows {
		require.NoError(t, w.Append(&rows[i]))
	}
	m, err := w.Finish()
	require.NoError(t, err)
	m.Index.Name, m.Classes = IndexFileName(0), []string{"a", "b", "c", "d", "e", "f", "g"}
	m.Shards = []ShardInfo{{Name: ShardName(0), Size: 1 << 20, Rows: 2}, {Name: ShardName(1), Size: 1 << 20, Rows: 2}}
	addSeekFile(t, dir, m)
	writeManifest(t, dir, m)
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	for i := range d.Len() {
		if _, e := d.Sample(i); e != nil {
			err = e
		}
	}
	return err
}

func TestImpossibleRowsAreErrorsThatNameTheRecord(t *testing.T) {
	require.NoError(t, forge(t, func([]Row) {}))
	for want, edit := range map[string]func(r []Row){
		"shard 2 of 2":                func(r []Row) { r[3].Shard = 2 },
		"follows shard 1":             func(r []Row) { r[2].Shard = 1 },
		"lies outside":                func(r []Row) { r[3].Offset = 1 << 20; r[3].Length = 1 },
		"offset 18446744073709551104": func(r []Row) { r[3].Offset = -512 },
		"offset 9223372036854775296":  func(r []Row) { r[3].Offset = 1<<63 - 512 },
		"with 4294967295 bytes":       func(r []Row) { r[3].Length = 1<<32 - 1 },
		"no place":                    func(r []Row) { r[3].Offset = 5000 },
		"offset 0 is no place":        func(r []Row) { r[0].Offset = 0 },
		"overlaps":                    func(r []Row) { r[3].Offset = r[2].Offset },
		"the verdict is 0":            func(r []Row) { r[3].Verdict = Unknown },
		"the verdict is 9":            func(r []Row) { r[3].Verdict = 9 },
		"the label is 7":              func(r []Row) { r[3].Label = 7 },
		"the label is -2":             func(r []Row) { r[3].Label = -2 },
		"an image that is marked good has 0 x 3 pixels": func(r []Row) { r[3].Width = 0 },
		"pixels in 0 bytes":                             func(r []Row) { r[3].Length = 0 },
		"points of 0 bytes":                             func(r []Row) { r[3].Seek.Length = 0 },
		"with checksum 00000001":                        func(r []Row) { r[3].Seek = SeekPlace{CRC32C: 1} },
		"points at offset 16 overlap":                   func(r []Row) { r[3].Seek.Offset = SeekHeadBytes },
		"points at offset 15 overlap":                   func(r []Row) { r[3].Seek.Offset = SeekHeadBytes - 1 },
		"points at offset 144 with 1 ":                  func(r []Row) { r[3].Seek = SeekPlace{Offset: 144, Length: 1} },
		"offset 18446744073709551615 ":                  func(r []Row) { r[3].Seek.Offset = -1 },
		"112 with 4294967295 bytes":                     func(r []Row) { r[3].Seek.Length = 1<<32 - 1 },
	} {
		err := forge(t, edit)
		require.ErrorContains(t, err, want)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.KindBadFile, e.Kind)
		if want != "offset 0 is no place" && want != "follows shard 1" {
			require.EqualValues(t, 3, e.Record, want)
		}
	}
}

func TestAManifestWithImpossibleValuesIsRefused(t *testing.T) {
	dir := writeDataset(t, 100)
	for want, edit := range map[string]func(m *Manifest){
		"format is":                     func(m *Manifest) { m.Format = "x" },
		"kind is":                       func(m *Manifest) { m.Kind = "listed" },
		"rows_per_batch is 1 (expected": func(m *Manifest) { m.RowsPerBatch = 1 },
		"plain name":                    func(m *Manifest) { m.Shards[0].Name = "../../etc/passwd.tar" },
		"plain name that":               func(m *Manifest) { m.Shards[0].Name = "/shard.tar" },
		"index.name":                    func(m *Manifest) { m.Index.Name = "../headrace-index-00000.arrow" },
		"has size -1":                   func(m *Manifest) { m.Shards[0].Size = -1 },
		"rows of 100":                   func(m *Manifest) { m.Shards[0].Rows = 101 },
		"the shards have 99 rows":       func(m *Manifest) { m.Shards[0].Rows = 99 },
		"index.batches has 1":           func(m *Manifest) { m.Rows = 1 << 40; m.Shards[0].Rows = 1 << 40 },
		"does not fit":                  func(m *Manifest) { m.Index.Batches[0].Length = 1<<63 - 8 },
		"with -8 bytes":                 func(m *Manifest) { m.Index.Batches[0].Length = -8 },
		"index.batches[0] at -8":        func(m *Manifest) { m.Index.Batches[0].Offset = -8 },
		"index.size is -92233720368547": func(m *Manifest) {
			m.Index.Size, m.Index.Batches[0].Offset, m.Index.Batches[0].Length = -1<<63, 8, 1<<63-16
		},
		"unknown type":                  func(m *Manifest) { m.Fields[0].Type = "blob" },
		"stands there twice":            func(m *Manifest) { m.Fields[1].Name = m.Fields[0].Name },
		"unknown dtype":                 func(m *Manifest) { m.Fields[5].DType = "float128" },
		"empty or too large":            func(m *Manifest) { m.Fields[4].Shape = []int64{1 << 31, 1 << 31} },
		"(expected 100000 bytes, found": func(m *Manifest) { m.Index.Size = 100000 },
		"seek.name":                     func(m *Manifest) { m.Seek.Name = "headrace-seek-/../../x" },
		"seek has 16 bytes":             func(m *Manifest) { m.Seek.Size = SeekHeadBytes },
		"seek has -1 bytes":             func(m *Manifest) { m.Seek.Size = -1 },
		"points of 101 samples":         func(m *Manifest) { m.Seek.Samples = 101 },
		"(expected 3217 bytes, found":   func(m *Manifest) { m.Seek.Size++ },
		"rows is -1":                    func(m *Manifest) { m.Rows = -1 },
		`column 17 is "f.age"`:          func(m *Manifest) { m.Fields[0].Name = "other" },
		`type fixed_size_list`:          func(m *Manifest) { m.Fields[4].Shape = []int64{2, 3} },
	} {
		m, _ := load(t, dir)
		edit(m)
		writeManifest(t, dir, mustCopy(t, m))
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, want)
		writeManifest(t, dir, restore(t, m, dir))
	}
}

func mustCopy(t *testing.T, m *Manifest) *Manifest {
	data, err := json.Marshal(m)
	require.NoError(t, err)
	c := new(Manifest)
	require.NoError(t, json.Unmarshal(data, c))
	return c
}

// restore is the original manifest of the dataset that writeDataset(100) makes.
func restore(t *testing.T, _ *Manifest, _ string) *Manifest {
	m, _ := load(t, writeDataset(t, 100))
	return m
}

func TestAManifestThatIsAFIFOIsRefusedAndNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ManifestName)
	require.NoError(t, unix.Mkfifo(file, 0o600))
	_, err := Open(dir, Options{})
	require.EqualError(t, err, file+": cannot open the manifest: not a regular file")
}

func TestAManifestOfALaterVersionIsUnsupportedAndNotBad(t *testing.T) {
	_, err := DecodeManifest("m", fmt.Appendf(nil, `{"format": "headrace", "min_reader": %d}`, readerVersion+1))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, fault.KindUnsupported, e.Kind)
}

func TestEveryFlippedBitOfManifestAndIndexIsAnError(t *testing.T) {
	dir := writeDataset(t, 60)
	for _, name := range []string{ManifestName, IndexFileName(0)} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		step := 1 + len(whole)/500
		for at := 0; at < len(whole); at += step {
			data := bytes.Clone(whole)
			data[at] ^= 1 << (at % 8)
			require.NoError(t, os.WriteFile(path, data, 0o644))
			d, err := Open(dir, Options{})
			if err == nil {
				_, err = d.Sample(0)
				d.Release()
			}
			require.Error(t, err, "%s: byte %d", name, at)
		}
		for _, size := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
			require.NoError(t, os.WriteFile(path, whole[:size], 0o644))
			_, err = Open(dir, Options{})
			require.Error(t, err, "%s cut to %d", name, size)
		}
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole), '\n'), 0o644))
		_, err = Open(dir, Options{})
		require.Error(t, err, "%s with a byte too many", name)
		require.NoError(t, os.WriteFile(path, whole, 0o644))
	}
}

func TestADamagedRecordBatchIsAnErrorEachTimeAndOtherBatchesAreRead(t *testing.T) {
	dir := writeDataset(t, 2*RowsPerBatch)
	m, data := load(t, dir)
	b := m.Index.Batches[1]
	data[b.Offset+b.Length/2] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(dir, m.Index.Name), data, 0o644))
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Release()
	for range 2 {
		_, err = d.Sample(5)
		require.NoError(t, err)
		_, err = d.Sample(RowsPerBatch + 5)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.KindChecksum, e.Kind)
		require.Equal(t, b.Offset, e.Offset)
	}
}

func TestShardsWithoutAManifestAreCalledUnfinished(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ShardName(0)), nil, 0o644))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "not finished")
}

func FuzzManifest(f *testing.F) {
	whole, err := os.ReadFile(filepath.Join(writeDataset(f, 70), ManifestName))
	require.NoError(f, err)
	f.Add(whole[:len(whole)-tailBytes])
	f.Add([]byte(`{"format": "headrace", "version": 1, "min_reader": 1`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := DecodeManifest("m", fmt.Appendf(bytes.Clone(body), tailFormat, crc32.Checksum(body, castagnoli)))
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		n, err := DecodeManifest("m", again)
		if err != nil {
			t.Fatal(err)
		}
		if third, err := n.Encode(); err != nil || !bytes.Equal(third, again) {
			t.Fatalf("a manifest that was accepted does not read back: %v", err)
		}
		for _, s := range m.Shards {
			if strings.ContainsAny(s.Name, "/\\") || !filepath.IsLocal(s.Name) {
				t.Fatalf("the shard name %q leads out of the folder", s.Name)
			}
		}
	})
}

// FuzzIndex changes bytes of an index and then corrects its checksums, so that the reader's other
// checks are tested.
func FuzzIndex(f *testing.F) {
	m, whole := load(f, writeDataset(f, 40))
	encoded, err := json.Marshal(m)
	require.NoError(f, err)
	f.Add(uint32(0), []byte{})
	for at := 0; at < len(whole); at += 97 {
		f.Add(uint32(at), []byte{0xff, 0xff, 0xff, 0xff})
	}
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		data := bytes.Clone(whole)
		copy(data[int(at)%len(data):], patch)
		if len(patch) > 8 && patch[0] == 'C' { // some runs cut the file instead
			data = data[:binary.LittleEndian.Uint16(patch[1:])%uint16(len(whole))]
		}
		m := new(Manifest)
		if err := json.Unmarshal(encoded, m); err != nil {
			t.Fatal(err)
		}
		seal(m, data)
		if m.check() != nil {
			return
		}
		serve(t, m, data)
	})
}

// serve reads everything of an index that was accepted. What it gives has to lie inside the files.
func serve(t *testing.T, m *Manifest, data []byte) {
	// The file is mapped as in use: its pages are populated, and an access after the last one faults.
	file, err := unix.MemfdCreate("index", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	if _, err := unix.Write(file, data); err != nil {
		t.Fatal(err)
	}
	mapped, err := mmap.OpenIndex(fmt.Sprintf("/proc/self/fd/%d", file))
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	x, err := newIndex("i", m, mapped)
	if err != nil {
		return
	}
	d := &Dataset{kind: x.kind, rows: m.Rows, info: m, index: x, classes: m.Classes}
	for i := range min(d.Len(), 2*RowsPerBatch) {
		row, err := d.Row(i)
		if err != nil {
			return
		}
		if s := row.Seek; s.Length > 0 && (s.Offset < SeekHeadBytes || s.Offset+s.Length > m.Seek.Size) {
			t.Fatalf("row %d has its points at %d with %d bytes in a file of %d", i, s.Offset, s.Length, m.Seek.Size)
		}
		if x.kind == Indexed {
			if !filepath.IsLocal(row.Path) || row.Offset != 0 {
				t.Fatalf("row %d is the file %q at %d", i, row.Path, row.Offset)
			}
			continue
		}
		size := m.Shards[row.Shard].Size
		if row.Offset < 512 || row.Length < 0 || row.Offset+row.Length > size {
			t.Fatalf("row %d is at %d with %d bytes in a shard of %d", i, row.Offset, row.Length, size)
		}
	}
}
