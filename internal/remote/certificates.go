package remote

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
)

// Go looks for certificates in the first of these files that can be read, and in these folders, unless the variables
// name others (crypto/x509, root_linux.go).
var certificateFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

const certificateFolders = "/etc/ssl/certs:/etc/pki/tls/certs"

// trust returns the certificates that are trusted: those that SSL_CERT_FILE and SSL_CERT_DIR name now. It returns nil
// if neither is set. Then Go's library looks for them, at the first handshake of the process and never again.
func trust() *tls.Config {
	file, folders := os.Getenv("SSL_CERT_FILE"), os.Getenv("SSL_CERT_DIR")
	if file == "" && folders == "" {
		return nil
	}
	pool := x509.NewCertPool()
	// As in Go, a file that cannot be read is ignored. A server that is then not trusted gives an error that says so.
	add := func(path string) bool {
		text, err := os.ReadFile(path)
		pool.AppendCertsFromPEM(text)
		return err == nil
	}
	if file != "" {
		add(file)
	} else {
		for _, one := range certificateFiles {
			if add(one) {
				break
			}
		}
	}
	for folder := range strings.SplitSeq(cmp.Or(folders, certificateFolders), ":") {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			add(filepath.Join(folder, e.Name()))
		}
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
