package decoder

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

func TestEveryTaskHasThePixelsOfItsImageAndKeyForAnyNumberOfThreads(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		d := open(t, threads, 0)
		var works []*Work
		var rooms [][]byte
		for number := range 6 {
			room := memory(t, 20*size)
			var list []Task
			for i := range 20 {
				encoded := photographs()[i%5]
				key := native.Key{Seed: 1, Epoch: uint64(number), Sample: uint64(i)}
				into := room[i*size : (i+1)*size]
				if i%2 == 0 {
					list = append(list, inMemory(stored(t, encoded), key, into))
				} else {
					list = append(list, inFile(writeFile(t, encoded), key, into))
				}
			}
			works, rooms = append(works, submit(t, d, list...)), append(rooms, room)
		}
		for number, w := range works {
			for i, result := range finished(t, w) {
				require.Equal(t, Result{side, side, size, nil}, result)
				want := alone(t, photographs()[i%5], native.Key{Seed: 1, Epoch: uint64(number), Sample: uint64(i)})
				require.True(t, bytes.Equal(want, rooms[number][i*size:(i+1)*size]), "%d of %d", i, number)
			}
		}
	}
}

func TestTasksOfOneImageAreReadOnceAndEachHasItsOwnResult(t *testing.T) {
	d := open(t, 2, 0)
	path := writeFile(t, photographs()[0])
	room := memory(t, 100*size)
	var list []Task
	for i := range 100 {
		view := uint32(i)
		if i >= 70 {
			view = uint32(200 - i) // counts down, so each view is made alone
		}
		task := inFile(path, native.Key{Sample: 9, View: view}, room[i*size:(i+1)*size])
		task.SameImage = i > 0
		if i > 0 {
			task.Path = nil
		}
		list = append(list, task)
	}
	list[40].Config = []byte("no such text")
	list[50].Capacity = 7
	list[60].Capacity = 0
	results := finished(t, submit(t, d, list...))
	assert.ErrorContains(t, results[40].Err, "no such text")
	assert.ErrorContains(t, results[50].Err, fmt.Sprintf("%s: capacity is 7 (expected at least %d", path, size))
	assert.Equal(t, Result{side, side, size, nil}, results[60])
	for i := range list {
		made := room[i*size : (i+1)*size]
		if i == 40 || i == 50 || i == 60 {
			assert.Equal(t, make([]byte, size), made)
			continue
		}
		require.NoError(t, results[i].Err)
		require.True(t, bytes.Equal(alone(t, photographs()[0], list[i].Key), made), "%d", i)
	}
}

func TestEveryTaskOfADamagedImageHasItsError(t *testing.T) {
	d := open(t, 2, 0)
	cut := photographs()[2][:300]
	room := memory(t, 3*size)
	list := []Task{inMemory(stored(t, cut), native.Key{}, room[:size]), {SameImage: true, Config: []byte("crop"), Key: native.Key{View: 1},
		To: pointer(room[size:]), Capacity: size}, inMemory(stored(t, photographs()[0]), native.Key{}, room[2*size:])}
	list[0].Path = []byte("a member of an archive")
	results := finished(t, submit(t, d, list...))
	for _, result := range results[:2] {
		assert.Equal(t, fault.KindTruncated, fault.KindOf(result.Err))
		assert.ErrorContains(t, result.Err, "a member of an archive: at byte ")
		assert.Equal(t, "a member of an archive", fault.PlaceOf(result.Err).File)
	}
	assert.NoError(t, results[2].Err)
}

func TestAPanicIsTheErrorOfItsTaskAndTheThreadGoesOn(t *testing.T) {
	d := open(t, 1, 0)
	room := memory(t, size)
	list := make([]Task, 6)
	for i := range list {
		list[i] = inMemory(stored(t, photographs()[0]), native.Key{}, room)
		if i%2 == 0 {
			list[i].Config = []byte("odd")
		}
	}
	for i, result := range finished(t, submit(t, d, list...)) {
		if i%2 == 0 {
			assert.Equal(t, fault.KindInternal, fault.KindOf(result.Err))
		} else {
			assert.NoError(t, result.Err)
		}
	}
}

func TestAWorkClosedAtAnyMomentEndsAndNoLongerUsesItsMemory(t *testing.T) {
	d := open(t, 3, 0)
	paths := []string{writeFile(t, photographs()[0]), writeFile(t, photographs()[3])}
	for round := range 80 {
		from, room := stored(t, photographs()[4]), memory(t, 40*size)
		var list []Task
		for i := range 40 {
			task := inFile(paths[i%2], native.Key{Sample: uint64(i)}, room[i*size:(i+1)*size])
			if i%3 == 0 {
				task = inMemory(from, native.Key{Sample: uint64(i)}, room[i*size:(i+1)*size])
			}
			list = append(list, task)
		}
		w, other := submit(t, d, list...), submit(t, d, list[0])
		time.Sleep(time.Duration(round) * 20 * time.Microsecond)
		w.Close()
		w.Close()
		// If another thread still used this memory, -race or a wrong byte would show it.
		clear(room)
		clear(from)
		copy(from, photographs()[4])
		_, err := w.Wait(0)
		if err != nil {
			requireClosed(t, w)
		}
		finished(t, other)
		w.Close()
	}
}

func TestClosingDoesNotWaitForAReadThatHangs(t *testing.T) {
	d := open(t, 2, 1200*time.Millisecond)
	room := memory(t, size)
	path := writeFile(t, photographs()[0])
	w := submit(t, d, inFile(path, native.Key{}, room), inFile(path, native.Key{}, room), inFile(path, native.Key{}, room))
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	w.Close()
	require.Less(t, time.Since(began), time.Second)
	requireClosed(t, w)
	began = time.Now()
	d.Close()
	require.Less(t, time.Since(began), time.Second)
	<-d.gone
	require.Equal(t, make([]byte, size), room)
}

func TestClosingADecoderEndsItsWorksAndTheWaitsForThem(t *testing.T) {
	d := open(t, 1, 200*time.Millisecond)
	room, path := memory(t, size), writeFile(t, photographs()[0])
	done := submit(t, d, inFile(path, native.Key{}, room))
	finished(t, done)
	works := []*Work{submit(t, d, inFile(path, native.Key{}, room)), submit(t, d, inFile(path, native.Key{}, room))}
	var group sync.WaitGroup
	for _, w := range works {
		group.Go(func() { requireClosed(t, w) })
	}
	time.Sleep(10 * time.Millisecond)
	d.Close()
	group.Wait()
	finished(t, done) // results that were there stay
	_, err := d.Submit(nil)
	require.ErrorIs(t, err, ErrClosed)
}

func TestTheWorksAndTasksOfADecoderAreBounded(t *testing.T) {
	d := open(t, 1, 0)
	release := make(chan struct{})
	d.config.Compile = func(text string, epoch uint64) (*Recipe, error) {
		<-release
		return compile(text, epoch)
	}
	task := inMemory(stored(t, photographs()[0]), native.Key{}, memory(t, size))
	first := submit(t, d, task)
	many := make([]Task, MaxTasks)
	for i := range many {
		many[i] = task
	}
	full := func(list []Task) {
		_, err := d.Submit(list)
		require.ErrorIs(t, err, ErrFull)
		require.Equal(t, fault.KindLimit, fault.KindOf(err))
	}
	full(many)
	submit(t, d, many[1:]...).Close()
	full(append(many, task))
	for range maxWorks - 1 {
		submit(t, d, task)
	}
	full(many[:1])
	first.Close()
	last := submit(t, d, task)
	full(many[:1])
	close(release)
	require.NoError(t, finished(t, last)[0].Err)
}

func TestAnImpossibleTaskIsRefusedWithItsNumberInTheList(t *testing.T) {
	d := open(t, 1, 0)
	room := memory(t, size)
	good := inMemory(stored(t, photographs()[0]), native.Key{}, room)
	for want, list := range map[string][]Task{
		"task 0: same_image is 1": {{SameImage: true}},
		"task 1: it has no image": {good, {Descriptor: -1}},
	} {
		_, err := d.Submit(list)
		assert.Equal(t, fault.KindArgument, fault.KindOf(err))
		assert.ErrorContains(t, err, want)
	}
	_, err := submit(t, d).Wait(0)
	assert.NoError(t, err)
	_, err = submit(t, d, good).Result(1)
	assert.ErrorContains(t, err, "index is 1 (expected less than 1")
	for _, threads := range []int{-1, 1025} {
		_, err := Open(Config{Threads: threads, Compile: compile})
		assert.ErrorContains(t, err, "num_threads is ")
	}
}

func TestRecipesAreKeptByTextAndEpochUpToABound(t *testing.T) {
	compiled := map[recipeKey]int{}
	var mu sync.Mutex
	d := open(t, 2, 0)
	d.config.Compile = func(text string, epoch uint64) (*Recipe, error) {
		mu.Lock()
		compiled[recipeKey{text, epoch}]++
		mu.Unlock()
		return compile(text, epoch)
	}
	from, room := stored(t, photographs()[0]), memory(t, size)
	var list []Task
	for i := range 3 * mostRecipes {
		for _, text := range []string{"crop", fmt.Sprintf("crop:%d", i)} {
			task := inMemory(from, native.Key{Epoch: uint64(i / 300)}, room)
			task.Config = []byte(text)
			list = append(list, task)
		}
	}
	w := submit(t, d, list...)
	for _, result := range finished(t, w) {
		require.NoError(t, result.Err)
	}
	require.Len(t, compiled, 3*mostRecipes+3, "one text is compiled once in each epoch")
	for _, times := range compiled {
		require.Equal(t, 1, times)
	}
	require.Len(t, d.recipes.known, mostRecipes)
	require.Equal(t, mostRecipes, d.recipes.recent.Len())
	for i := range w.tasks {
		recipe := w.tasks[i].recipe
		if d.recipes.known[recipe.key] == recipe {
			require.EqualValues(t, 1, recipe.holders.Load())
		} else {
			require.Zero(t, recipe.holders.Load(), "nobody holds it, and its plan is closed")
		}
	}
}

func TestAFileOverTheRecordLimitHasTheErrorOfAnImageInMemory(t *testing.T) {
	path := writeFile(t, photographs()[0])
	require.NoError(t, os.Truncate(path, int64(native.DefaultLimits().MaxRecordBytes)+1))
	d := open(t, 1, 0)
	result := finished(t, submit(t, d, inFile(path, native.Key{}, memory(t, size))))[0]
	assert.Equal(t, fault.KindLimit, fault.KindOf(result.Err))
	assert.ErrorContains(t, result.Err, fmt.Sprintf("%s: unsupported: the record has %d bytes, max_record_bytes is %d", path,
		native.DefaultLimits().MaxRecordBytes+1, native.DefaultLimits().MaxRecordBytes))
}
