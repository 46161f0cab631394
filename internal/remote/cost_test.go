//go:build !headrace_nocloud

package remote

import (
	"io"
	"net/http"
	"syscall"
	"testing"
)

// processorTime is the CPU time that this process has used so far, in nanoseconds.
func processorTime() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

// BenchmarkFetching reads ranges of an image's size with bare net/http, from a web server and from S3. The server
// is another process, so that the CPU time is the client's alone.
func BenchmarkFetching(b *testing.B) {
	_, s := s3Server(b)
	put(b, "s3://photos/x", s, content(1<<20))
	o, err := Open(b.Context(), "s3://photos/x", s)
	if err != nil {
		b.Fatal(err)
	}
	url := presigned(b, o)
	web, err := Open(b.Context(), url, Storage{})
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 100_000)
	ways := map[string]func() error{
		"bare": func() error {
			request, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			request.Header.Set("Range", "bytes=1000-100999")
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			_, err = io.ReadFull(answer.Body, p)
			return err
		},
		"web": func() error { return web.ReadAt(b.Context(), p, 1000) },
		"s3":  func() error { return o.ReadAt(b.Context(), p, 1000) },
		"sdk": func() error { return readBySDK(b.Context(), o, p, 1000) },
	}
	for _, name := range []string{"bare", "web", "s3", "sdk"} {
		b.Run(name, func(b *testing.B) {
			before := processorTime()
			for b.Loop() {
				if err := ways[name](); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime()-before)/float64(b.N)/1000, "cpu-us/op")
		})
	}
}
