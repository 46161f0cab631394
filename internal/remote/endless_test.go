//go:build !headrace_nocloud

package remote

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestAListWhoseNextPageIsTheSameAgainIsAnErrorAtOnce(t *testing.T) {
	item := `{"kind":"storage#object","bucket":"photos","name":"train/x","size":"1","generation":"7"}`
	// The library requests further pages by itself if a page has fewer entries.
	full := strings.Repeat(item+",", pageEntries-1) + item
	var asked atomic.Int64
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		if w.Header().Set("Content-Type", "application/json"); asked.Add(1) > 50 {
			fmt.Fprint(w, `{"kind":"storage#objects"}`)
			return
		}
		fmt.Fprintf(w, `{"kind":"storage#objects","nextPageToken":"same","items":[%s]}`, full)
	})
	s := hasty()
	s.Endpoint, s.Anonymous = server, true
	_, err := List(t.Context(), "gs://photos/train/", s)
	require.Equal(t, fault.KindBadFile, kindOf(t, err))
	require.ErrorContains(t, err, "the page which follows is the same again")
	assert.Equal(t, int64(2), asked.Load())
}
