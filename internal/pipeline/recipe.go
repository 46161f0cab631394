package pipeline

import (
	"slices"
	"sort"

	"github.com/headrace/headrace/native"
)

// Recipe is the plan of every view of a sample. It may change at an epoch or at a step, so that
// images grow while a model learns; it depends on nothing else, and so is the same on every rank
// and after a resume.
type Recipe struct {
	BySteps bool    // phases begin at steps, counted from the first epoch on, not at epochs
	Phases  []Phase // at least one, in order; the first from 0
}

// Phase is a recipe from an epoch or a step on.
type Phase struct {
	From  int64          // epoch or step
	Views []*native.Plan // at least one; a plan may be there more than once
}

// OneView is the recipe of one image a sample, always by this plan.
func OneView(plan *native.Plan) Recipe {
	return Recipe{Phases: []Phase{{Views: []*native.Plan{plan}}}}
}

// Close frees the plans.
func (r Recipe) Close() {
	for _, phase := range r.Phases {
		for _, plan := range phase.Views {
			plan.Close() // again is harmless
		}
	}
}

// at is the number of the phase that a batch belongs to; steps is how many an epoch has.
func (r Recipe) at(epoch, step, steps int64) int {
	now := epoch
	if r.BySteps {
		now = stepsUntil(epoch, step, steps)
	}
	later := sort.Search(len(r.Phases), func(i int) bool { return r.Phases[i].From > now })
	return max(later-1, 0)
}

// stepsUntil counts the steps before one; where they are more than a phase could begin at, it
// answers with as many.
func stepsUntil(epoch, step, steps int64) int64 {
	if steps > 0 && epoch > (maxEpoch-step)/steps {
		return maxEpoch
	}
	return epoch*steps + step
}

// usesProgram says whether an op calls a function of the program's, or reads memory of it.
func (r Recipe) usesProgram() bool {
	return slices.ContainsFunc(r.Phases, func(p Phase) bool { return slices.ContainsFunc(p.Views, (*native.Plan).UsesProgram) })
}
