package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/flat"
)

// An edit is four bytes of the fuzzer: which kind of value to change, which value of that kind, and the
// new value. Checksums are corrected afterwards, so that each edit reaches the reader's other checks.
const editBytes = 4

// hostileNumber is an extreme value for a length, count or offset, or one near the present value.
func hostileNumber(choice byte, was uint64) uint64 {
	numbers := []uint64{
		0, 1, 2, 7, 8, 63, 64, 255, 512, 1 << 15, 1<<16 - 1, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 8, 1<<32 - 1, 1 << 32,
		1<<63 - 1, 1 << 63, math.MaxUint64 - 7, math.MaxUint64, was + 1, was - 1, was + 8, was - 8, was * 2, -was,
	}
	if int(choice) < len(numbers) {
		return numbers[choice]
	}
	return was ^ 1<<(choice%64)
}

// forgery is an index and its manifest while they are being changed.
type forgery struct {
	m    *Manifest
	data []byte
	// The offsets of numbers in the first batch's metadata: lengths of arrays, and places of buffers.
	nodes, buffers []int
	words          []int // of the metadata of schema and batch, four bytes each
	body           int   // where the batch's buffers are counted from
}

func newForgery(t testing.TB, m *Manifest, data []byte) *forgery {
	f := &forgery{m: m, data: bytes.Clone(data)}
	b := m.Index.Batches[0]
	start := int(b.Offset) + messagePreface
	message, body, err := splitMessage(f.data[b.Offset : b.Offset+b.Length])
	require.NoError(t, err)
	batch := message.Table(flat.MessageHeader)
	list := func(field uint64) (at []int) {
		_, from, count := batch.Vector(field, 16)
		for i := range 2 * count {
			at = append(at, start+int(from)+8*i)
		}
		return at
	}
	f.nodes, f.buffers = list(flat.BatchNodes), list(flat.BatchBuffers)
	for at := 8; at+4 <= int(b.Offset); at += 4 {
		f.words = append(f.words, at)
	}
	f.body = int(b.Offset+b.Length) - len(body)
	for at := int(b.Offset); at+4 <= f.body; at += 4 {
		f.words = append(f.words, at)
	}
	return f
}

// number changes eight bytes of the index, or four, as a number.
func (f *forgery) number(at, size int, choice byte) {
	if at < 0 || at+size > len(f.data) {
		return
	}
	if size == 4 {
		was := binary.LittleEndian.Uint32(f.data[at:])
		binary.LittleEndian.PutUint32(f.data[at:], uint32(hostileNumber(choice, uint64(was))))
		return
	}
	was := binary.LittleEndian.Uint64(f.data[at:])
	binary.LittleEndian.PutUint64(f.data[at:], hostileNumber(choice, was))
}

// value changes a value of a column: an element of one of the buffers as they stand now.
func (f *forgery) value(which uint16, choice byte) {
	buffer := int(which) % (len(f.buffers) / 2)
	if f.buffers[2*buffer]+16 > len(f.data) { // cut off
		return
	}
	at := int64(binary.LittleEndian.Uint64(f.data[f.buffers[2*buffer]:]))
	length := int64(binary.LittleEndian.Uint64(f.data[f.buffers[2*buffer+1]:]))
	if at < 0 || at > int64(len(f.data)) || length < 8 || length > int64(len(f.data)) {
		return
	}
	size := 4 + 4*int(which>>15)
	element := int(which>>6) % max(1, int(length)/size)
	f.number(f.body+int(at)+element*size, size, choice)
}

// promise changes a value of the manifest.
func (f *forgery) promise(which uint16, choice byte) {
	m := f.m
	numbers := []*int64{&m.Rows, &m.Bytes, &m.Index.Batches[0].Offset, &m.Index.Batches[0].Length}
	if m.Seek != nil {
		numbers = append(numbers, &m.Seek.Size, &m.Seek.Samples)
	}
	for i := range m.Shards {
		numbers = append(numbers, &m.Shards[i].Size, &m.Shards[i].Rows)
	}
	for i := range m.Fields {
		for k := range m.Fields[i].Shape {
			numbers = append(numbers, &m.Fields[i].Shape[k])
		}
	}
	n := numbers[int(which)%len(numbers)]
	*n = int64(hostileNumber(choice, uint64(*n)))
	if which >= 0xff00 && len(m.Fields) > 0 { // a field less, or of another type
		m.Fields[int(which)%len(m.Fields)].Type = []FieldType{Int, Float, Str, Bytes, ArrayType}[choice%5]
	}
}

func (f *forgery) edit(op []byte) {
	which, choice := binary.LittleEndian.Uint16(op[1:]), op[3]
	switch op[0] % 8 {
	case 0:
		f.number(f.nodes[int(which)%len(f.nodes)], 8, choice)
	case 1, 2:
		f.number(f.buffers[int(which)%len(f.buffers)], 8, choice)
	case 3:
		f.number(f.words[int(which)%len(f.words)], 4, choice)
	case 4:
		f.promise(which, choice)
	case 5: // the file is cut or longer, and the last part with it
		if n := int(hostileNumber(choice, uint64(len(f.data)))); n > 0 && n < 2*len(f.data) {
			f.data = append(f.data, make([]byte, len(f.data))...)[:n]
		}
	default:
		f.value(which, choice)
	}
}

// folderDataset is an indexed folder of so many rows.
func folderDataset(t testing.TB, rows int64) string {
	dir := t.TempDir()
	w, err := NewWriter(filepath.Join(dir, IndexFileName(0)), Indexed, testFields)
	require.NoError(t, err)
	for i := range rows {
		r := testRow(i)
		r.Shard, r.Offset, r.Path, r.MTimeNs = 0, 0, fmt.Sprintf("class %d/%d.jpg", i%7, i), i<<40
		require.NoError(t, w.Append(&r))
	}
	m, err := w.Finish()
	require.NoError(t, err)
	m.Index.Name = IndexFileName(0)
	m.Classes = []string{"a", "b", "c", "d", "e", "f", "g"}
	addSeekFile(t, dir, m)
	writeManifest(t, dir, m)
	return dir
}

// forger holds a correct dataset of each kind to start from.
type forger struct {
	manifests [2][]byte
	indices   [2][]byte
}

func newForger(t testing.TB) *forger {
	f := &forger{}
	for kind, dir := range []string{writeDataset(t, 40), folderDataset(t, 30)} {
		m, data := load(t, dir)
		encoded, err := json.Marshal(m)
		require.NoError(t, err)
		f.manifests[kind], f.indices[kind] = encoded, data
	}
	return f
}

// forge makes the edits, corrects the checksums, opens the result and reads all of it.
func (f *forger) forge(t *testing.T, indexed bool, edits []byte) {
	kind := 0
	if indexed {
		kind = 1
	}
	m := new(Manifest)
	require.NoError(t, json.Unmarshal(f.manifests[kind], m))
	forged := newForgery(t, m, f.indices[kind])
	for ; len(edits) >= editBytes; edits = edits[editBytes:] {
		forged.edit(edits)
	}
	m.Index.Size = int64(len(forged.data))
	if m.check() != nil {
		return
	}
	seal(m, forged.data)
	serve(t, m, forged.data)
}

// cases is n, or a fifth of it in short tests, such as those under the race detector.
func cases(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

func TestForgedIndicesWithRightChecksumsAreRefusedOrGiveOnlyBytesOfTheirFiles(t *testing.T) {
	f, r := newForger(t), rand.New(rand.NewSource(1))
	for n := range cases(3_000) {
		edits := make([]byte, editBytes*(1+r.Intn(4)))
		r.Read(edits)
		f.forge(t, n%4 == 3, edits)
	}
}

// FuzzIndexByFields changes the numbers that an index consists of: lengths of arrays, places of
// buffers, offsets of FlatBuffers, values, and what the manifest says of them.
func FuzzIndexByFields(f *testing.F) {
	honest := newForger(f)
	f.Add(false, []byte{})
	f.Add(true, []byte{0, 0, 0, 20, 6, 1, 0, 12})
	for kind := range byte(8) {
		f.Add(kind%2 == 0, []byte{kind, 3, 0, 14, kind, 200, 1, 21})
	}
	f.Fuzz(func(t *testing.T, indexed bool, edits []byte) { honest.forge(t, indexed, edits[:min(len(edits), 64)]) })
}

// ---- the manifest by its values ----

// leaves visits all places in a JSON document, in a fixed order.
func leaves(at string, v any, visit func(path string, set func(any))) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			visit(at+"."+k, func(to any) {
				if to == nil {
					delete(v, k)
				} else {
					v[k] = to
				}
			})
			leaves(at+"."+k, v[k], visit)
		}
	case []any:
		for i := range v {
			visit(fmt.Sprintf("%s[%d]", at, i), func(to any) { v[i] = to })
			leaves(fmt.Sprintf("%s[%d]", at, i), v[i], visit)
		}
	}
}

// hostileValue is the value that replaces one of a manifest; nil: the key is left out.
func hostileValue(choice byte) any {
	values := []any{
		nil, json.RawMessage("null"), true, "", "x", 0, 1, -1, 8, 0.5, 40, 41, 1 << 16, uint64(math.MaxUint64), int64(math.MaxInt64), int64(math.MinInt64),
		json.RawMessage("1e400"), json.RawMessage("123456789012345678901234567890"), json.RawMessage("-0.0"), json.RawMessage("1E2"),
		[]any{}, map[string]any{}, []any{1, "a", nil}, map[string]any{"a": map[string]any{"b": 1}},
		"../../etc/passwd", "shard-00000.tar", "headrace-index-00000.arrow", "headrace-seek-\x00.bin", "a/b.tar", ".tar", "\xff\xfe", strings.Repeat("n", 300),
		"00000000", "FFFFFFFF", "+1234567", "0x123456", "packed", "indexed", "listed", "array", "bytes", "float32", "bfloat16",
		json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200)), json.RawMessage(`{"name": "x", "Name": "y"}`),
	}
	return values[int(choice)%len(values)]
}

// distort makes the edits of a manifest, and corrects its checksum.
func distort(t testing.TB, honest, edits []byte) []byte {
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(honest))
	d.UseNumber()
	require.NoError(t, d.Decode(&tree))
	for ; len(edits) >= editBytes; edits = edits[editBytes:] {
		which, places := int(binary.LittleEndian.Uint16(edits[1:])), []func(any){}
		leaves("", tree, func(_ string, set func(any)) { places = append(places, set) })
		if len(places) > 0 {
			places[which%len(places)](hostileValue(edits[3]))
		}
	}
	body, err := json.Marshal(tree)
	require.NoError(t, err)
	body = bytes.TrimSuffix(body, []byte("}"))
	return fmt.Appendf(body, tailFormat, crc32.Checksum(body, castagnoli))
}

// accept reads a manifest. If it is accepted, it must read back the same, and its index is read
// whole.
func accept(t *testing.T, data, index []byte) {
	m, err := DecodeManifest("m", data)
	if err != nil {
		return
	}
	again, err := m.Encode()
	require.NoError(t, err)
	n, err := DecodeManifest("m", again)
	require.NoError(t, err, "what was accepted does not come back")
	third, err := n.Encode()
	require.NoError(t, err)
	require.Equal(t, string(again), string(third))
	for _, s := range m.Shards {
		require.True(t, filepath.IsLocal(s.Name) && !strings.ContainsAny(s.Name, "/\\"), s.Name)
	}
	serve(t, m, index)
}

func TestManifestsOfAnyValuesAreRefusedOrReadBackTheSame(t *testing.T) {
	f, r := newForger(t), rand.New(rand.NewSource(2))
	for n := range cases(1_500) {
		edits := make([]byte, editBytes*(1+r.Intn(3)))
		r.Read(edits)
		accept(t, distort(t, f.manifests[n%2], edits), f.indices[n%2])
	}
}

// FuzzManifestByValues replaces values of a manifest.
func FuzzManifestByValues(f *testing.F) {
	honest := newForger(f)
	for choice := range byte(46) {
		f.Add(choice%2 == 0, []byte{0, 7 * choice, 0, choice})
	}
	f.Fuzz(func(t *testing.T, indexed bool, edits []byte) {
		kind := 0
		if indexed {
			kind = 1
		}
		accept(t, distort(t, honest.manifests[kind], edits[:min(len(edits), 32)]), honest.indices[kind])
	})
}
