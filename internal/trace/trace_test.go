package trace

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// line is an event as the file has it.
type line struct {
	Phase string         `json:"ph"`
	Name  string         `json:"name"`
	Track int            `json:"tid"`
	At    float64        `json:"ts"`
	Took  float64        `json:"dur"`
	Args  map[string]any `json:"args"`
}

func lines(t *testing.T, path string) []line {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var found []line
	require.NoError(t, json.Unmarshal(text, &found), "%s", text)
	return found
}

func named(lines []line, name string) (found []line) {
	for _, l := range lines {
		if l.Name == name {
			found = append(found, l)
		}
	}
	return found
}

func nothing() Counts { return Counts{} }

func TestEventsOfManyThreadsAreInTheFileOnceAndComplete(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 4, func() Counts { return Counts{Ready: 1, Open: 2, Queued: 3, Bytes: 4} })
	require.NoError(t, err)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for row := range 500 {
				began := time.Now()
				trace.Worker(worker).Note(Event{Kind: Sample, Step: int64(worker), Row: int64(row), Begin: trace.At(began), Took: 10, Decode: 5, Ops: 3, Write: 9})
			}
		})
		group.Go(func() { trace.Span(worker, Event{Kind: Next, Begin: 1, Took: 1}) })
	}
	group.Wait()
	require.NoError(t, trace.Close())
	require.NoError(t, trace.Close(), "closing twice is harmless")
	found := lines(t, trace.Path())
	seen := map[string]int{}
	for _, l := range named(found, "sample") {
		seen[fmt.Sprint(l.Track, l.Args["batch"], l.Args["row"])]++
	}
	assert.Len(t, seen, 4*500)
	assert.Len(t, named(found, "decode"), 4*500)
	assert.Len(t, named(found, "next"), 4)
	for _, counter := range []string{"batches ready", "batches open", "records queued", "bytes read"} {
		assert.NotEmpty(t, named(found, counter))
	}
	// The parts take 5 + 3 + 9 ns of the sample's 10, as if C's clock ran faster. They end with the sample all the
	// same.
	assert.InDelta(t, 0.002, named(found, "write")[0].Took, 1e-9)
}

func TestATraceThatReachesItsBoundSaysSoAndIsCompleteJSON(t *testing.T) {
	const most = 32 << 10
	trace, err := open(filepath.Join(t.TempDir(), "run.json"), 1, nothing, most)
	require.NoError(t, err)
	for range 10 {
		for range 500 {
			trace.Worker(0).Note(Event{Kind: Sample, Took: 4, Decode: 1, Ops: 1, Write: 1})
		}
		trace.Worker(0).Note(Event{Kind: Run, Count: 300, Took: 300})
		time.Sleep(2 * drainEvery)
	}
	require.NoError(t, trace.Close())
	info, err := os.Stat(trace.Path())
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(most))
	found := lines(t, trace.Path())
	last := found[len(found)-1]
	assert.Equal(t, "i", last.Phase)
	assert.Contains(t, last.Name, "full at 32768 bytes: ")
}

func TestEventsBeyondAThreadsBufferAreCountedAndNoThreadWaits(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
	require.NoError(t, err)
	const noted = 200 * trackEvents // noted faster than the file is written
	for i := range noted {
		trace.Worker(0).Note(Event{Kind: Read, Row: int64(i)})
	}
	require.NoError(t, trace.Close())
	found := lines(t, trace.Path())
	written := len(named(found, "read"))
	last := found[len(found)-1]
	assert.Less(t, written, noted)
	assert.True(t, strings.HasPrefix(last.Name, fmt.Sprintf("%d events left out", noted-written)), last.Name)
}

func TestARunHasOneSpanForEachOfItsImages(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
	require.NoError(t, err)
	trace.Worker(0).Note(Event{Kind: Run, Row: 7, Count: 3, Begin: 1000, Took: 3000})
	require.NoError(t, trace.Close())
	found := lines(t, trace.Path())
	require.Len(t, named(found, "run"), 1)
	for i, l := range named(found, "decode") {
		assert.EqualValues(t, 7+i, l.Args["row"])
		assert.InDelta(t, 1.0+float64(i), l.At, 1e-9)
		assert.InDelta(t, 1.0, l.Took, 1e-9)
	}
}

func TestTheTraceOfAKilledProcessIsAJSONArrayWithoutItsEnd(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
	require.NoError(t, err)
	trace.Worker(0).Note(Event{Kind: Read})
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(trace.Path())
		return err == nil && strings.Contains(string(text), `"read"`)
	}, 10*time.Second, time.Millisecond)
	text, err := os.ReadFile(trace.Path()) // as a kill would leave it
	require.NoError(t, err)
	var found []line
	require.NoError(t, json.Unmarshal([]byte(string(text)+"]"), &found))
	require.NoError(t, trace.Close())
}

func TestATraceNeverOverwritesOneOfItsProcessOrOneBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	require.NoError(t, os.WriteFile(path, []byte("of an earlier program"), 0o600))
	var names []string
	for range 3 {
		trace, err := Open(path, 1, nothing)
		require.NoError(t, err)
		names = append(names, filepath.Base(trace.Path()))
		require.NoError(t, trace.Close())
	}
	assert.Equal(t, []string{"run.json", "run-2.json", "run-3.json"}, names)
	other := filepath.Join(t.TempDir(), "run.json")
	held, err := begin(other) // as another process would
	require.NoError(t, err)
	defer func() { _ = held.Close() }()
	trace, err := Open(other, 1, nothing)
	require.NoError(t, err)
	assert.Equal(t, "run-2.json", filepath.Base(trace.Path()))
	require.NoError(t, trace.Close())
}

func TestAFullDiskIsAnErrorWhenTheTraceIsClosed(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
	require.NoError(t, err)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	require.NoError(t, trace.Close())
	w := writer{file: full, most: MaxBytes}
	w.process()
	require.Error(t, w.close(0, 0))
}

func TestATraceOnADiskThatFillsUpSaysSoAndIsCompleteJSON(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) }()
	for _, room := range []uint64{page, 3 * page, 3*page + 100} {
		trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
		require.NoError(t, err)
		little := before
		little.Cur = room
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &little))
		for range 300 {
			trace.Worker(0).Note(Event{Kind: Sample, Took: 10, Decode: 5, Ops: 3, Write: 2})
		}
		err = trace.Close()
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
		require.ErrorIs(t, err, unix.EFBIG)
		found := lines(t, trace.Path())
		assert.Equal(t, "what follows is missing: file too large", found[len(found)-1].Name)
		assert.Equal(t, room > page, len(named(found, "sample")) > 0)
	}
}

func TestAPathThatCannotBeATraceFileIsRefused(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/null", filepath.Join(t.TempDir(), "missing", "run.json")} {
		_, err := Open(path, 1, nothing)
		require.Error(t, err, path)
	}
}

func TestNoEventLiesAcrossTwoPagesOfTheFile(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
	require.NoError(t, err)
	for i := range 300 {
		trace.Worker(0).Note(Event{Kind: Sample, Index: 1 << (i % 40), Took: 10, Decode: 5, Ops: 3, Write: 2})
	}
	require.NoError(t, trace.Close())
	text, err := os.ReadFile(trace.Path())
	require.NoError(t, err)
	require.Greater(t, len(text), 10*page)
	for end := page; end < len(text); end += page {
		var found []line
		require.NoError(t, json.Unmarshal([]byte(string(text[:end])+"]"), &found))
	}
	assert.Len(t, named(lines(t, trace.Path()), "sample"), 300)
}

func TestThreadsOfTheProgramBeyondTheBoundAreLeftOut(t *testing.T) {
	trace, err := Open(filepath.Join(t.TempDir(), "run.json"), 1, nothing)
	require.NoError(t, err)
	for thread := range maxThreads + 3 {
		trace.Span(thread, Event{Kind: Next})
	}
	require.NoError(t, trace.Close())
	found := lines(t, trace.Path())
	assert.Len(t, named(found, "next"), maxThreads)
	assert.True(t, strings.HasPrefix(found[len(found)-1].Name, "3 events left out"), found[len(found)-1].Name)
}
