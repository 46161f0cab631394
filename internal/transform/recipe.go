package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// View is a list of transforms, and how many images of each sample it makes, each with its own draws.
type View struct {
	Transform []json.RawMessage `json:"transform"`
	Repeat    *int              `json:"repeat"` // absent: 1
}

// ParseRecipe checks count before anything is made of it.
func (v View) count() int {
	if v.Repeat == nil {
		return 1
	}
	return *v.Repeat
}

// Recipe is what is made of each sample. A size that follows a schedule divides it into phases.
type Recipe struct {
	BySteps bool // phases begin at steps, counted from the first epoch on, and not at epochs
	Phases  []Phase
}

// Phase is a recipe from a place on, with a plan for each image; repeated views are repeated. From is an epoch or a
// step, as BySteps of the recipe says.
type Phase struct {
	From  int64
	Views []*native.Plan
}

// Close frees the plans. A repeated view has the same plan several times.
func (r Recipe) Close() {
	for _, phase := range r.Phases {
		for _, plan := range phase.Views {
			plan.Close() // closing twice is harmless
		}
	}
}

// ParseRecipe checks and compiles views. If resolution is not nil, its sizes replace the size with which each view
// ends. Plans are made for all phases at once, so that an impossible size is found when a loader opens and not at epoch
// 30.
func ParseRecipe(views []View, resolution *Schedule, options Options) (Recipe, error) {
	images := 0
	for i, view := range views {
		if view.count() < 1 || view.count() > native.MaxViews {
			return Recipe{}, errors.New(fault.Argument(fmt.Sprintf("repeat of view %d", i), view.count(), fmt.Sprintf("1 to %d", native.MaxViews)))
		}
		images += view.count()
	}
	if images < 1 || images > native.MaxViews {
		return Recipe{}, errors.New(fault.Argument("views", images, fmt.Sprintf("1 to %d images of a sample, repeated ones counted", native.MaxViews)))
	}
	c := compiler{views: views, resolution: resolution, options: options}
	if err := c.collect(); err != nil {
		return Recipe{}, err
	}
	// Each phase has its own plans. Their ops have the same numbers as in every other phase, so a schedule changes no
	// draw.
	r := Recipe{BySteps: c.bySteps}
	for _, from := range c.begins {
		phase, err := c.phase(from)
		r.Phases = append(r.Phases, phase)
		if err != nil {
			r.Close()
			return Recipe{}, err
		}
	}
	return r, nil
}

// ParseAt compiles a list of transforms as it is at an epoch. It is for a decoder of single images, which has one list
// and no views.
func ParseAt(list []json.RawMessage, epoch int64, options Options) (*native.Plan, error) {
	c := compiler{views: []View{{Transform: list}}, options: options}
	if err := c.collect(); err != nil {
		return nil, err
	}
	if c.bySteps {
		return nil, errors.New("size follows a schedule by steps (expected one by epochs, because a single image belongs to no step)")
	}
	return c.plan(list, epoch)
}

// ExplainViews does what Explain does if there are several views: the sentence says which view it is. Ops are numbered
// from 1 in each view, so the list is that of the view which the error names. A repeated view is in the list once, and
// counts as often as it is made.
func ExplainViews(views []View, err error) error {
	var plan *native.Error
	if !errors.As(err, &plan) {
		return err
	}
	number := plan.View
	for i, view := range views {
		if number >= view.count() {
			number -= view.count()
			continue
		}
		found := Explain(view.Transform, err)
		if named := (*Error)(nil); errors.As(found, &named) {
			return inView(views, i, found)
		}
		return found
	}
	return err
}

// inView says in which of several views something is wrong.
func inView(views []View, number int, err error) error {
	if len(views) == 1 || err == nil {
		return err
	}
	return fmt.Errorf("view %d, %w", number, err)
}

// compiler makes the phases of one recipe.
type compiler struct {
	views      []View
	resolution *Schedule
	options    Options
	bySteps    bool
	begins     []int64 // where the phases begin, in order; 0 is the first
}

// collect finds where any schedule changes. Every such place begins a phase, in which all sizes stay the same.
func (c *compiler) collect() error {
	c.begins = []int64{0}
	// These are the units of all schedules. Numbers of epochs and of steps cannot be compared.
	units := map[string]bool{}
	note := func(s *Schedule) error {
		if err := s.check(); err != nil {
			return err
		}
		units[s.By] = true
		for _, change := range s.At {
			c.begins = append(c.begins, change.From)
		}
		return nil
	}
	// A resolution is a schedule, too, although it is in no list.
	if c.resolution != nil {
		if err := note(c.resolution); err != nil {
			return fmt.Errorf("resolution %w", err)
		}
	}
	for i, view := range c.views {
		for at, raw := range view.Transform {
			_, err := eachSize(raw, 0, func(size json.RawMessage) (json.RawMessage, error) {
				if s := scheduleOf(size); s != nil {
					return size, note(s)
				}
				return size, nil
			})
			if err != nil {
				return inView(c.views, i, &Error{Index: at, Transform: nameOf(raw), Argument: "size", Text: err.Error()})
			}
		}
	}
	if len(units) > 1 {
		return errors.New("size follows a schedule by epochs and one by steps (expected one or the other in a recipe)")
	}
	c.bySteps = units["step"]
	slices.Sort(c.begins)
	// Two schedules that change together make one phase.
	if c.begins = slices.Compact(c.begins); len(c.begins) > maxPhases {
		return fmt.Errorf("size changes %d times in all schedules together (expected at most %d)", len(c.begins), maxPhases)
	}
	return nil
}

// phase compiles all views as they are from a place on. If one fails, the phase has the plans that were made before,
// which the caller closes.
func (c *compiler) phase(from int64) (Phase, error) {
	phase := Phase{From: from}
	for i, view := range c.views {
		plan, err := c.plan(view.Transform, from)
		if err != nil {
			return phase, inView(c.views, i, err)
		}
		// All repetitions of a view share one plan: their draws differ by the number of the view.
		for range view.count() {
			phase.Views = append(phase.Views, plan)
		}
	}
	return phase, checkMixed(phase.Views)
}

// checkMixed: a sample is mixed with one other sample, and its label with that one's label.
func checkMixed(views []*native.Plan) error {
	for _, plan := range views {
		if plan.Mix() != nil && len(views) > 1 {
			return errors.New(fault.Argument("views", len(views), "one image of a sample, where MixUp, CutMix or Mixup mixes it with another's"))
		}
	}
	return nil
}

// sizesAt returns the list with a size in place of each schedule. It has no error of its own, because its callers have
// parsed the list, or are about to.
func sizesAt(list []json.RawMessage, from int64) []json.RawMessage {
	resolved := make([]json.RawMessage, len(list))
	for i, raw := range list {
		// Parse reports whatever is not a transform.
		resolved[i], _ = eachSize(raw, 0, func(size json.RawMessage) (json.RawMessage, error) {
			if s := scheduleOf(size); s != nil {
				return s.at(from), nil
			}
			return size, nil
		})
	}
	return resolved
}

// plan compiles a list of transforms as it is from a place on.
func (c *compiler) plan(list []json.RawMessage, from int64) (*native.Plan, error) {
	resolved := sizesAt(list, from)
	// Without a resolution the list is compiled as it is, with the sizes of its own schedules.
	if c.resolution == nil {
		return Parse(resolved, c.options)
	}
	size := c.resolution.at(from)
	if !replaceLast(resolved, size, 0) {
		return nil, errors.New("resolution: there is no size that it could replace (expected a transform with a size, as RandomResizedCrop or CenterCrop)")
	}
	plan, err := Parse(resolved, c.options)
	if err != nil {
		return nil, err
	}
	if err := checkResolution(plan, size); err != nil {
		plan.Close()
		return nil, err
	}
	return plan, nil
}

// checkResolution: a batch has the shape of its resolution, so nothing may change the size afterwards.
func checkResolution(plan *native.Plan, size json.RawMessage) error {
	made, fixed := plan.FixedSize()
	if !fixed {
		return nil // reported by the code that needs one size, with images as examples
	}
	// This has the form that a transform reads: one number or two.
	numbers, err := numeric["size"].read(size)
	if err != nil {
		return err // not reached: Parse has read the same
	}
	wanted := value{numbers: numbers}
	if float64(made.Height) == wanted.each(0) && float64(made.Width) == wanted.each(1) {
		return nil
	}
	return fmt.Errorf("resolution is %s and images come out as %dx%d, height x width (expected no transform behind that changes their size)",
		short(size), made.Height, made.Width)
}
