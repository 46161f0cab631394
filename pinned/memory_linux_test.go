package pinned

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/inject"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSlotsKeepNoDescriptorsOpen(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		p := newPool(t, o)
		before := countDescriptors(t)
		held := []*Slot{hold(t, p), hold(t, p), hold(t, p)}
		assert.Equal(t, before, countDescriptors(t))
		for _, s := range held {
			require.NoError(t, s.Release())
		}
	})
}

// A child has a copy of the held slots, and nothing of slots that are still being written.
func TestForkedChildrenHaveTheHeldSlotsAndNoOthers(t *testing.T) {
	p := newPool(t, Options{Keep: 2})
	s, beside := acquire(t, p), hold(t, p)
	for range 3 {
		assert.True(t, isHidden(t, s), "filling")
		require.NoError(t, s.Ready())
		assert.True(t, isHidden(t, s), "ready")
		require.NoError(t, s.Hold())
		assert.False(t, isHidden(t, s), "held")
		require.NoError(t, s.Release())
		assert.True(t, isHidden(t, s), "free")
		assert.False(t, isHidden(t, beside), "another slot that stays held")
		s = acquire(t, p)
	}
	require.NoError(t, s.Abandon())
	require.NoError(t, p.Reserve(3))
	warm := acquire(t, p)
	assert.True(t, isHidden(t, warm), "made ahead")
	require.NoError(t, errors.Join(warm.Abandon(), beside.Release()))
}

func TestSmallSlotsAreNotHiddenFromForkedChildren(t *testing.T) {
	s := acquire(t, newPool(t, Options{SlotBytes: largeSlot - 4096}))
	assert.False(t, isHidden(t, s))
	require.NoError(t, s.Abandon())
}

// isHidden says whether forked children lack a slot: the flag "dc" of proc_pid_smaps(5).
func isHidden(t *testing.T, s *Slot) bool {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, mapping, found := strings.Cut(string(smaps), fmt.Sprintf("%x-", uintptr(s.Pointer())))
	require.True(t, found)
	_, flags, _ := strings.Cut(mapping, "VmFlags:")
	flags, _, _ = strings.Cut(flags, "\n")
	return slices.Contains(strings.Fields(flags), "dc")
}

// No page of the first slot has been touched when the second one is asked for.
func TestMemoryIsNotPromisedTwice(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		o.SlotBytes = availableBytes() * 6 / 10
		p := newPool(t, o)
		first := acquire(t, p)
		assert.ErrorIs(t, p.Check(), ErrMemory)
		_, err := p.Acquire()
		var e *MemoryError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, o.SlotBytes, e.Needed)
		assert.Equal(t, o.SlotBytes, e.InUse)
		assert.Less(t, e.Available, o.SlotBytes)
		p.Close()
		require.NoError(t, first.Abandon())
		second := newPool(t, o)
		require.NoError(t, acquire(t, second).Abandon())
	})
}

func TestPopulatedPagesNoLongerCountAsPromised(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		before := promised.Load()
		s := acquire(t, newPool(t, o))
		assert.Equal(t, before+wholePages(slotBytes), promised.Load())
		require.NoError(t, s.Populate(slotBytes-1, 1))
		assert.Equal(t, before+6*chunk, promised.Load(), "all but the last chunk")
		for range 2 {
			require.NoError(t, s.Populate(0, s.Bytes()))
			assert.Equal(t, before, promised.Load())
		}
		require.NoError(t, s.Abandon())
	})
}

func TestASlotLargerThanTheMachineIsAnErrorThatNamesTheBytesNeeded(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		o.SlotBytes = 1 << 45
		p := newPool(t, o)
		_, err := p.Acquire()
		var e *MemoryError
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, ErrMemory)
		assert.EqualValues(t, 1<<45, e.Needed)
		assert.Positive(t, e.Available)
		assert.ErrorContains(t, err, "a batch needs a slot of 35184372088832 bytes")
		assert.Zero(t, p.Stats())
		assert.ErrorIs(t, p.Check(), ErrMemory, "also before any slot is asked for")
		assert.NoError(t, newPool(t, Options{SlotBytes: 8 << 20}).Check())
	})
}

func TestASlotWithoutAddressSpaceIsAnErrorAndLaterSlotsAreMade(t *testing.T) {
	eachMemory(t, func(t *testing.T, o Options) {
		o.SlotBytes = 300 << 20
		p := newPool(t, o)
		var before unix.Rlimit
		require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &before))
		low := before
		low.Cur = addressSpace(t) + 150<<20
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &low))
		_, err := p.Acquire()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &before))
		assert.ErrorIs(t, err, ErrMemory)
		assert.ErrorIs(t, err, unix.ENOMEM)
		s := acquire(t, p)
		require.NoError(t, s.Abandon())
	})
}

func addressSpace(t *testing.T) uint64 {
	t.Helper()
	return uint64(readTable("/proc/self/status")["VmSize:"]) * 1024
}

func TestAFailedSystemCallIsSurvivedOrAnErrorThatLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct{ faults, want string }{
		{"path=/dev/zero;openat:error=ENOENT", "ok without a name"},
		{"path=/dev/zero;openat:error=EACCES", "ok without a name"},
		{"path=/dev/zero;openat:error=EMFILE", "ok without a name"},
		{"path=/dev/zero;fstat:error=EIO", "ok without a name"},
		{"path=/dev/zero;mmap:error=ENODEV", "ok without a name"},
		{"path=/dev/zero;mmap:error=EACCES", "ok without a name"},
		{"path=/dev/zero;mmap:error=ENOMEM", "bytes are in use: not enough memory: mmap: cannot allocate memory; 0"},
		{"madvise:error=EINVAL", "ok with a name"},
		{"madvise:error=EINTR:when=1..5", "ok with a name"},
		{"madvise:error=EAGAIN:when=1..5", "ok with a name"},
		{"madvise:error=EAGAIN", "populate: resource temporarily unavailable; 0"},
		{"madvise:error=ENOMEM", "populate: cannot allocate memory; 0"},
		{"madvise:error=ENOMEM:when=42", "20971520 bytes are in use: not enough memory: madvise: cannot allocate memory; 0"},
	} {
		t.Run(c.faults, func(t *testing.T) {
			assert.Contains(t, inject.Run(t, "TestFaultChild", "", c.faults), c.want)
		})
	}
}

// TestFaultChild makes, populates, writes and holds a slot while strace makes its calls fail,
// and says what happened and how many mappings, descriptors and promised bytes are left. madvise
// hides the slot, populates its 40 chunks and shows it, in this order.
func TestFaultChild(t *testing.T) {
	_, begin := inject.Begin(t)
	p, err := NewPool(Options{SlotBytes: 40 * chunk})
	require.NoError(t, err)
	maps, descriptors := countSlotMaps(t), countDescriptors(t)
	begin()
	s, err := p.Acquire()
	if err == nil {
		kind := "ok without a name"
		if s.memory.apart {
			kind = "ok with a name"
		}
		if err = s.Populate(0, s.Bytes()); err == nil {
			for i := range s.slice() {
				s.slice()[i] = 1
			}
			require.NoError(t, s.Ready())
			if err = s.Hold(); err == nil {
				inject.Answer(kind)
				return
			}
		}
		require.NoError(t, s.Abandon())
	}
	left := countSlotMaps(t) - maps + countDescriptors(t) - descriptors + int(promised.Load())
	inject.Answer(err.Error() + "; " + strconv.Itoa(left))
}

// A small /dev/shm is the usual cause of bus errors in loaders that share memory.
func TestSlotsDoNotDependOnTheSizeOfDevShm(t *testing.T) {
	for name, prepare := range map[string]string{
		"64 MB":                       "mount -t tmpfs -o size=64m tmpfs /dev/shm",
		"1 MB":                        "mount -t tmpfs -o size=1m tmpfs /dev/shm",
		"absent, as /dev/zero is":     "mount -t tmpfs tmpfs /dev",
		"a file instead of /dev/zero": "mount -t tmpfs tmpfs /dev && : >/dev/zero",
	} {
		t.Run(name, func(t *testing.T) {
			if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
				t.Skipf("no mount namespace can be made here: %v", err)
			}
			child := exec.Command("unshare", "-m", "sh", "-c", prepare+` && exec "$0" -test.run='^TestSmallShmChild$' -test.v`, os.Args[0])
			child.Env = append(os.Environ(), "HEADRACE_SMALL_SHM=1")
			out, err := child.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), "--- PASS: TestSmallShmChild")
		})
	}
}

func TestSmallShmChild(t *testing.T) {
	if os.Getenv("HEADRACE_SMALL_SHM") == "" {
		t.Skip("runs only as the child of another test")
	}
	const batch = 256 * 3 * 224 * 224 * 4 // float32
	for _, noDevZero := range []bool{false, true} {
		p, err := NewPool(Options{SlotBytes: batch, Keep: 2, NoDevZero: noDevZero})
		require.NoError(t, err)
		var held []*Slot
		for range 3 {
			s := hold(t, p)
			for i := int64(0); i < batch; i += 4096 {
				s.slice()[i] = 1
			}
			held = append(held, s)
		}
		for _, s := range held {
			require.NoError(t, s.Release())
		}
		p.Close()
	}
}

func TestAvailableMemoryIsTheLeastOfTheMachineAndItsControlGroups(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	room := func() int64 { return availableIn(filepath.Join(root, "proc"), filepath.Join(root, "cgroup")) }
	assert.EqualValues(t, none, room(), "nothing is known")

	put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    1000 kB\nSwapFree: 24 kB\n")
	assert.EqualValues(t, 1024_000+24*1024, room())
	put("proc/meminfo", "MemAvailable:    1000000 kB\nSwapFree: 0 kB\n")

	// cgroup v2: the limit of an ancestor is the tighter one. Page cache counts as available, and "max" is no limit.
	put("proc/self/cgroup", "0::/a/b\n")
	put("cgroup/a/b/memory.max", "max\n")
	put("cgroup/a/memory.max", "500000\n")
	put("cgroup/a/memory.current", "400000\n")
	put("cgroup/a/memory.stat", "anon 100\ninactive_file 30000\nactive_file 2000\nslab_reclaimable 1000\n")
	assert.EqualValues(t, 133_000, room())
	put("cgroup/a/b/memory.max", "50000\n")
	put("cgroup/a/b/memory.current", "60000\n")
	assert.Zero(t, room(), "a group over its limit has no memory left")
	put("cgroup/a/b/memory.stat", "inactive_file 90000\n")
	assert.EqualValues(t, 50_000, room(), "never more than the limit, although statistics lag behind")

	// The machine's swap counts only as far as the groups may use it.
	put("proc/meminfo", "MemAvailable:    1000000 kB\nSwapFree: 100 kB\n")
	assert.EqualValues(t, 50_000+102_400, room())
	put("cgroup/a/b/memory.swap.max", "9000\n")
	put("cgroup/a/b/memory.swap.current", "2000\n")
	assert.EqualValues(t, 57_000, room())
	put("cgroup/a/b/memory.max", "max\n")
	assert.EqualValues(t, 140_000, room(), "the group above has no more swap for this one")
	put("cgroup/a/b/memory.swap.max", "0\n")
	assert.EqualValues(t, 133_000, room())
	put("proc/meminfo", "MemAvailable:    1000000 kB\nSwapFree: 0 kB\n")

	// cgroup v1, as a container sees it: the path in /proc/self/cgroup does not exist in it.
	put("proc/self/cgroup", "5:memory:/docker/0123\n1:cpu:/x\n")
	put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
	put("cgroup/memory/memory.usage_in_bytes", "1\n")
	assert.EqualValues(t, 1_024_000_000, room())
	put("cgroup/memory/memory.limit_in_bytes", "70000\n")
	put("cgroup/memory/memory.usage_in_bytes", "60000\n")
	put("cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 5000\ntotal_active_file 500\n")
	assert.EqualValues(t, 15_500, room())
}

func TestErrorsOfMemoryAndStateReadAsSentences(t *testing.T) {
	shortage := &MemoryError{Needed: 77, InUse: 154, Available: 5}
	assert.EqualError(t, shortage, "a batch needs a slot of 77 bytes and 154 bytes are in use: not enough memory (5 bytes available)")
	assert.True(t, errors.Is(shortage, ErrMemory))
	assert.EqualError(t, &StateError{Op: "release", State: Ready}, "release of a slot that is ready")
	assert.True(t, strings.HasSuffix((&StateError{Op: "hold", Stale: true}).Error(), "whose life is over"))
}
