package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
)

func TestAnLMDBIsReadAsItsOwnReaderReadsIt(t *testing.T) {
	for _, name := range []string{"plain.lmdb", "datum.lmdb"} {
		d := open(t, "testdata/"+name, Options{})
		want := expected(t, name)
		require.Len(t, want, int(d.Len()), name)
		for i, image := range contents(t, d) {
			require.Equal(t, want[i].Members["value"], image, name)
			require.Equal(t, want[i].Key, keys(t, d)[i], name)
		}
		require.Contains(t, d.Warnings()[0], `1 of 10 values are no images and passed over, as "__len__"`)
	}
	require.Equal(t, []int64{0, 2, 4, 6, 8, 10, 12, 14, 16}, labels(t, open(t, "testdata/datum.lmdb", Options{})))
	require.Equal(t, int64(-1), labels(t, open(t, "testdata/plain.lmdb", Options{}))[0])
}

func TestLMDBValuesThatAreLZ4FramesAreReadAsBlocks(t *testing.T) {
	d := open(t, "testdata/lz4.lmdb", Options{})
	want := expected(t, "lz4.lmdb")
	require.Len(t, want, int(d.Len()))
	for i, image := range contents(t, d) {
		require.Equal(t, want[i].Members["value"], image)
		require.Equal(t, want[i].Key, keys(t, d)[i])
		s, err := d.Sample(int64(i))
		require.NoError(t, err)
		require.Equal(t, want[i].Key != "plain", s.Block.Codec == blocks.LZ4Frame)
	}
	require.Contains(t, d.Warnings()[0], `1 of 8 values are no images and passed over, as "text"`)
}

func TestAnLZ4FrameThatWouldDecodeToTooMuchIsRefused(t *testing.T) {
	const most = 16 << 20
	for want, options := range map[string][]lz4.Option{
		"a frame of LZ4 of 9223372036854775807 bytes once it is decompressed": {lz4.SizeOption(math.MaxInt64)},
		"a frame of LZ4 of 18446744073709551615 bytes":                        {lz4.SizeOption(math.MaxUint64)},
		// The bytes counted until it was refused.
		fmt.Sprintf("a frame of LZ4 of %d bytes", most+18): {},
	} {
		var bomb bytes.Buffer
		w := lz4.NewWriter(&bomb)
		require.NoError(t, w.Apply(options...))
		_, err := w.Write(append([]byte("\xff\xd8\xff"), make([]byte, most+100)...))
		require.NoError(t, err)
		_ = w.Close()
		_, err = formats.ReadLZ4(bytes.NewReader(bomb.Bytes()), 0, int64(bomb.Len()), most, func([]byte) bool { return true })
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindLimit, fault.KindOf(err))
	}
}

func TestAnLMDBEnvironmentMayBeAFolder(t *testing.T) {
	dir := put(t, map[string][]byte{"data.mdb": fixture(t, "plain.lmdb"), "lock.mdb": make([]byte, 8192)})
	require.Equal(t, int64(9), open(t, dir, Options{}).Len())
}

func TestUnsupportedFormsOfLMDBAreNamedInTheError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.lmdb")
	for want, edit := range map[string]func([]byte){
		"LMDB's data format 2 (expected 1, that of LMDB 0.9)": func(b []byte) { b[16+4] = 2 },
		"several values a key (dupsort)": func(b []byte) {
			for _, meta := range []int{16, 4096 + 16} {
				b[meta+24+48+4] |= 4
			}
		},
	} {
		data := fixture(t, "plain.lmdb")
		edit(data)
		require.NoError(t, os.WriteFile(file, data, 0o644))
		_, err := Open(file, Options{})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}

func TestSplitChoosesOneOfSeveralDatabasesInAnLMDB(t *testing.T) {
	for name, want := range map[string]string{"several.lmdb": `the databases of the environment are ["train" "val"]; split= chooses one of the databases`,
		"mixed.lmdb": `the databases of the environment are ["val"], beside entries of the environment's own; split= chooses one of the databases; the entries of its own are for a dataset of yours, which headrace.pack takes`} {
		_, err := Open("testdata/"+name, Options{})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindArgument, fault.KindOf(err))
		_, err = Open("testdata/"+name, Options{Split: "test"})
		require.ErrorContains(t, err, `split is "test"`)
		require.ErrorContains(t, err, `"val"], the databases of the environment`)
		require.Equal(t, fault.KindArgument, fault.KindOf(err))
		require.Equal(t, int64(1), open(t, "testdata/"+name, Options{Split: "val"}).Len())
	}
	dir := put(t, map[string][]byte{"data.mdb": fixture(t, "several.lmdb"), "lock.mdb": make([]byte, 8192)})
	require.Equal(t, int64(1), open(t, dir, Options{Split: "train"}).Len())
	require.Equal(t, int64(9), open(t, "testdata/datum.lmdb", Options{Split: "images"}).Len(),
		"the only database may be named, too")
	_, err := Open("testdata/plain.lmdb", Options{Split: "images"})
	require.ErrorContains(t, err, `split is "images"`)
}

func TestACycleInATreeOfAnLMDBIsABadFile(t *testing.T) {
	for _, name := range []string{"plain.lmdb", "datum.lmdb", "several.lmdb"} { // in the last two a named database
		data := fixture(t, name)
		root := rootOfLMDB(data, name != "plain.lmdb")
		// Every leaf becomes a branch whose children are whatever its nodes' first bytes are; every child is made
		// the root itself.
		page := data[root*4096:][:4096]
		binary.LittleEndian.PutUint16(page[10:], 1)
		for at := 16; at < int(binary.LittleEndian.Uint16(page[12:])); at += 2 {
			node := page[binary.LittleEndian.Uint16(page[at:]):]
			binary.LittleEndian.PutUint16(node, uint16(root))
			copy(node[2:6], []byte{0, 0, 0, 0})
		}
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, data, 0o644))
		options := Options{}
		if name == "several.lmdb" {
			options.Split = "train"
		}
		_, err := Open(file, options)
		require.ErrorContains(t, err, "the tree and its values use more pages than there are", name)
		require.Equal(t, fault.KindBadFile, fault.KindOf(err), name)
	}
}

// If many nodes pointed at one value, it would be decompressed as often as there are nodes.
func TestLMDBValuesThatShareTheirPagesAreABadFile(t *testing.T) {
	le := binary.LittleEndian
	data := fixture(t, "plain.lmdb")
	leaf := data[2*4096:][:4096]
	require.Equal(t, uint16(2), le.Uint16(leaf[10:]))
	shared, nodes := uint64(0), 0
	for at := 16; at < int(le.Uint16(leaf[12:])); at += 2 {
		node := leaf[le.Uint16(leaf[at:]):]
		if le.Uint16(node[4:])&1 == 0 { // its value follows the node
			continue
		}
		place := node[8+le.Uint16(node[6:]):]
		if nodes++; nodes == 1 {
			shared = le.Uint64(place)
		}
		le.PutUint64(place, shared)
		le.PutUint32(node, uint32(len(data))-uint32(shared)*4096-16) // up to the end of the file
	}
	require.Greater(t, nodes, 1)
	file := filepath.Join(t.TempDir(), "a.lmdb")
	require.NoError(t, os.WriteFile(file, data, 0o644))
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, fmt.Sprintf("on page %d: the tree and its values use more pages than there are", shared))
	require.Equal(t, fault.KindBadFile, fault.KindOf(err))
}

// rootOfLMDB is the page of the root of an environment's own database, or of the first that has a name in it.
func rootOfLMDB(data []byte, named bool) uint64 {
	le := binary.LittleEndian
	newest := data[16:]
	if later := data[4096+16:]; le.Uint64(later[128:]) > le.Uint64(newest[128:]) {
		newest = later
	}
	root := le.Uint64(newest[24+48+40:])
	if !named {
		return root
	}
	node := data[root*4096+uint64(le.Uint16(data[root*4096+16:])):]
	return le.Uint64(node[8+le.Uint16(node[6:])+40:])
}

func TestWordsThatBeginLikeImagesAreNotTakenForImages(t *testing.T) {
	bmp := "BM\x8a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"
	for head, image := range map[string]bool{
		bmp: true, "BMW": false, "BMW is a maker of motors": false, "P5\n# made by": true, "P6 12 12 255\n": true,
		"P5 motor": false, "P512 is one more": false, "P6": false, "\xff\xd8\xff": true,
	} {
		require.Equal(t, image, isImage(head), "%q", head)
	}
}

func TestLMDBValuesInKeyOrderAreNoJumpsAndScatteredOnesAre(t *testing.T) {
	const size = 1 << 30
	inOrder, scattered := jumps{size: size}, jumps{size: size}
	many := 0
	for n := range int64(10_000) {
		require.False(t, inOrder.many(n*size/10_000))
		if scattered.many(n * 7_919 % 10_000 * size / 10_000) {
			many++
		}
	}
	// Each jump costs 4 MiB. Those of 2 GiB in all and a few more are allowed.
	require.Equal(t, 10_000-2*size/jumpPieces-jumpsFew, many+1)
}

func TestAnLMDBOfDataFormat2IsUnsupportedAndTheErrorSaysSo(t *testing.T) {
	one := fixture(t, "plain.lmdb")
	later := append(append(bytes.Clone(one[:16]), make([]byte, 8)...), one[16:]...) // a page's header of 24 bytes
	binary.LittleEndian.PutUint32(later[28:], 2)
	for _, name := range []string{"/data.mdb", ""} {
		_, err := Open(put(t, map[string][]byte{"data.mdb": later})+name, Options{})
		require.ErrorContains(t, err, "this is an LMDB of data format 2, that of LMDB 1.0 (expected 1")
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
}
