package remote

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestAReplacedObjectIsReportedWithinTheTimeoutWithoutItsNewVersion(t *testing.T) {
	over := make(chan struct{})
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead || r.Header.Get("If-Match") == "" {
			<-over
			return
		}
		w.WriteHeader(http.StatusPreconditionFailed)
	})
	t.Cleanup(func() { close(over) })
	s := hasty()
	s.Patience += time.Minute
	s.Timeout = 300 * time.Millisecond
	o, err := OpenKnown(server+"/data.bin", 1000, `"one"`, s)
	require.NoError(t, err)
	began := time.Now()
	err = o.ReadAt(t.Context(), make([]byte, 10), 0)
	assert.Equal(t, fault.KindChanged, kindOf(t, err))
	assert.Less(t, time.Since(began), time.Second)
}
