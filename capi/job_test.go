package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/pack"
)

func TestAWaitForAJobEndsAtItsTimeoutOrWhenTheJobEnds(t *testing.T) {
	release := make(chan struct{})
	j := startJob("", func(context.Context, *pack.Tracker) (any, error) {
		<-release
		return 7, nil
	})
	for _, timeout := range []time.Duration{-time.Second, 0, 20 * time.Millisecond} {
		assert.Equal(t, error(stillAtWork), j.wait(timeout))
	}
	close(release)
	require.NoError(t, j.wait(time.Minute))
	require.NoError(t, j.wait(0))
	assert.Equal(t, 7, j.result)
	require.NoError(t, j.close())
}

func TestAPanicInAJobIsAnInternalErrorOfTheJob(t *testing.T) {
	j := startJob("", func(context.Context, *pack.Tracker) (any, error) { panic("odd") })
	f := classify(j.wait(time.Minute))
	assert.Equal(t, code(fault.KindInternal), f.code)
	assert.Contains(t, f.text, "internal: panic: odd")
}

func TestClosingAJobCancelsItAndWaitsUntilItHasEnded(t *testing.T) {
	ended := false
	j := startJob("", func(ctx context.Context, _ *pack.Tracker) (any, error) {
		<-ctx.Done()
		ended = true
		return nil, ctx.Err()
	})
	require.NoError(t, j.close())
	assert.True(t, ended)
}

func TestAWaitForAJobThatIsClosedReturnsTheErrorThatItWasClosed(t *testing.T) {
	begun := make(chan struct{})
	j := startJob("", func(ctx context.Context, _ *pack.Tracker) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, fmt.Errorf("a place: %w", ctx.Err())
	})
	waited := make(chan error)
	go func() { waited <- j.wait(time.Minute) }()
	<-begun
	require.NoError(t, j.close())
	f := classify(<-waited)
	assert.Equal(t, code(fault.KindClosed), f.code)
	assert.Equal(t, "the job was closed before it had finished", f.text)
}

func TestClosingWaitsForHangingWorkNoLongerThanTheGracePeriod(t *testing.T) {
	release, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	within(50*time.Millisecond, func() { defer close(ended); <-release })
	assert.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
	select {
	case <-ended:
		t.Fatal("the work ended although nothing had released it")
	default:
	}
	close(release)
	<-ended // the work still goes on to its end
	within(time.Minute, func() { panic(errors.New("odd")) })
}
