//go:build !headrace_nocloud

package remote

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// committing writes an object to a store that has such an answer, ends the context once the store has all bytes, and
// returns what Commit returned. The store waits for release before it answers.
func committing(t *testing.T, release func(ended <-chan struct{}, r *http.Request)) (w *Writer, err error) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	s := hasty()
	s.PathStyle = true
	s.Endpoint = answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, failed := io.Copy(io.Discard, r.Body)
		assert.NoError(t, failed)
		end()
		release(ctx.Done(), r)
	})
	w, err = Create(ctx, "s3://photos/train.hr/shard-00000.tar", 1, s)
	require.NoError(t, err)
	_, err = w.Write(content(1000))
	require.NoError(t, err)
	return w, w.Commit()
}

func TestACommitUnderWayIsAnsweredAlthoughItsContextHasEnded(t *testing.T) {
	var left atomic.Bool
	_, err := committing(t, func(ended <-chan struct{}, r *http.Request) {
		<-ended
		select {
		case <-r.Context().Done():
			left.Store(true) // the client has closed the connection
		case <-time.After(AnswerTime / 5):
		}
	})
	require.NoError(t, err)
	require.False(t, left.Load())
}

func TestACommitWithoutAnAnswerEndsSoonAfterItsContext(t *testing.T) {
	began := time.Now()
	w, err := committing(t, func(_ <-chan struct{}, r *http.Request) { <-r.Context().Done() })
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(began), 12*AnswerTime)
	require.NoError(t, w.Abort(t.Context()))
}

func TestNothingIsSentOfACommitAfterItsContextHasEnded(t *testing.T) {
	server, s := s3Server(t)
	ctx, end := context.WithCancel(t.Context())
	w, err := Create(ctx, "s3://photos/a", 1, s)
	require.NoError(t, err)
	_, err = w.Write(content(1000))
	require.NoError(t, err)
	end()
	require.ErrorIs(t, w.Commit(), context.Canceled)
	require.NoFileExists(t, server.Dir+"/photos/a")
}
