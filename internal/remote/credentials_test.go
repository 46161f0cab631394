//go:build !headrace_nocloud

package remote

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/remote/faultproxy"
	"github.com/headrace/headrace/internal/remote/s3test"
)

func TestExpiredS3CredentialsAreLookedUpAgain(t *testing.T) {
	server, direct := s3Server(t)
	put(t, "s3://photos/x", direct, content(1000))
	for name, ask := range map[string]func(Storage) error{
		"open": func(s Storage) error { _, err := Open(t.Context(), "s3://photos/x", s); return err },
		"list": func(s Storage) error { _, err := List(t.Context(), "s3://photos/", s); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "ENDED")
			var set sync.Once
			front := faultproxy.Web(t, server.Address, func(_ int, w http.ResponseWriter, r *http.Request) bool {
				ended := strings.Contains(r.Header.Get("Authorization"), "ENDED")
				if ended {
					// As a program does that renews them.
					set.Do(func() { os.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey) })
					w.WriteHeader(http.StatusBadRequest)
					w.Write([]byte("<Error><Code>ExpiredToken</Code></Error>"))
				}
				return ended
			})
			s := hasty()
			s.Patience += 20 * time.Second
			s.Endpoint, s.PathStyle = front.URL, true
			require.NoError(t, ask(s))
		})
	}
}
