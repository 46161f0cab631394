package pipeline

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
)

func TestReadsOf20MillisecondsStillGiveAThousandImagesASecond(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("a matter of speed")
	}
	d := dataset(t, 1000, nil)
	for _, backend := range []mmap.Backend{mmap.Mapped, mmap.Pread} {
		l := open(t, d, settings{order.Config{BatchSize: 50, Shuffle: true},
			Config{Threads: 2, Store: mmap.Options{Backend: backend, ReadDelay: 20 * time.Millisecond}}})
		began := time.Now()
		for samples := int64(0); samples < 3000; {
			b, err := next(t, l)
			if errors.Is(err, ErrEnd) {
				continue
			}
			require.NoError(t, err)
			samples += b.Length
			require.NoError(t, b.Release())
		}
		rate := 3000 / time.Since(began).Seconds()
		t.Logf("%v: %.0f images/s", backend, rate)
		require.Greater(t, rate, 1000.0)
		l.Close()
	}
}

func TestSteadyStateAllocatesNothingForAnImage(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	l := open(t, dataset(t, 512, nil), settings{order.Config{BatchSize: 128, Shuffle: true}, Config{Threads: 2}})
	consume(t, l, 2)
	before := l.Stats().Images
	allocations := testing.AllocsPerRun(1, func() { consumeQuietly(t, l, 4) })
	images := float64(l.Stats().Images-before) / 2 // AllocsPerRun runs once more to warm up
	t.Logf("%.0f allocations for %.0f images", allocations, images)
	require.Less(t, allocations/images, 0.2)
}

func consumeQuietly(t testing.TB, l *Loader, epochs int) {
	for epochs > 0 {
		b, err := l.Next(time.Minute)
		if errors.Is(err, ErrEnd) {
			epochs--
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALoaderThatWaitsForReadsUsesNoCPUTime(t *testing.T) {
	if raceDetector {
		t.Skip("a matter of speed")
	}
	l := open(t, dataset(t, 64, nil), settings{order.Config{BatchSize: 64}, Config{Threads: 4, Store: mmap.Options{ReadDelay: 400 * time.Millisecond}}})
	time.Sleep(50 * time.Millisecond)
	before := cpuTime(t)
	_, err := l.Next(300 * time.Millisecond)
	require.ErrorIs(t, err, ErrTimeout)
	require.Less(t, cpuTime(t)-before, 15*time.Millisecond, "of CPU time in 300 ms")
}

func TestMemoryIsFlatOverEpochs(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's memory grows")
	}
	l := open(t, dataset(t, 256, nil), settings{order.Config{BatchSize: 64, Shuffle: true}, Config{Threads: 2, Store: mmap.Options{Backend: mmap.Pread}}})
	consumeQuietly(t, l, 2)
	before, heap := residentBytes(t), heapBytes()
	consumeQuietly(t, l, 50)
	after := residentBytes(t)
	t.Logf("resident: %d kB, then %d kB; heap: %d kB, then %d kB", before>>10, after>>10, heap>>10, heapBytes()>>10)
	require.Less(t, after-before, int64(4<<20))
	require.Less(t, heapBytes()-heap, int64(1<<18))
}

// residentBytes is RssAnon and RssShmem: pages of mapped files come and go with the page cache.
func residentBytes(t *testing.T) (sum int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if name, value, _ := strings.Cut(line, ":"); name == "RssAnon" || name == "RssShmem" {
			_, err := fmt.Sscan(value, &kilobytes)
			require.NoError(t, err)
			sum += kilobytes << 10
		}
	}
	require.Positive(t, sum)
	return sum
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
