package remote

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestCertificatesNamedAfterTheFirstHandshakeAreTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content"))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "own.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, text, 0o600))
	for _, variable := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "")
			// Each storage has its own client. Open makes a new one if it sees that the program changed C's
			// environment, but variables that Go sets are set in C, too, so there it sees no change.
			_, err := Open(t.Context(), server.URL+"/a", Storage{Region: "before " + variable})
			require.Equal(t, fault.KindDenied, fault.KindOf(err))
			require.ErrorContains(t, err, "certificate is not one to trust")
			value := file
			if variable == "SSL_CERT_DIR" {
				value = filepath.Dir(file)
			}
			t.Setenv(variable, value)
			object, err := Open(t.Context(), server.URL+"/a", Storage{Region: "behind " + variable})
			require.NoError(t, err)
			got := make([]byte, object.Size())
			require.NoError(t, object.ReadAt(t.Context(), got, 0))
			require.Equal(t, "content", string(got))
		})
	}
}
