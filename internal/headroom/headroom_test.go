package headroom

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new root; what is below /sys and /proc is what a kernel would show there.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

const (
	v1Mount = "40 32 0:35 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n"
	v2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestTheTightestLimitOfAllAncestorControlGroupsIsFound(t *testing.T) {
	const pids = "sys/fs/cgroup/pids/"
	for name, files := range map[string]map[string]string{
		"version 1": {
			"proc/self/cgroup": "8:pids:/pod/box\n3:cpu:/other\n", "proc/self/mountinfo": v1Mount,
			pids + "pod/pids.max": "100\n", pids + "pod/pids.current": "60\n",
			pids + "pod/box/pids.max": "max\n", pids + "pod/box/pids.current": "9\n",
		},
		"version 2": {
			"proc/self/cgroup": "0::/pod/box\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/pod/pids.max": "70\n", "sys/fs/cgroup/pod/pids.current": "30\n",
			"sys/fs/cgroup/pod/box/pids.max": "90\n", "sys/fs/cgroup/pod/box/pids.current": "20\n",
		},
		"both": {
			"proc/self/cgroup": "8:pids:/a\n0::/b\n", "proc/self/mountinfo": v2Mount + v1Mount,
			pids + "a/pids.max": "50\n", pids + "a/pids.current": "10\n",
			"sys/fs/cgroup/b/pids.max": "500\n", "sys/fs/cgroup/b/pids.current": "10\n",
		},
		"a mount with a space": {
			"proc/self/cgroup":    "0::/b\n",
			"proc/self/mountinfo": "30 23 0:26 / /a\\040b rw - cgroup2 cgroup2 rw\n",
			"a b/b/pids.max":      "41\n", "a b/b/pids.current": "1\n",
		},
	} {
		threads, hidden, by := allowed(tree(t, files))
		require.EqualValues(t, 40, threads, name)
		require.False(t, hidden, name)
		require.Contains(t, by, "pids.max of ", name)
	}
}

func TestALimitAboveAContainerIsReportedAsHidden(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"the mount's own root has a limit": {
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mount,
			"sys/fs/cgroup/pids.max": "max\n", "sys/fs/cgroup/pids.current": "3\n",
		},
		"only the container's part is mounted": {
			"proc/self/cgroup":            "8:pids:/docker/abc\n",
			"proc/self/mountinfo":         strings.Replace(v1Mount, " / ", " /docker/abc ", 1),
			"sys/fs/cgroup/pids/pids.max": "max\n", "sys/fs/cgroup/pids/pids.current": "3\n",
		},
		"nothing is mounted": {"proc/self/cgroup": "8:pids:/docker/abc\n", "proc/self/mountinfo": ""},
	} {
		threads, hidden, _ := allowed(tree(t, files))
		require.EqualValues(t, math.MaxInt64, threads, name)
		require.True(t, hidden, name)
	}
}

func TestTheMachinesLimitsOnThreadsCount(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/loadavg": "0.1 0.2 0.3 2/700 12345\n", "proc/sys/kernel/threads-max": "1000\n", "proc/sys/kernel/pid_max": "900\n",
	})
	threads, hidden, by := allowed(root)
	require.EqualValues(t, 200, threads)
	require.False(t, hidden)
	require.Equal(t, "/proc/sys/kernel/pid_max is 900, and 700 threads run", by)
}

func FuzzFilesOfTheKernelMayHoldAnything(f *testing.F) {
	f.Add("8:pids:/pod/box\n", v1Mount, "100", "60")
	f.Add("0::/..\n", v2Mount, "max", "-1")
	f.Add("0::/a\n", "1 2 3 /a /"+strings.Repeat("x", 5000)+" rw - cgroup2 x y", "9223372036854775807", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, groups, mounts, most, now string) {
		files := map[string]string{"proc/self/cgroup": groups, "proc/self/mountinfo": mounts}
		for _, name := range []string{"pod/box", "pod", "", "a"} {
			for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/pids"} {
				files[fmt.Sprintf("%s/%s/pids.max", mount, name)] = most
				files[fmt.Sprintf("%s/%s/pids.current", mount, name)] = now
			}
		}
		threads, _, _ := allowed(tree(t, files))
		require.GreaterOrEqual(t, threads, int64(0))
	})
}
