package mmap

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkNoLeaks fails a test that leaves a descriptor, a mapping or buffer memory behind.
func checkNoLeaks(t *testing.T) {
	t.Helper()
	descriptors, memory := countDescriptors(t), BufferBytes()
	t.Cleanup(func() {
		assert.LessOrEqual(t, countDescriptors(t), descriptors, "file descriptors")
		assert.Equal(t, memory, BufferBytes(), "bytes in buffers")
		assert.Zero(t, countMaps(t, "shard-00000.tar"), "mappings of test files")
	})
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func countMaps(t *testing.T, name string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(maps), name)
}

// addressSpace is how many bytes the process has mapped.
func addressSpace(t *testing.T) uint64 {
	t.Helper()
	counts, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseUint(strings.Fields(string(counts))[0], 10, 64)
	require.NoError(t, err)
	return pages * uint64(os.Getpagesize())
}
