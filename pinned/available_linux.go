package pinned

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// availableBytes returns how much the system would still give to anonymous memory before it kills a process: the least
// of MemAvailable and the room in every memory cgroup above this process. It is -1 if unknown. It is an estimate that
// is read only when a new slot is made; a wrong one only means that the early warning is missing.
func availableBytes() int64 {
	return availableIn("/proc", "/sys/fs/cgroup")
}

func availableIn(proc, cgroup string) int64 {
	memory := readTable(filepath.Join(proc, "meminfo"))
	available, known := memory["MemAvailable:"]
	if !known {
		return none
	}
	const kB = 1024
	swap := memory["SwapFree:"] * kB
	least := available*kB + swap
	lines, _ := os.ReadFile(filepath.Join(proc, "self/cgroup"))
	for line := range strings.Lines(string(lines)) {
		// "0::/path" is cgroup v2, and "4:memory:/path" is the memory controller of v1 (cgroups(7)).
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			least = min(least, roomUpwards(version2, cgroup, parts[2], swap))
		case parts[1] == "memory":
			least = min(least, roomUpwards(version1, filepath.Join(cgroup, "memory"), parts[2], swap))
		}
	}
	return max(least, 0)
}

// version names the files of one version of the memory controller.
type version struct {
	limit, usage         string
	swapLimit, swapUsage string   // version 1 limits the sum of both, which is not read
	reclaimable          []string // lines of memory.stat: page cache that the kernel drops before it kills
}

var (
	version2 = version{"memory.max", "memory.current", "memory.swap.max", "memory.swap.current", []string{"inactive_file", "active_file", "slab_reclaimable"}}
	version1 = version{"memory.limit_in_bytes", "memory.usage_in_bytes", "", "", []string{"total_inactive_file", "total_active_file"}}
)

// roomUpwards returns the least room from a group up to the root. In a container the path may not exist below the
// mount; then the mount itself is our group.
func roomUpwards(v version, mount, group string, swap int64) int64 {
	least := int64(math.MaxInt64)
	for directory := filepath.Join("/", group); ; directory = filepath.Dir(directory) {
		// What a group may not swap out, no group above it can swap out for us.
		swap = min(swap, v.swapRoom(filepath.Join(mount, directory)))
		if room, known := v.room(filepath.Join(mount, directory)); known {
			least = min(least, min(room, math.MaxInt64-swap)+swap)
		}
		if directory == "/" {
			return least
		}
	}
}

func (v version) room(directory string) (int64, bool) {
	limit, limited := readNumber(filepath.Join(directory, v.limit))
	usage, known := readNumber(filepath.Join(directory, v.usage))
	if !limited || !known {
		return 0, false // "max", or no such file
	}
	statistics := readTable(filepath.Join(directory, "memory.stat"))
	for _, name := range v.reclaimable {
		usage -= statistics[name]
	}
	return limit - max(usage, 0), true
}

func (v version) swapRoom(directory string) int64 {
	limit, limited := readNumber(filepath.Join(directory, v.swapLimit))
	usage, known := readNumber(filepath.Join(directory, v.swapUsage))
	if !limited || !known {
		return math.MaxInt64
	}
	return max(limit-usage, 0)
}

func readNumber(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// readTable reads lines with a name and a number.
func readTable(path string) map[string]int64 {
	table := map[string]int64{}
	file, err := os.Open(path)
	if err != nil {
		return table
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				table[fields[0]] = n
			}
		}
	}
	return table
}
