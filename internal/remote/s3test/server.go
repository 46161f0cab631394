// Package s3test runs a real S3 server for a test: versitygw, which checks signatures and keeps objects as files in a
// directory. tools/versitygw.sh builds it. The package does not know package remote.
package s3test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// These are the keys that the server knows.
const (
	AccessKey = "headracetest"
	SecretKey = "s3test-SECRET-s3test"
)

// Server is a server that runs until its test ends. Its objects are the files Dir/BUCKET/KEY.
type Server struct {
	Endpoint string // "http://127.0.0.1:PORT"
	Address  string // "127.0.0.1:PORT"
	Dir      string
}

// Start runs a server with these buckets and puts its keys into the environment of the test. It skips the test if there
// is no versitygw.
func Start(t testing.TB, buckets ...string) *Server {
	t.Helper()
	program, err := find()
	if err != nil {
		t.Skipf("no S3 server to test against: %v", err)
	}
	s := &Server{Dir: t.TempDir()}
	for _, bucket := range buckets {
		if err := os.Mkdir(filepath.Join(s.Dir, bucket), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // another process may take the port in between
		if s.run(t, program) {
			t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
			t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			// The user who runs the tests may have such files.
			t.Setenv("AWS_CONFIG_FILE", os.DevNull)
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
			return s
		}
	}
	t.Fatal("versitygw did not begin to listen")
	return nil
}

// find returns the program that the tools built, or one on the PATH.
func find() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			if built := filepath.Join(folder, ".build", "bin", "versitygw"); isFile(built) {
				return built, nil
			}
			break
		}
	}
	if program, err := exec.LookPath("versitygw"); err == nil {
		return program, nil
	}
	return "", errors.New("versitygw is not built (tools/versitygw.sh builds it)")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *Server) run(t testing.TB, program string) bool {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = free.Addr().String()
	s.Endpoint = "http://" + s.Address
	free.Close()
	command := exec.Command(program, "--port", s.Address, "--quiet", "posix", s.Dir)
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		command.Process.Kill()
		<-ended
	})
	for range 500 {
		if c, err := net.Dial("tcp", s.Address); err == nil {
			c.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}
