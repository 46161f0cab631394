package pipeline

import (
	"slices"
	"sort"

	"github.com/headrace/headrace/native"
)

// Recipe has the plan of every view of a sample. It may change at an epoch or a step, so that images grow while a model
// learns. It depends on nothing else, so it is the same on every rank and after a resume.
type Recipe struct {
	BySteps bool    // phases begin at steps, counted from the first epoch on, and not at epochs
	Phases  []Phase // at least one, in order; the first begins at 0
}

// Phase is a recipe that begins at an epoch or a step.
type Phase struct {
	From  int64          // epoch or step
	Views []*native.Plan // at least one; a plan may occur more than once
}

// OneView is the recipe for one image of each sample, always by this plan.
func OneView(plan *native.Plan) Recipe {
	return Recipe{Phases: []Phase{{Views: []*native.Plan{plan}}}}
}

// Close frees the plans.
func (r Recipe) Close() {
	for _, phase := range r.Phases {
		for _, plan := range phase.Views {
			plan.Close() // closing a plan twice is harmless
		}
	}
}

// at returns the number of a batch's phase; steps is the number of steps in an epoch.
func (r Recipe) at(epoch, step, steps int64) int {
	now := epoch
	if r.BySteps {
		now = stepsUntil(epoch, step, steps)
	}
	later := sort.Search(len(r.Phases), func(i int) bool { return r.Phases[i].From > now })
	return max(later-1, 0)
}

// stepsUntil counts the steps before one. If there are more than the beginning of any phase, it returns that maximum.
func stepsUntil(epoch, step, steps int64) int64 {
	if steps > 0 && epoch > (maxEpoch-step)/steps {
		return maxEpoch
	}
	return epoch*steps + step
}

// usesProgram says whether an op calls a function of the program, or reads its memory.
func (r Recipe) usesProgram() bool {
	return slices.ContainsFunc(r.Phases, func(p Phase) bool { return slices.ContainsFunc(p.Views, (*native.Plan).UsesProgram) })
}
