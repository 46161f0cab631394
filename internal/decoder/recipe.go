package decoder

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// Recipe is what the text of a configuration stands for.
type Recipe struct {
	Plan    *native.Plan // the Decoder closes it
	Limits  native.Limits
	Explain func(error) error // puts the program's name of a transform into an error of the plan
}

// Compile makes a Recipe from a text, for an epoch. It may be called from several goroutines.
type Compile func(text string, epoch uint64) (*Recipe, error)

// mostRecipes is how many recipes are kept that no task uses: a plan takes some kilobytes. A program uses one text or a
// few, or a new one for every task that is never used again.
const mostRecipes = 256

// recipes are the compiled texts, by text and epoch.
type recipes struct {
	compile Compile
	mu      sync.Mutex
	known   map[recipeKey]*recipe
	recent  list.List // the known ones, the last one used in front
}

type recipeKey struct {
	text  string
	epoch uint64
}

// recipe is compiled by the first thread that needs it. It is closed when neither the cache nor a task holds it.
type recipe struct {
	key     recipeKey
	place   *list.Element
	holders atomic.Int64
	once    sync.Once
	made    *Recipe
	err     error
}

// hold finds or makes the recipe of a text, for a task to hold. The lock is held.
func (r *recipes) hold(text []byte, epoch uint64) *recipe {
	// This conversion makes no copy; only an unknown text is copied.
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

// forget removes a recipe from the cache. The lock is held.
func (r *recipes) forget(it *recipe) {
	r.recent.Remove(it.place)
	delete(r.known, it.key)
	it.release()
}

// clear forgets all recipes.
func (r *recipes) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.recent.Len() > 0 {
		r.forget(r.recent.Back().Value.(*recipe))
	}
}

// release drops one holder's reference.
func (r *recipe) release() {
	if r.holders.Add(-1) == 0 && r.made != nil {
		r.made.Plan.Close()
	}
}

var errCompile = fault.New(fault.KindInternal, "the configuration of the task was not compiled")

// get compiles the text at its first call.
func (r *recipe) get(compile Compile) (*Recipe, error) {
	r.once.Do(func() {
		r.err = errCompile // for callers after a panic
		r.made, r.err = compile(r.key.text, r.key.epoch)
	})
	return r.made, r.err
}
