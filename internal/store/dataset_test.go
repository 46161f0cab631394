package store

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/mmap"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// set is a dataset on disk, and the bytes of its samples.
type set struct {
	root   string
	bytes  [][]byte
	points [][]byte // in place of seek points; every third sample of a packed set has none
	seek   []byte   // the file of those
}

func random(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// stride is from one sample of a shard to the next.
const stride = 12 * 512

// newPacked makes shards with samples where a tar would have them. What stands between them
// does not matter: the store knows no containers.
func newPacked(t *testing.T, shards, perShard int) set {
	t.Helper()
	s := set{root: t.TempDir()}
	w, err := catalog.NewWriter(filepath.Join(s.root, catalog.IndexFileName(0)), catalog.Packed, nil)
	require.NoError(t, err)
	var infos []catalog.ShardInfo
	for n := range shards {
		data := random(uint64(n), 512+perShard*stride+1024)
		require.NoError(t, os.WriteFile(filepath.Join(s.root, catalog.ShardName(n)), data, 0o600))
		infos = append(infos, catalog.ShardInfo{Name: catalog.ShardName(n), Size: int64(len(data)), Rows: int64(perShard)})
		for i := range perShard {
			begin, length := 512+stride*i, 5000+i%1000
			s.bytes = append(s.bytes, data[begin:begin+length])
			place := s.addPoints(n*perShard + i)
			require.NoError(t, w.Append(&catalog.Row{Key: key(n, i),
				Sample: catalog.Sample{Shard: uint32(n), Offset: int64(begin), Length: int64(length), Verdict: catalog.Good, Facts: facts, Seek: place}}))
		}
	}
	s.finish(t, w, infos)
	return s
}

// newIndexed makes a folder of files with an index.
func newIndexed(t *testing.T, files int) set {
	t.Helper()
	s := set{root: t.TempDir()}
	w, err := catalog.NewWriter(filepath.Join(s.root, catalog.IndexFileName(0)), catalog.Indexed, nil)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(s.root, "cat"), 0o700))
	for i := range files {
		name, data := key(0, i)+".jpg", random(uint64(i), 3000+i)
		path := filepath.Join(s.root, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		status, err := os.Stat(path)
		require.NoError(t, err)
		s.bytes = append(s.bytes, data)
		checked := facts
		checked.CRC32C = crc32.Checksum(data, castagnoli)
		require.NoError(t, w.Append(&catalog.Row{Key: key(0, i), Path: name,
			Sample: catalog.Sample{Length: int64(len(data)), MTimeNs: status.ModTime().UnixNano(), Verdict: catalog.Good, Facts: checked}}))
	}
	s.finish(t, w, nil)
	return s
}

func (s *set) addPoints(i int) catalog.SeekPlace {
	if i%3 == 2 {
		s.points = append(s.points, nil)
		return catalog.SeekPlace{}
	}
	if s.seek == nil {
		s.seek = catalog.SeekHead()
	}
	points := random(uint64(1000+i), 50+i)
	place := catalog.SeekPlace{Offset: int64(len(s.seek)), Length: int64(len(points))}
	s.seek, s.points = append(s.seek, points...), append(s.points, points)
	return place
}

func (s *set) finish(t *testing.T, w *catalog.Writer, shards []catalog.ShardInfo) {
	t.Helper()
	m, err := w.Finish()
	require.NoError(t, err)
	m.Index.Name, m.Shards, m.Classes = catalog.IndexFileName(0), shards, []string{"cat"}
	if s.seek != nil {
		m.Seek = &catalog.SeekFile{Name: catalog.SeekFileName(0), Size: int64(len(s.seek)), Samples: 1}
		require.NoError(t, os.WriteFile(filepath.Join(s.root, m.Seek.Name), s.seek, 0o600))
	}
	text, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.root, catalog.ManifestName), text, 0o600))
}

func key(shard, i int) string {
	return fmt.Sprintf("cat/%d-%d", shard, i)
}

// openSet opens a set and fails a test that leaves a descriptor or memory behind.
func openSet(t *testing.T, root string, o mmap.Options) (*Store, *catalog.Dataset) {
	t.Helper()
	descriptors, memory := countDescriptors(t), mmap.BufferBytes()
	d, err := catalog.Open(root, catalog.Options{})
	require.NoError(t, err)
	s, err := Open(d, Options{Options: o, MaxRecordBytes: 1 << 20})
	require.NoError(t, err)
	d.Release() // the store holds a reference of its own
	t.Cleanup(func() {
		s.Close()
		s.Close()
		assert.LessOrEqual(t, countDescriptors(t), descriptors, "file descriptors")
		assert.Equal(t, memory, mmap.BufferBytes(), "bytes in buffers")
	})
	return s, d
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func buffer(t *testing.T) *mmap.Buffer {
	b := new(mmap.Buffer)
	t.Cleanup(b.Free)
	return b
}

func sample(t *testing.T, d *catalog.Dataset, i int64) catalog.Sample {
	t.Helper()
	s, err := d.Sample(i)
	require.NoError(t, err)
	return s
}

// facts satisfy the catalog, which accepts no good image without a size.
var facts = catalog.Facts{Width: 10, Height: 10, Channels: 3, Codec: 1, Sampling: 1, Process: 1, Orientation: 1}
