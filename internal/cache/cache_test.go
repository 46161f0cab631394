package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/mmap"
)

// keyOf and valueOf are the i-th key and its value, which no other key has.
func keyOf(i int) Key {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))
	return Key(sum[:16])
}

func valueOf(i int) []byte {
	key := keyOf(i)
	return bytes.Repeat(key[:], 20+i%200)
}

// checkNoLeaks fails a test that leaves a descriptor, a buffer or an open Cache behind.
func checkNoLeaks(t testing.TB) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	descriptors, buffers := count(), mmap.BufferBytes()
	t.Cleanup(func() {
		require.Equal(t, descriptors, count(), "descriptors")
		require.Equal(t, buffers, mmap.BufferBytes())
		require.Empty(t, registry.open)
	})
}

// openAlone opens a Cache that shares nothing with the others of this process, as another process would.
func openAlone(t testing.TB, dir string, bound int64) *Cache {
	registry.Lock()
	others := registry.open
	registry.open = nil
	registry.Unlock()
	c := Open(dir, bound)
	registry.Lock()
	registry.open = others
	registry.Unlock()
	require.NotNil(t, c)
	return c
}

// find says whether a key has a value, and fails the test if it is not the right one.
func find(t testing.TB, c *Cache, i int) bool {
	t.Helper()
	var b mmap.Buffer
	defer b.Free()
	view, ok := c.Get(keyOf(i), &b)
	if ok {
		require.Equal(t, valueOf(i), bytes.Clone(view.Bytes()), "value %d", i)
	}
	return ok
}

func countFound(t testing.TB, c *Cache, from, to int) int {
	found := 0
	for i := from; i < to; i++ {
		if find(t, c, i) {
			found++
		}
	}
	return found
}

// sizeOf is the total size of a directory's files in bytes.
func sizeOf(t testing.TB, dir string) int64 {
	total := int64(0)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

func TestAValueIsFoundAtOnceAndByEveryLaterProcess(t *testing.T) {
	checkNoLeaks(t)
	dir := filepath.Join(t.TempDir(), "a", "cache")
	c := openAlone(t, dir, 64<<20)
	for i := range 1000 {
		require.False(t, find(t, c, i))
		c.Put(keyOf(i), valueOf(i))
		require.True(t, find(t, c, i))
	}
	c.Close()
	for range 3 {
		c = openAlone(t, dir, 64<<20)
		require.Equal(t, 1000, countFound(t, c, 0, 1000))
		require.False(t, find(t, c, 1000))
		c.Put(keyOf(0), valueOf(0)) // goes to the same segment
		c.Close()
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.keys"))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

func TestTheLaterOfTwoValuesOfAKeyIsFound(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	c := openAlone(t, dir, 64<<20)
	c.Put(keyOf(7), []byte("what was there"))
	c.Put(keyOf(7), valueOf(7))
	require.True(t, find(t, c, 7))
	c.Close()
	c = openAlone(t, dir, 64<<20)
	require.True(t, find(t, c, 7))
	c.Close()
}

func TestAValueThatIsAlreadyKeptIsNotWrittenAgain(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	c := openAlone(t, dir, 64<<20)
	require.True(t, c.Put(keyOf(7), valueOf(7)))
	require.False(t, c.Put(keyOf(7), valueOf(7)))
	require.True(t, c.Put(keyOf(7), []byte("another")))
	require.True(t, c.Put(keyOf(7), valueOf(7)), "the later value replaces the one before")
	require.True(t, find(t, c, 7))
	c.Close()
	c = openAlone(t, dir, 64<<20)
	require.True(t, find(t, c, 7))
	require.False(t, c.Put(keyOf(7), valueOf(7)), "an earlier process put it")
	c.Close()
}

func TestACacheOpenedTwiceInAProcessIsSharedUntilItsLastClose(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	first := Open(dir, 64<<20)
	second := Open(dir, 64<<20)
	require.Same(t, first, second)
	first.Put(keyOf(1), valueOf(1))
	first.Close()
	require.True(t, find(t, second, 1))
	second.Close()
}

func TestADirectoryThatOthersMayWriteToIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	require.Nil(t, Open(dir, 64<<20))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Nil(t, Open(file, 64<<20))
	require.Nil(t, Open(filepath.Join(file, "below"), 64<<20))
}

func TestACacheThatCannotBeWrittenIsOnlyRead(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	c := openAlone(t, dir, 64<<20)
	c.Put(keyOf(1), valueOf(1))
	c.Close()
	// Root may write anywhere, so the test puts a directory in the place of the lock file.
	require.NoError(t, os.Remove(filepath.Join(dir, lockName)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, lockName), 0o700))
	before := sizeOf(t, dir)
	c = openAlone(t, dir, 64<<20)
	require.False(t, c.Writable(), "known before anything is put")
	require.True(t, find(t, c, 1))
	require.False(t, c.Put(keyOf(2), valueOf(2)))
	require.False(t, find(t, c, 2))
	c.Close()
	require.Equal(t, before, sizeOf(t, dir))
}

func TestAFullDiskEndsWritingAndTheValuesWrittenBeforeStay(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	c := openAlone(t, dir, 64<<20)
	for i := range 100 {
		c.Put(keyOf(i), valueOf(i))
	}
	c.Close()
	// A limit on the size of files looks to a writer like a full disk.
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	low := before
	low.Cur = 200 << 10
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &low))
	c = openAlone(t, dir, 64<<20)
	for i := range 3000 {
		c.Put(keyOf(i), valueOf(i))
	}
	off := c.writer.off.Load()
	require.False(t, c.Writable())
	require.False(t, c.Put(keyOf(4000), valueOf(4000)))
	c.Close()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
	require.True(t, off, "the test did not fill the disk")
	c = openAlone(t, dir, 64<<20)
	require.Equal(t, 100, countFound(t, c, 0, 100))
	countFound(t, c, 100, 3000)
	c.Put(keyOf(5000), valueOf(5000)) // there is space again
	c.Close()
	c = openAlone(t, dir, 64<<20)
	require.True(t, find(t, c, 5000))
	c.Close()
}

// makeOld changes the times of all segments of a directory to hours ago, and keeps their order.
func makeOld(t testing.TB, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+keysSuffix))
	require.NoError(t, err)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		before := info.ModTime().Add(-2 * recent)
		require.NoError(t, os.Chtimes(file, before, before))
	}
}

func TestTheBoundIsKeptAndTheValuesUsedLastStay(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	const bound = LeastBound
	for round := range 14 {
		c := openAlone(t, dir, bound)
		for i := range 100 {
			c.Put(keyOf(1000*round+i), valueOf(1000*round+i))
			require.LessOrEqual(t, sizeOf(t, dir), int64(bound))
		}
		c.Close()
		makeOld(t, dir)
		require.LessOrEqual(t, sizeOf(t, dir), int64(bound))
	}
	c := openAlone(t, dir, bound)
	require.Equal(t, 100, countFound(t, c, 13000, 13100))
	require.Less(t, countFound(t, c, 0, 1000), 100)
	c.Close()
}

func TestASetLargerThanTheBoundKeepsItsFirstPartAndNoMoreIsWritten(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	const set = 2000 // more than the bound holds
	kept := -1
	for epoch := range 4 {
		c := openAlone(t, dir, LeastBound)
		found, put := 0, 0
		for i := range set {
			switch {
			case find(t, c, i):
				found++
			case c.Writable() && c.Put(keyOf(i), valueOf(i)):
				put++
			}
		}
		if epoch == 0 {
			require.Zero(t, found)
			kept = put
		} else {
			require.GreaterOrEqual(t, found, kept*9/10)
			require.LessOrEqual(t, put, kept/5, "only what still fits into the last segment")
		}
		if epoch == 3 {
			require.Zero(t, put)
			require.False(t, c.Writable())
		}
		c.Close()
		require.LessOrEqual(t, sizeOf(t, dir), int64(LeastBound))
	}
	require.Positive(t, kept)
	makeOld(t, dir) // segments that were not used for an hour may be removed
	c := openAlone(t, dir, LeastBound)
	require.True(t, c.Put(keyOf(-7), valueOf(7)))
	c.Close()
}

func TestFilesOfOthersInTheDirectoryAreNeitherWrittenNorRemoved(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	own := map[string]string{
		"mnist.data": "a user's", "mnist.keys": "", "a.data": "alone", "b.keys": "HRCACHE",
		"0123456789ABCDEF.keys": "", "0123456789abcdef0.data": "one digit more", "0123456789abcdef0.keys": "",
		"0123456789abcdef.data": "of a segment's name, without keys",
		"00000000000000aa.keys": "no head", "00000000000000aa.data": "and its neighbour",
		"00000000000000ab.keys": strings.Repeat("no segment's head ", 10), "00000000000000ab.data": strings.Repeat("x", 2*LeastBound),
	}
	for name, text := range own {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))) // so old that it would be evicted first
	}
	for round := range 14 {
		c := openAlone(t, dir, LeastBound)
		for i := range 100 {
			c.Put(keyOf(1000*round+i), valueOf(1000*round+i))
		}
		require.Equal(t, 100, countFound(t, c, 1000*round, 1000*round+100))
		c.Close()
		makeOld(t, dir)
	}
	for name, text := range own {
		found, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, text, string(found), name)
	}
}

func TestASegmentOfAKilledProcessIsUsedAgainOrRemoved(t *testing.T) {
	checkNoLeaks(t)
	for _, left := range []string{"", magic[:3], magic + "\x01"} {
		dir := t.TempDir()
		name := filepath.Join(dir, "0123456789abcdef")
		require.NoError(t, os.WriteFile(name+keysSuffix, []byte(left), 0o600))
		require.NoError(t, os.WriteFile(name+dataSuffix, make([]byte, 2*LeastBound), 0o600))
		makeOld(t, dir)
		c := openAlone(t, dir, LeastBound)
		c.Put(keyOf(1), valueOf(1))
		c.Close()
		require.Less(t, sizeOf(t, dir), int64(leastSegment), "a segment that is too large to be used is removed")

		dir = t.TempDir()
		name = filepath.Join(dir, "0123456789abcdef")
		require.NoError(t, os.WriteFile(name+keysSuffix, []byte(left), 0o600))
		require.NoError(t, os.WriteFile(name+dataSuffix, make([]byte, 100), 0o600))
		c = openAlone(t, dir, LeastBound)
		c.Put(keyOf(1), valueOf(1))
		c.Close()
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 3, "the lock, and the two files of this segment")
		c = openAlone(t, dir, LeastBound)
		require.True(t, find(t, c, 1))
		c.Close()
	}
}

func TestAValueThatIsTooLargeIsNotKept(t *testing.T) {
	checkNoLeaks(t)
	c := openAlone(t, t.TempDir(), LeastBound)
	require.False(t, c.Put(keyOf(1), make([]byte, c.MostValue()+1)))
	require.False(t, find(t, c, 1))
	require.True(t, c.Put(keyOf(2), make([]byte, c.MostValue())))
	c.Put(keyOf(1), valueOf(1))
	require.True(t, find(t, c, 1))
	c.Close()
}

func TestAValueOfAnotherProcessIsFoundWithoutOpeningTheCacheAgain(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	one, two := openAlone(t, dir, 64<<20), openAlone(t, dir, 64<<20)
	require.False(t, find(t, two, 3))
	one.Put(keyOf(3), valueOf(3))
	one.writer.mu.Lock()
	one.writer.flush()
	one.writer.mu.Unlock()
	two.looked.Store(monotonic() - int64(lookEvery))
	require.True(t, find(t, two, 3))
	two.Put(keyOf(4), valueOf(4)) // goes to another segment, because the first one is locked
	two.Close()
	one.looked.Store(monotonic() - int64(lookEvery))
	require.True(t, find(t, one, 4))
	one.Close()
}

func TestSegmentsAreFoundAmongAnyNumberOfOtherFiles(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	c := openAlone(t, dir, 64<<20)
	c.Put(keyOf(3), valueOf(3))
	c.Close()
	// There are so many that the segment is unlikely to be among the first if names are listed in no order.
	for i := range 20 * mostSegments {
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
	}
	c = openAlone(t, dir, 64<<20)
	require.True(t, find(t, c, 3))
	c.looked.Store(monotonic() - int64(lookEvery))
	require.False(t, find(t, c, 4)) // lists the segments again
	require.True(t, find(t, c, 3), "a segment that still exists is not taken for evicted")
	c.Close()
}

func TestOfTooManySegmentsTheOnesUsedLastAreRead(t *testing.T) {
	dir := t.TempDir()
	for i := range mostSegments + 10 {
		path := filepath.Join(dir, fmt.Sprintf("%016x", i)+keysSuffix)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		used := time.Unix(int64(1000-i), 0)
		require.NoError(t, os.Chtimes(path, used, used))
	}
	names, err := (&Cache{dir: dir}).names()
	require.NoError(t, err)
	require.Equal(t, mostSegments, len(names))
	require.Equal(t, fmt.Sprintf("%016x", 0), names[len(names)-1])
}

func TestManyThreadsMayPutAndFindValuesAtOnce(t *testing.T) {
	checkNoLeaks(t)
	c := Open(t.TempDir(), LeastBound)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			var b mmap.Buffer
			defer b.Free()
			for i := range 2000 {
				n := (g*37 + i) % 900
				if view, ok := c.Get(keyOf(n), &b); ok {
					assert.True(t, bytes.Equal(valueOf(n), view.Bytes()))
				} else {
					c.Put(keyOf(n), valueOf(n))
				}
			}
		})
	}
	group.Wait()
	c.Close()
}

// childOf makes this program a child process that puts values from one number on, without end or up to another
// number.
const childOf = "HEADRACE_TEST_CACHE"

func TestMain(m *testing.M) {
	var from, to int
	var dir string
	var bound int64
	if dir, ok := os.LookupEnv(turnOf); ok {
		Open(dir, LeastBound).Turn(Key{1})
		fmt.Println("had")
		time.Sleep(time.Hour)
	}
	if text, ok := os.LookupEnv(childOf); ok {
		if _, err := fmt.Sscanf(text, "%d %d %d %s", &from, &to, &bound, &dir); err != nil {
			panic(err)
		}
		c := Open(dir, bound)
		for i := from; i != to; i++ {
			var b mmap.Buffer
			if _, ok := c.Get(keyOf(i), &b); !ok {
				c.Put(keyOf(i), valueOf(i))
			}
			b.Free()
		}
		c.Close()
		return
	}
	os.Exit(m.Run())
}

func child(t *testing.T, from, to int, bound int64, dir string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), childOf+"="+strings.Join([]string{strconv.Itoa(from), strconv.Itoa(to), strconv.FormatInt(bound, 10), dir}, " "))
	command.Stderr = os.Stderr
	require.NoError(t, command.Start())
	return command
}

func TestAProcessThatIsKilledAtAnyMomentLeavesOnlyRightValues(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	most := 0
	for round := range 12 {
		killed := child(t, 0, -1, 8<<20, dir)
		time.Sleep(time.Duration(5+7*round) * time.Millisecond)
		require.NoError(t, killed.Process.Kill())
		_ = killed.Wait()
		c := openAlone(t, dir, 8<<20)
		most = max(most, countFound(t, c, 0, 4000))
		c.Close()
	}
	require.Positive(t, most)
	c := openAlone(t, dir, 8<<20)
	c.Put(keyOf(-5), valueOf(5))
	c.Close()
}

func TestFourProcessesAtOnceKeepAllTheirValuesAndTheBound(t *testing.T) {
	checkNoLeaks(t)
	dir := t.TempDir()
	var all []*exec.Cmd
	for n := range 4 {
		all = append(all, child(t, 1000*n, 1000*n+1000, 64<<20, dir))
	}
	for _, c := range all {
		require.NoError(t, c.Wait())
	}
	c := openAlone(t, dir, 64<<20)
	require.Equal(t, 4000, countFound(t, c, 0, 4000))
	c.Close()

	dir = t.TempDir()
	all = nil
	for n := range 4 {
		all = append(all, child(t, 1000*n, 1000*n+1000, LeastBound, dir))
	}
	for _, c := range all {
		require.NoError(t, c.Wait())
	}
	require.LessOrEqual(t, sizeOf(t, dir), int64(LeastBound))
	c = openAlone(t, dir, LeastBound)
	require.Positive(t, countFound(t, c, 0, 4000))
	c.Close()
}

// damaged writes a directory with 20 values whose files are altered, and reads it.
func damaged(t testing.TB, alter func(keys, data []byte) (newKeys, newData []byte)) (found int) {
	dir := t.TempDir()
	c := openAlone(t, dir, 64<<20)
	for i := range 20 {
		c.Put(keyOf(i), valueOf(i)[:64])
	}
	c.Close()
	names, err := filepath.Glob(filepath.Join(dir, "*.keys"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	dataName := strings.TrimSuffix(names[0], keysSuffix) + dataSuffix
	keys, err := os.ReadFile(names[0])
	require.NoError(t, err)
	data, err := os.ReadFile(dataName)
	require.NoError(t, err)
	keys, data = alter(keys, data)
	require.NoError(t, os.WriteFile(names[0], keys, 0o600))
	require.NoError(t, os.WriteFile(dataName, data, 0o600))
	c = openAlone(t, dir, 64<<20)
	defer c.Close()
	var b mmap.Buffer
	defer b.Free()
	for i := range 20 {
		view, ok := c.Get(keyOf(i), &b)
		if ok {
			found++
			require.Equal(t, valueOf(i)[:64], bytes.Clone(view.Bytes()))
		}
	}
	c.Put(keyOf(30), valueOf(30)) // after whatever is there
	require.True(t, find(t, c, 30))
	return found
}

func TestADamagedByteLosesOnlyTheValueThatItBelongsTo(t *testing.T) {
	checkNoLeaks(t)
	for at := range headBytes + 2*entryBytes {
		found := damaged(t, func(keys, data []byte) ([]byte, []byte) {
			keys[at] ^= 0x40
			return keys, data
		})
		if at >= headBytes {
			require.Equal(t, 19, found, "byte %d", at)
		}
	}
	for at := range 160 {
		require.Equal(t, 19, damaged(t, func(keys, data []byte) ([]byte, []byte) {
			data[at] ^= 1
			return keys, data
		}))
	}
	require.Equal(t, 19, damaged(t, func(keys, data []byte) ([]byte, []byte) { return keys[:len(keys)-1], data }))
	require.Equal(t, 19, damaged(t, func(keys, data []byte) ([]byte, []byte) { return keys, data[:len(data)-1] }))
	require.Zero(t, damaged(t, func(keys, data []byte) ([]byte, []byte) { return nil, nil }))
}

// FuzzSegment reads a segment of any bytes: every value that is found is the one that was put.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{}, []byte{}, uint16(0), uint16(0))
	f.Add([]byte{1, 2, 3}, []byte{9}, uint16(40), uint16(5))
	f.Add(bytes.Repeat([]byte{0xFF}, 32), []byte("HRCACHE"), uint16(0), uint16(90))
	f.Fuzz(func(t *testing.T, inKeys, inData []byte, atKeys, atData uint16) {
		put := func(to, from []byte, at int) []byte {
			at = min(at, len(to))
			return append(append(bytes.Clone(to[:at]), from...), to[min(len(to), at+len(from)):]...)
		}
		damaged(t, func(keys, data []byte) ([]byte, []byte) {
			return put(keys, inKeys, int(atKeys)), put(data, inData, int(atData))
		})
	})
}
