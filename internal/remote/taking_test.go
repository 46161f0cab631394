//go:build !headrace_nocloud

package remote

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// notReading is the address of a server that begins an upload, asks for its parts, and reads nothing of them.
func notReading(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	over := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				b := make([]byte, 4096)
				for {
					n, err := c.Read(b)
					switch {
					case err != nil:
						return
					case strings.HasPrefix(string(b[:n]), "PUT"):
						c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
						<-over
						return
					}
					const begun = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(begun), begun)
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		close(over)
	})
	return "http://" + listener.Addr().String()
}

func TestAnUploadToAServerThatAcceptsNoBytesEndsInAnError(t *testing.T) {
	s := hasty()
	s.Endpoint, s.PathStyle, s.Anonymous = notReading(t), true, true
	w, err := Create(t.Context(), "s3://photos/x", 0, s)
	require.NoError(t, err)
	_, err = w.Write(content(24 << 20)) // one part, and more than the system buffers for a connection
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Commit() }()
	select {
	case err := <-ended:
		assert.Equal(t, fault.KindUnreachable, kindOf(t, err))
		assert.ErrorContains(t, err, "the server did not answer in time")
	case <-time.After(60 * time.Second):
		t.Fatal("the upload still waits")
	}
}

func TestATimeoutErrorSaysWhatWentWrongBefore(t *testing.T) {
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	_, err := Open(t.Context(), server+"/x", Storage{Timeout: 300 * time.Millisecond})
	assert.Equal(t, fault.KindLate, kindOf(t, err))
	assert.Regexp(t, `/x: cannot open it in \d attempts? .*the store gave no answer within 0.3 s; before that: the server answered 503 Service Unavailable$`, err.Error())
}

func TestAnUploadThatTakesLongerThanTheTimeoutIsATimeoutError(t *testing.T) {
	s := Storage{Endpoint: notReading(t), PathStyle: true, Anonymous: true, Timeout: 300 * time.Millisecond}
	w, err := Create(t.Context(), "s3://photos/x", 0, s)
	require.NoError(t, err)
	_, err = w.Write(content(24 << 20))
	require.NoError(t, err)
	began := time.Now()
	err = w.Commit()
	assert.Equal(t, fault.KindLate, kindOf(t, err))
	assert.ErrorContains(t, err, "the store gave no answer within 0.3 s")
	assert.Less(t, time.Since(began), 5*time.Second)
}
