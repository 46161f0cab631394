package threads

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "25 23 0:22 / /proc rw - proc proc rw\n" +
		"33 32 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"34 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)

func tree(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestCoresAreTheSmallestQuotaOfAllAncestors(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		cores float64
		ok    bool
	}{
		"v2, the limit on a grandparent": {map[string]string{
			"proc/self/cgroup": "0::/kube/pod/box\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/kube/cpu.max": "150000 100000\n", "sys/fs/cgroup/kube/pod/cpu.max": "max 100000\n",
			"sys/fs/cgroup/kube/pod/box/cpu.max": "800000 100000\n"}, 2, true},
		"v2, no limit": {map[string]string{"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 0, false},
		"v2, a namespace of its own": {map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3, true},
		"v2, part of the tree is mounted": {map[string]string{"proc/self/cgroup": "0::/kube/pod/box\n",
			"proc/self/mountinfo":       "30 23 0:26 /kube/pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/box/cpu.max": "50000 100000\n"}, 1, true},
		"v2, a group outside what is mounted": {map[string]string{"proc/self/cgroup": "0::/other/box\n",
			"proc/self/mountinfo":   "30 23 0:26 /kube/pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/cpu.max": "250000 100000\n"}, 3, true},
		"v1, cpu beside cpuacct": {map[string]string{
			"proc/self/cgroup": "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us":    "400000\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us":   "100000\n"}, 4, true},
		"both, as on a hybrid machine": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/a\n0::/b\n", "proc/self/mountinfo": mountV1 + mountV2,
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us":  "700000\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/b/cpu.max":                       "500000 100000\n"}, 5, true},
		"a path with a space": {map[string]string{"proc/self/cgroup": "0::/a b\n",
			"proc/self/mountinfo":        "30 23 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n",
			"sys/fs/c group/a b/cpu.max": "200000 100000\n"}, 2, true},
		"nonsense everywhere": {map[string]string{"proc/self/cgroup": "no\n0::/a\n::\n", "proc/self/mountinfo": "x - y\n\n" + mountV2,
			"sys/fs/cgroup/a/cpu.max": "-5 0\n", "sys/fs/cgroup/cpu.max": "many\n"}, 0, false},
		"nothing to read": {map[string]string{}, 0, false},
	} {
		cores, ok := cgroupCores(tree(c.files))
		require.Equal(t, c.ok, ok, name)
		if ok {
			require.Equal(t, c.cores, cores, name)
		}
	}
}

func TestRanksShareTheThreadsAndLeaveOneCoreIfThereAreFourOrMore(t *testing.T) {
	for _, c := range []struct {
		cores float64
		ranks int
		want  int
	}{{1, 0, 1}, {2, 1, 2}, {3, 1, 3}, {4, 1, 3}, {16, 1, 15}, {16, 4, 3}, {16, 8, 2}, {2, 8, 1}, {8, -3, 7}, {64, 3, 20}} {
		require.Equal(t, c.want, threadsFor(c.cores, c.ranks), "%v", c)
	}
	t.Setenv("LOCAL_WORLD_SIZE", "1000")
	require.Equal(t, 1, Default())
}

func TestLowerRaisesTheNicenessOfItsThreadAndOfNoOther(t *testing.T) {
	niceness := func() int {
		answer, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		require.NoError(t, err)
		return 20 - answer
	}
	before := niceness()
	inside := make(chan [3]int)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		Lower(0)
		unchanged := niceness()
		Lower(7)
		lowered := niceness()
		Lower(LeastNice)
		inside <- [3]int{unchanged, lowered, niceness()}
	}()
	require.Equal(t, [3]int{before, min(before+7, LeastNice), min(before+7+LeastNice, LeastNice)}, <-inside)
	require.Equal(t, before, niceness())
}
