package pack

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
)

// TestMain lets the test binary run as the process that is killed.
func TestMain(m *testing.M) {
	if src := os.Getenv("HEADRACE_KILL_SOURCE"); src != "" {
		fmt.Println("begin")
		var err error
		if dst := os.Getenv("HEADRACE_KILL_DESTINATION"); dst != "" {
			_, err = Pack(context.Background(), PackConfig{Source: src, Destination: dst, ShardBytes: minShardBytes, Overwrite: true}, nil)
		} else {
			_, err = Index(context.Background(), IndexConfig{Source: src}, nil)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("HEADRACE_CACHE", "off")
	os.Exit(m.Run())
}

// runAndKill runs the test binary as a job and kills it after a while; it reports whether the job
// had ended by itself.
func runAndKill(t *testing.T, src, dst string, after time.Duration) bool {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "HEADRACE_KILL_SOURCE="+src, "HEADRACE_KILL_DESTINATION="+dst)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = io.ReadFull(out, make([]byte, len("begin\n")))
	require.NoError(t, err)
	time.Sleep(after)
	c.Process.Kill()
	return c.Wait() == nil
}

// repetitions is how often a job is killed: as often as `make stress` says, or 20 times, or 10 in short tests.
func repetitions(short bool) int {
	if n, err := strconv.Atoi(os.Getenv("HEADRACE_REPETITIONS")); err == nil {
		return n
	}
	if short {
		return 10
	}
	return 20
}

func TestKilledPackingLeavesTheWholeDatasetOrNothingThatOpens(t *testing.T) {
	src := testFolder(t, 150)
	parent := t.TempDir()
	dst := filepath.Join(parent, "data.hr")
	whole, s := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
	want := digest(t, whole)
	begin := time.Now() // measures an undisturbed run, so that the kills are spread over all of it and a little more
	packed(t, PackConfig{Source: src, ShardBytes: minShardBytes})
	span := time.Since(begin) * 3 / 2
	killed, completed := 0, 0
	for range repetitions(testing.Short()) {
		require.NoError(t, os.RemoveAll(dst))
		if runAndKill(t, src, dst, time.Duration(rand.Int64N(int64(span)))) {
			completed++
		} else {
			killed++
		}
		if d, err := catalog.Open(dst, catalog.Options{}); err == nil {
			require.Equal(t, s.Fingerprint, d.Fingerprint())
			d.Release()
			require.Equal(t, want, digest(t, dst))
		} else {
			require.NoFileExists(t, dst)
		}
	}
	t.Logf("%d killed, %d had finished", killed, completed)
	require.NotZero(t, killed)
	// The next run removes what the killed ones left.
	packed(t, PackConfig{Source: src, Destination: dst, Overwrite: true})
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestKilledReplacementLeavesTheOldDatasetOrTheNewOne(t *testing.T) {
	old, src := testFolder(t, 3), testFolder(t, 60)
	parent := t.TempDir()
	dst := filepath.Join(parent, "data.hr")
	_, before := packed(t, PackConfig{Source: old, Destination: dst})
	_, after := packed(t, PackConfig{Source: src})
	seen := map[string]int{}
	for range repetitions(testing.Short()) {
		runAndKill(t, src, dst, time.Duration(rand.Int64N(int64(100*time.Millisecond))))
		d, err := catalog.Open(dst, catalog.Options{})
		require.NoError(t, err)
		require.Contains(t, []string{before.Fingerprint, after.Fingerprint}, d.Fingerprint())
		seen[d.Fingerprint()]++
		if d.Fingerprint() == after.Fingerprint {
			r, err := Verify(context.Background(), VerifyConfig{Source: dst}, nil)
			require.NoError(t, err)
			require.True(t, r.OK, "%+v", r.Faults)
			packed(t, PackConfig{Source: old, Destination: dst, Overwrite: true})
		}
		d.Release()
	}
	t.Log(seen)
}

func TestKilledIndexingLeavesTheOldIndexOrTheNewOne(t *testing.T) {
	src := testFolder(t, 60)
	first, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	put(t, src, "class 0/one-more.jpg", testJPEG(7))
	known := []int64{first.Rows, first.Rows + 1}
	seen := map[int64]int{}
	for i := range repetitions(testing.Short()) {
		runAndKill(t, src, "", time.Duration(rand.Int64N(int64(60*time.Millisecond))))
		d, err := catalog.Open(src, catalog.Options{})
		require.NoError(t, err, "kill %d", i)
		require.Contains(t, known, d.Len())
		seen[d.Len()]++
		for row := range d.Len() {
			_, err := d.Sample(row)
			require.NoError(t, err)
		}
		d.Release()
		if d.Len() == known[1] { // go back to the old index, so that each kill can leave either one
			require.NoError(t, os.Remove(filepath.Join(src, "class 0/one-more.jpg")))
			_, err := Index(context.Background(), IndexConfig{Source: src}, nil)
			require.NoError(t, err)
			put(t, src, "class 0/one-more.jpg", testJPEG(7))
		}
	}
	t.Log(seen)
	hidden, _ := filepath.Glob(filepath.Join(src, ".headrace*"))
	_, err = Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	t.Logf("%d temporary files were left by the last kill", len(hidden))
	hidden, _ = filepath.Glob(filepath.Join(src, ".headrace*"))
	require.Empty(t, hidden)
	found, _ := filepath.Glob(filepath.Join(src, "headrace*"))
	require.Len(t, found, 3)
}
