package remote

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAChunkedAnswerIsUsedOnceItsBytesAreThereWithoutWaitingForItsEnd(t *testing.T) {
	data := content(1000)
	over := make(chan struct{})
	server := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 10-19/%d", len(data)))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(data[10:20])
		w.(http.Flusher).Flush()
		<-over
	})
	t.Cleanup(func() { close(over) })
	s := hasty()
	s.Patience += time.Minute
	o, err := OpenKnown(server+"/data.bin", int64(len(data)), "", s)
	require.NoError(t, err)
	p := make([]byte, 10)
	began := time.Now()
	require.NoError(t, o.ReadAt(t.Context(), p, 10))
	assert.Less(t, time.Since(began), time.Second)
	assert.Equal(t, data[10:20], p)
}
