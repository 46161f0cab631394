//go:build !headrace_nocloud

package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

// serviceAccount makes Google's library request tokens from the address, as for a service account.
func serviceAccount(t *testing.T, address string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	credentials(t, map[string]string{
		"type": "service_account", "client_email": "a@b", "private_key_id": "1", "token_uri": address,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	})
}

// credentials writes a file of Google credentials and names it in the environment.
func credentials(t *testing.T, account map[string]string) {
	t.Helper()
	text, err := json.Marshal(account)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "account.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
}

// silent is a server that accepts requests and does not answer before the test ends.
func silent(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	url := answering(t, func(http.ResponseWriter, *http.Request) { <-over })
	t.Cleanup(func() { close(over) })
	return url
}

func TestATokenServerThatNeverAnswersIsAnErrorWithAddressAndAttempts(t *testing.T) {
	server := silent(t)
	serviceAccount(t, server+"/token?key=SECRET")
	s := hasty()
	s.Endpoint = server
	began := time.Now()
	_, err := Open(t.Context(), "gs://photos/train/x", s)
	took := time.Since(began)
	require.Equal(t, fault.KindUnreachable, kindOf(t, err))
	require.ErrorContains(t, err, "the server of Google's tokens "+server+" gave none")
	assert.ErrorContains(t, err, "attempts")
	assert.NotContains(t, err.Error(), "SECRET")
	assert.Less(t, took, 2*s.Patience)
}

func TestAWaitForATokenEndsWithItsContextOrAtTheTimeout(t *testing.T) {
	server := silent(t)
	serviceAccount(t, server+"/token")
	s := hasty()
	s.Patience += time.Minute
	s.Endpoint = server
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	began := time.Now()
	_, err := Open(ctx, "gs://photos/train/x", s)
	assert.Equal(t, fault.KindClosed, kindOf(t, err))
	assert.Less(t, time.Since(began), time.Second)
	s.Timeout = 200 * time.Millisecond
	began = time.Now()
	_, err = Open(t.Context(), "gs://photos/train/x", s)
	assert.Equal(t, fault.KindLate, kindOf(t, err))
	assert.Less(t, time.Since(began), time.Second)
}

// Google's library keeps the context of the first request for all later tokens, and obeys it if the credentials
// are a user's.
func TestTokensAreRequestedAfterTheFirstRequestHasEnded(t *testing.T) {
	var version, tokens atomic.Int64
	version.Store(7)
	data := content(1000)
	google := googleServer(t, data, &version)
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The token expires so soon that the library requests a new one for each request.
		fmt.Fprintf(w, `{"access_token": "T%d", "token_type": "Bearer", "expires_in": 1}`, tokens.Add(1))
	})
	credentials(t, map[string]string{
		"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c", "token_uri": server,
	})
	s := hasty()
	s.Endpoint = google.URL
	o, err := Open(t.Context(), "gs://photos/train/x", s)
	require.NoError(t, err)
	p := make([]byte, 100)
	for range 3 {
		require.NoError(t, o.ReadAt(t.Context(), p, 5))
		assert.True(t, bytes.Equal(data[5:105], p))
	}
	assert.Equal(t, int64(4), tokens.Load())
}

func TestARefusedTokenIsAnErrorAtOnceAndATemporaryFailureIsRetried(t *testing.T) {
	var version, tokens atomic.Int64
	version.Store(7)
	google := googleServer(t, content(1000), &version)
	var status atomic.Int64
	status.Store(http.StatusBadRequest)
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if tokens.Add(1) <= 1 {
			w.WriteHeader(int(status.Load()))
			fmt.Fprint(w, `{"error": "invalid_grant", "error_description": "SECRET"}`)
			return
		}
		fmt.Fprint(w, `{"access_token": "T", "token_type": "Bearer", "expires_in": 3600}`)
	})
	serviceAccount(t, server)
	s := hasty()
	s.Endpoint = google.URL
	_, err := Open(t.Context(), "gs://photos/train/x", s)
	require.Equal(t, fault.KindDenied, kindOf(t, err))
	require.ErrorContains(t, err, "in 1 attempt: the server of Google's tokens "+server+" refused one: the server answered 400 Bad Request")
	assert.NotContains(t, err.Error(), "SECRET")
	tokens.Store(0)
	status.Store(http.StatusServiceUnavailable)
	s = hasty()
	s.Endpoint = google.URL
	_, err = Open(t.Context(), "gs://photos/train/x", s)
	require.NoError(t, err)
	assert.Equal(t, int64(2), tokens.Load())
}
