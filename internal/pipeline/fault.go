package pipeline

import (
	"errors"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
	"github.com/headrace/headrace/pinned"
)

// SampleError is the error of a sample that gave no pixels. It has everything that a person needs to find the bytes:
// the ABI passes its members one by one, and the text says them in one sentence.
type SampleError struct {
	Code   fault.Kind
	File   string // the shard, or the image's own file
	Record int64  // sample number in the dataset
	Offset int64  // byte offset in File, -1 if unknown
	Key    string
	Text   string // one clause
	Err    error  // the error of the stage that failed
}

// Error returns the sentence, in the form of package fault.
func (e *SampleError) Error() string {
	return fault.Sentence(e.FaultPlace(), e.Code.Family(), e.Text)
}

func (e *SampleError) Unwrap() error { return e.Err }

// FaultKind and FaultPlace are for package fault.
func (e *SampleError) FaultKind() fault.Kind { return e.Code }

func (e *SampleError) FaultPlace() fault.Place {
	return fault.Place{File: e.File, Record: e.Record, Key: e.Key, Offset: e.Offset}
}

// explain adds sample, file and offset to a stage's error, because the stage does not know them.
func (l *Loader) explain(err error, index int64, sample catalog.Sample) *SampleError {
	e := &SampleError{Code: fault.KindInternal, Record: index, Offset: -1, Text: err.Error(), Err: err}
	dataset := l.config.Dataset
	// If the index itself is damaged these two fail as well, and the error names the index.
	e.File, _ = dataset.Path(index)
	e.Key, _ = dataset.Key(index)
	var (
		stored *catalog.Error
		pixels *native.Error
	)
	switch {
	case errors.Is(err, pinned.ErrMemory):
		e.Code = fault.KindMemory
	case errors.As(err, &stored):
		e.Code, e.Offset = stored.Kind, stored.Offset
		if stored.File != "" {
			e.File = stored.File
		}
		e.Text = stored.Clause()
	case errors.As(err, &pixels):
		e.Code, e.Text = pixels.Code, pixels.Text
		if l.config.Explain != nil && pixels.Code == native.Argument {
			e.Text = l.config.Explain(pixels).Error()
		}
		// The decoder counts from the record's first byte, but a person counts from the file's.
		if pixels.Offset >= 0 {
			e.Offset = sample.Offset + pixels.Offset
		} else if dataset.Holder(index).Kind().InShards() {
			e.Offset = sample.Offset
		}
	}
	return e
}

// replaceable is true if the sample is at fault, and not this machine, the configuration or this program.
func replaceable(e *SampleError) bool {
	return e.Code != fault.KindInternal && e.Code != fault.KindArgument && e.Code != fault.KindMemory
}

// outage is true if a store of objects does not answer or denies access.
func outage(e *SampleError) bool {
	return e.Code == fault.KindUnreachable || e.Code == fault.KindDenied || e.Code == fault.KindLate
}

// fail records a fault of the draft, unless that of an earlier sample is known.
func (l *Loader) fail(t task, err *SampleError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.draft.fail(t.i, err)
}
