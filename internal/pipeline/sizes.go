package pipeline

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// errSizes means that the images of a plan have no common size. explainSizes explains it to a person.
var errSizes = errors.New("the transforms do not give all images one size")

// These are how many samples are searched for two of different size. For a listed folder there are fewer, because each
// is a file to be opened.
const (
	sizesOfIndex  = 1024
	sizesOfFolder = 32
)

// oneSize says what gives all images one size; TestEveryTransformInTheHintGivesAllImagesOneSize tries all of it.
const oneSize = "Resize((height, width)), CenterCrop, RandomCrop or RandomResizedCrop gives all images one size"

// explainSizes finds the first sample, and the first one with another size, for a user who is not aware of different
// sizes. It runs only before an error, so it may read files.
func (c *Config) explainSizes() error {
	e := &catalog.Error{Kind: fault.KindArgument, Record: fault.None, Offset: fault.None}
	s, err := c.newSizer()
	if err != nil {
		return err
	}
	defer s.close()
	// Two samples say more than one: the second shows at once how the first differs.
	var first sized
	for i := range min(c.Dataset.Len(), sizesOfIndex) {
		found, ok := s.size(i)
		if !ok {
			continue
		}
		if first.key == "" {
			first, e.Record, e.Key = found, i, found.key
			continue
		}
		if found.Width != first.Width || found.Height != first.Height {
			e.Text = fmt.Sprintf("the image comes out of the transforms as %s pixels (height x width), record %d (%s) as %s, and a batch needs one size; %s",
				first, i, found.key, found, oneSize)
			return e
		}
	}
	// All are alike, or none can be read: another sample may still have any size.
	e.Text = "no transform sets the size of the images, and a batch needs one size; " + oneSize
	return e
}

// sized is the resulting size of one sample.
type sized struct {
	native.Size
	key string
}

func (s sized) String() string { return fmt.Sprintf("%dx%d", s.Height, s.Width) }

// sizer finds the sizes of samples from the index, or from the files' headers if there is none.
type sizer struct {
	config  *Config
	plan    *native.Plan
	store   *store.Store
	context *native.Context
	buffer  mmap.Buffer
	read    int
}

// newSizer has its own store and decoder, because the Loader's are not made yet and will not be.
func (c *Config) newSizer() (*sizer, error) {
	files, err := store.Open(c.Dataset, store.Options{Options: c.Store, MaxRecordBytes: int64(c.Limits.MaxRecordBytes), Blocks: c.Blocks})
	if err != nil {
		return nil, err
	}
	context, err := native.NewContext(c.Limits)
	if err != nil {
		files.Close()
		return nil, err
	}
	return &sizer{config: c, plan: c.unsized(), store: files, context: context}, nil
}

// unsized returns the first plan whose images have no common size.
func (c *Config) unsized() *native.Plan {
	for _, phase := range c.Recipe.Phases {
		for _, plan := range phase.Views {
			if _, fixed := plan.FixedSize(); !fixed {
				return plan
			}
		}
	}
	return c.Recipe.Phases[0].Views[0]
}

func (s *sizer) close() {
	s.buffer.Free()
	s.context.Close()
	s.store.Close()
}

// size returns false for a faulty sample, which gives its own error later.
func (s *sizer) size(i int64) (sized, bool) {
	sample, err := s.config.Dataset.Sample(i)
	if err != nil {
		return sized{}, false
	}
	width, height := sample.Width, sample.Height
	// Without an index nobody has read the files' sizes.
	if sample.Verdict == catalog.Unknown {
		if s.read++; s.read > sizesOfFolder {
			return sized{}, false
		}
		view, err := s.store.Read(sample, &s.buffer)
		if err != nil {
			return sized{}, false
		}
		facts, _, err := s.context.Inspect(view.Pointer, view.Length, false)
		if s.store.After(sample, &s.buffer, err) != nil {
			return sized{}, false
		}
		width, height = facts.Width, facts.Height
	}
	size, err := s.plan.Size(width, height)
	if err != nil {
		return sized{}, false
	}
	key, err := s.config.Dataset.Key(i)
	return sized{size, key}, err == nil
}
