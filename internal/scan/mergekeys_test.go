package scan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// keysOf returns the keys that a table of containers gets; own has the keys of each container's samples.
func keysOf(containers []string, own [][]string) (keys []string) {
	t := &catalog.Table{}
	lists := make([]*formats.Names, len(own))
	for i, name := range containers {
		t.Shards = append(t.Shards, catalog.ShardInfo{Name: name})
		lists[i] = &formats.Names{}
		for _, key := range own[i] {
			lists[i].Append(key)
			t.Shard = append(t.Shard, uint32(i))
		}
	}
	uniqueKeys(t, lists...)
	for i := range t.Keys.Len() {
		keys = append(keys, string(t.Keys.Bytes(i)))
	}
	return keys
}

func TestSamplesWithoutKeysAreNumberedInTheirContainer(t *testing.T) {
	none := [][]string{{"", ""}, {""}}
	require.Equal(t, []string{"a/0", "a/1", "a/1/0"}, keysOf([]string{"a.tfrecord", "a/1.tfrecord"}, none))
	require.Equal(t, []string{"a/0", "a/1", "a/0@"}, keysOf([]string{"a.tfrecord", "a.tfrec"}, none), "two containers of one name")
}

func TestValidKeysThatAscendAreTakenAsTheyAre(t *testing.T) {
	require.Equal(t, []string{"a", "b", "b/0", "c"}, keysOf([]string{"b.tar", "a.tar"}, [][]string{{"a", "b", "b/0"}, {"c"}}))
	require.Equal(t, []string{"b/a", "b", "a/a"}, keysOf([]string{"b.tar", "a.tar"}, [][]string{{"a", "b"}, {"a"}}))
	long := strings.Repeat("k", formats.MaxNameBytes+1)
	require.Equal(t, []string{"a", "b/1"}, keysOf([]string{"b.tar"}, [][]string{{"a", long}}))
}

func TestAnyKeysOfAnyContainersBecomeUnique(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"", "a", "b", "/", "a/", "a/0", "a/1", "b/a", "a/0@", "a/a", strings.Repeat("k", formats.MaxNameBytes), strings.Repeat("k", formats.MaxNameBytes+1)}
	containers := []string{"a.tar", "a.tfrec", "b.tar", "a/0.tar"}
	for range 5000 {
		own := make([][]string, 1+r.IntN(len(containers)))
		samples := 0
		for i := range own {
			for range r.IntN(5) {
				own[i] = append(own[i], words[r.IntN(len(words))])
				samples++
			}
		}
		keys := keysOf(containers[:len(own)], own)
		require.Len(t, keys, samples)
		seen := make(map[string]bool)
		for _, key := range keys {
			require.False(t, seen[key], fmt.Sprintf("%.40q of %.80q", key, own))
			seen[key] = true
		}
	}
}
