package decoder

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/trace"
	"github.com/headrace/headrace/native"
)

func TestStatsCountTheImagesThatWereMadeAndTheirBytes(t *testing.T) {
	d := open(t, 2, 0)
	assert.Zero(t, d.Stats().Images)
	path, room := writeFile(t, photographs()[1]), memory(t, 4*size)
	list := []Task{
		inFile(path, native.Key{Sample: 1}, room[:size]),
		inMemory(stored(t, photographs()[2]), native.Key{Sample: 2}, room[size:2*size]),
		inMemory(stored(t, []byte("no image")), native.Key{Sample: 3}, room[2*size:3*size]),
		{SameImage: true, Descriptor: -1, Config: []byte("crop"), Key: native.Key{Sample: 4}, To: pointer(room[3*size:]), Capacity: size},
	}
	w := submit(t, d, list...)
	finished(t, w)
	s := d.Stats()
	assert.EqualValues(t, 2, s.Images)
	assert.EqualValues(t, len(photographs()[1])+len(photographs()[2])+len("no image"), s.BytesRead)
	assert.Positive(t, s.Reading)
	assert.Positive(t, s.Decoding)
	assert.Equal(t, [3]int{0, 0, 1}, [3]int{s.Works, s.Tasks, s.Finished})
	w.Close()
	w.Close()
	assert.Zero(t, d.Stats().Finished)
	// A thread that has just finished a task may take the next one without waiting.
	for deadline := time.Now().Add(10 * time.Second); d.Stats().Idle == 0 && time.Now().Before(deadline); {
		last := submit(t, d, inFile(path, native.Key{}, room[:size]))
		finished(t, last)
		last.Close()
		time.Sleep(time.Millisecond)
	}
	assert.Positive(t, d.Stats().Idle)
	s = d.Stats()
	assert.Equal(t, [3]int{}, [3]int{s.Works, s.Tasks, s.Finished})
}

func TestATraceHasEachImageOfEachWorkAndIsCompleteAfterClose(t *testing.T) {
	d := open(t, 2, 0)
	name, err := d.Trace(filepath.Join(t.TempDir(), "run.json"))
	require.NoError(t, err)
	assert.Equal(t, name, d.TracePath())
	path, room := writeFile(t, photographs()[0]), memory(t, 10*size)
	for range 3 {
		var list []Task
		for i := range 10 {
			list = append(list, inFile(path, native.Key{Sample: uint64(100 + i)}, room[i*size:(i+1)*size]))
		}
		list[7].Path = []byte("/nowhere/at/all.jpg")
		finished(t, submit(t, d, list...))
	}
	d.Span(7, trace.Event{Kind: trace.Wait, Step: 2, Took: time.Millisecond})
	d.Close()
	assert.Empty(t, d.TracePath())
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var events []struct {
		Name string
		Dur  float64
		Args struct {
			Batch, Row, Index, Bytes, Failed int64
		}
	}
	require.NoError(t, json.Unmarshal(text, &events))
	seen, parts := map[[2]int64]int{}, map[string]float64{}
	for _, e := range events {
		parts[e.Name] += e.Dur
		if e.Name != "sample" {
			continue
		}
		seen[[2]int64{e.Args.Batch, e.Args.Row}]++
		assert.Equal(t, 100+e.Args.Row, e.Args.Index)
		assert.Equal(t, e.Args.Row == 7, e.Args.Failed == 1)
		if e.Args.Row != 7 {
			assert.EqualValues(t, len(photographs()[0]), e.Args.Bytes)
		}
	}
	assert.Len(t, seen, 30)
	for place, count := range seen {
		assert.Equal(t, 1, count, "%v", place)
	}
	for _, name := range []string{"sample", "read", "decode", "wait"} {
		assert.Positive(t, parts[name], name)
	}
	_, err = d.Trace(name)
	assert.ErrorIs(t, err, ErrClosed)
}
