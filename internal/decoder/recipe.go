package decoder

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// Recipe is what the text of a configuration says.
type Recipe struct {
	Plan    *native.Plan // the Decoder closes it
	Limits  native.Limits
	Explain func(error) error // puts the program's name of a transform into an error of the plan
}

// Compile makes a Recipe of a text, for an epoch. It may be called from several goroutines.
type Compile func(text string, epoch uint64) (*Recipe, error)

// mostRecipes that no task uses are kept: a plan takes some kilobytes. Programs have one text, or a few;
// or a new one for every task, which nobody asks for again.
const mostRecipes = 256

// recipes are what was compiled, by text and epoch.
type recipes struct {
	compile Compile
	mu      sync.Mutex
	known   map[recipeKey]*recipe
	recent  list.List // of those that are known, the last one used in front
}

type recipeKey struct {
	text  string
	epoch uint64
}

// recipe is compiled by the first thread that needs it, and closed when neither the cache nor a task
// holds it.
type recipe struct {
	key     recipeKey
	place   *list.Element
	holders atomic.Int64
	once    sync.Once
	made    *Recipe
	err     error
}

// hold finds or makes the recipe of a text, with the lock held, for a task to hold.
func (r *recipes) hold(text []byte, epoch uint64) *recipe {
	// This conversion makes no copy; only a text that is not known is copied.
	if found, ok := r.known[recipeKey{string(text), epoch}]; ok {
		found.holders.Add(1)
		r.recent.MoveToFront(found.place)
		return found
	}
	made := &recipe{key: recipeKey{string(text), epoch}}
	made.holders.Store(2) // the cache and the task
	made.place = r.recent.PushFront(made)
	r.known[made.key] = made
	if r.recent.Len() > mostRecipes {
		r.forget(r.recent.Back().Value.(*recipe))
	}
	return made
}

// forget takes a recipe out of the cache, with the lock held.
func (r *recipes) forget(it *recipe) {
	r.recent.Remove(it.place)
	delete(r.known, it.key)
	it.release()
}

// clear forgets all.
func (r *recipes) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.recent.Len() > 0 {
		r.forget(r.recent.Back().Value.(*recipe))
	}
}

// release lets go of it for one holder.
func (r *recipe) release() {
	if r.holders.Add(-1) == 0 && r.made != nil {
		r.made.Plan.Close()
	}
}

var errCompile = fault.New(fault.KindInternal, "the configuration of the task was not compiled")

// get compiles at the first call.
func (r *recipe) get(compile Compile) (*Recipe, error) {
	r.once.Do(func() {
		r.err = errCompile // for those who come after a panic
		r.made, r.err = compile(r.key.text, r.key.epoch)
	})
	return r.made, r.err
}
