package threads

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// rootFiles is the file system in which cgroup files are looked up; tests replace it.
var rootFiles = os.DirFS("/")

// cgroupCores returns the smallest CPU quota of this process's cgroup and all its ancestors, in cores, rounded up as
// schedulers do: half a core is one thread. A container often has no limit itself and a limit on an ancestor. ok is
// false if there is no limit, or if nothing can be read.
func cgroupCores(root fs.FS) (cores float64, ok bool) {
	membership, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return 0, false
	}
	least := math.Inf(1)
	for line := range strings.Lines(string(membership)) {
		// hierarchy:controllers:path (cgroups(7)); v2 is hierarchy 0 without controllers.
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			least = min(least, smallest(root, string(mounts), "cgroup2", "", parts[2], quotaV2))
		case contains(parts[1], "cpu"):
			least = min(least, smallest(root, string(mounts), "cgroup", "cpu", parts[2], quotaV1))
		}
	}
	return math.Ceil(least), !math.IsInf(least, 1)
}

// smallest walks from the cgroup up to the mount's root; it returns +Inf if there is no limit.
func smallest(root fs.FS, mounts, kind, controller, group string, quota func(fs.FS, string) float64) float64 {
	point, base, ok := cgroupMount(mounts, kind, controller)
	if !ok {
		return math.Inf(1)
	}
	// The mount shows the tree from `base` down. In a container without a cgroup namespace the path is longer than what
	// can be seen. From outside the tree only the mount itself is visible.
	below, inside := strings.CutPrefix(path.Clean("/"+group), strings.TrimSuffix(base, "/"))
	if !inside || (below != "" && below[0] != '/') {
		below = "/"
	}
	least := math.Inf(1)
	for directory := path.Clean("/" + below); ; directory = path.Dir(directory) {
		least = min(least, quota(root, strings.TrimPrefix(path.Join(point, directory), "/")))
		if directory == "/" {
			return least
		}
	}
}

// cgroupMount finds where a hierarchy is mounted, and which part of it. A line of mountinfo (proc_pid_mountinfo(5)): id
// parent major:minor root mount-point options [tags...] - type source super-options.
func cgroupMount(mounts, kind, controller string) (point, base string, ok bool) {
	for line := range strings.Lines(mounts) {
		left, right, found := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if !found || len(before) < 6 || len(after) < 3 || after[0] != kind {
			continue
		}
		if controller == "" || contains(after[2], controller) {
			return unescape(before[4]), unescape(before[3]), true
		}
	}
	return "", "", false
}

// unescape replaces the octal escapes of mountinfo, such as that of a space.
func unescape(s string) string {
	for _, c := range []string{" ", "\t", "\n", "\\"} {
		s = strings.ReplaceAll(s, "\\0"+strconv.FormatInt(int64(c[0]), 8), c)
		s = strings.ReplaceAll(s, "\\"+strconv.FormatInt(int64(c[0]), 8), c)
	}
	return s
}

func contains(list, name string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part == name {
			return true
		}
	}
	return false
}

// quotaV2 reads cpu.max: "QUOTA PERIOD" or "max PERIOD", in microseconds.
func quotaV2(root fs.FS, directory string) float64 {
	text, err := fs.ReadFile(root, path.Join(directory, "cpu.max"))
	if err != nil {
		return math.Inf(1) // the root has no such file, nor has a group without the controller
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return math.Inf(1)
	}
	return ratio(fields[0], fields[1])
}

// quotaV1 reads cpu.cfs_quota_us, which is -1 for no quota, and cpu.cfs_period_us.
func quotaV1(root fs.FS, directory string) float64 {
	quota, err := fs.ReadFile(root, path.Join(directory, "cpu.cfs_quota_us"))
	if err != nil {
		return math.Inf(1)
	}
	period, err := fs.ReadFile(root, path.Join(directory, "cpu.cfs_period_us"))
	if err != nil {
		return math.Inf(1)
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return math.Inf(1)
	}
	return float64(q) / float64(p)
}
