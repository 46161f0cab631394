package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
)

// The configurations of hr_job_start: what package pack takes, and which job it is for. Paths, as
// JSON carries them, hide the fields of the same name in package pack's configurations.
type (
	jobName struct{ Job string }
	packJob struct {
		Job         string          `json:"job"`
		Source      pathjson.Text   `json:"source"`
		Destination pathjson.Text   `json:"destination"`
		Root        pathjson.Text   `json:"root"`
		Storage     json.RawMessage `json:"storage"`
		Timeout     float64         `json:"timeout"`
		pack.PackConfig
	}
	indexJob struct {
		Job      string          `json:"job"`
		Source   pathjson.Text   `json:"source"`
		Out      pathjson.Text   `json:"out"`
		IndexDir pathjson.Text   `json:"index_dir"`
		Root     pathjson.Text   `json:"root"`
		Storage  json.RawMessage `json:"storage"`
		Timeout  float64         `json:"timeout"`
		pack.IndexConfig
	}
	verifyJob struct {
		Job      string          `json:"job"`
		Source   pathjson.Text   `json:"source"`
		IndexDir pathjson.Text   `json:"index_dir"`
		Root     pathjson.Text   `json:"root"`
		Storage  json.RawMessage `json:"storage"`
		Timeout  float64         `json:"timeout"`
		pack.VerifyConfig
	}
)

func (j *packJob) config() (pack.PackConfig, error) {
	c := j.PackConfig
	var err error
	if c.Storage, err = storageOf(j.Storage, j.Timeout); err != nil {
		return c, err
	}
	c.Source, c.Destination, c.Root = string(j.Source), string(j.Destination), string(j.Root)
	return c, nil
}

func (j *indexJob) config() (pack.IndexConfig, error) {
	c := j.IndexConfig
	var err error
	if c.Storage, err = storageOf(j.Storage, j.Timeout); err != nil {
		return c, err
	}
	c.Source, c.IndexDir, c.Out, c.Root = string(j.Source), string(j.IndexDir), string(j.Out), string(j.Root)
	return c, nil
}

func (j *verifyJob) config() (pack.VerifyConfig, error) {
	c := j.VerifyConfig
	var err error
	if c.Storage, err = storageOf(j.Storage, j.Timeout); err != nil {
		return c, err
	}
	c.Source, c.IndexDir, c.Root = string(j.Source), string(j.IndexDir), string(j.Root)
	return c, nil
}

// storageOf returns what a caller says of a store, with the seconds that a wait for it may take. 0 means no limit.
func storageOf(options json.RawMessage, seconds float64) (remote.Storage, error) {
	s, err := remote.ParseStorage(options)
	if err == nil && (seconds < 0 || seconds > maxTimeout) {
		err = argument(fault.Argument("timeout", seconds, fmt.Sprintf("seconds, at most %d", maxTimeout)))
	}
	if err != nil {
		return s, err
	}
	s.Timeout = time.Duration(seconds * float64(time.Second))
	return s.Kept(), nil
}

const maxTimeout = 365 * 24 * 60 * 60

// job is the object behind a job's handle: work on all cores that somebody may wait for.
type job struct {
	tracker *pack.Tracker
	cancel  context.CancelFunc
	place   string        // the address that the work uploads to
	ended   bool          // closed before it had finished
	done    chan struct{} // closed when result and err are set
	result  any
	err     error
}

// startJob starts the work and returns at once. place is an address that the work uploads to, or
// empty. A panic of the work becomes the job's error, because nobody called this goroutine, and the
// panic would end the process.
func startJob(place string, work func(context.Context, *pack.Tracker) (any, error)) *job {
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{tracker: pack.NewTracker(), cancel: cancel, place: place, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		defer fault.Recover(&j.err)
		j.result, j.err = work(ctx, j.tracker)
		if errors.Is(j.err, context.Canceled) { // only close cancels
			j.err = fault.New(fault.KindClosed, "the job was closed before it had finished")
		}
	}()
	return j
}

// finishedJob returns a job that has nothing left to do. A writer becomes one.
func finishedJob(result any) *job {
	j := &job{tracker: pack.NewTracker(), cancel: func() {}, done: make(chan struct{}), result: result}
	close(j.done)
	return j
}

// wait is bounded by its timeout, never by the work, because Python delivers Ctrl-C only between
// two calls.
func (j *job) wait(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.err
	case <-timer.C:
	}
	select { // if both had happened, the choice above was random
	case <-j.done:
		return j.err
	default:
		return stillAtWork
	}
}

var stillAtWork = &notice{codeTimeout, "the job is still at work"}

// close cancels the job and waits until it has removed what it had begun, if that does not take
// long.
func (j *job) close() error {
	j.ended = j.wait(0) == stillAtWork
	j.cancel()
	within(clearingGrace, func() { <-j.done })
	return nil
}

// left says which uploads were not removed. If a job ended by itself, its error has said so.
func (j *job) left() string {
	if !j.ended {
		return ""
	}
	select {
	case <-j.done:
		return leftAt(j.place, j.tracker.Left())
	default:
		return leftAt(j.place, stillRemoved)
	}
}

const stillRemoved = "what was uploaded is still being removed; what the process does not come to is left"

func leftAt(place, clause string) string {
	if place == "" || clause == "" {
		return ""
	}
	return fault.Sentence(fault.Place{File: place, Record: fault.None, Offset: fault.None}, fault.Unnamed, clause)
}
