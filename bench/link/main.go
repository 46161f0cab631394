// Command link stands between a client and a server on the loopback interface, and is as slow as a link of a data
// centre: it adds a delay before the first byte of each answer, and all connections share one rate. With -ranges it is
// a plain client instead: it GETs the ranges in a file, so many at once and signed as S3 requires, and does nothing
// else.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

func main() {
	target := flag.String("target", "", "HOST:PORT of the server")
	delay := flag.Duration("delay", 20*time.Millisecond, "before the first byte of each answer")
	rate := flag.Float64("rate", 0, "bytes a second of all answers together; 0: without a bound")
	ranges := flag.String("ranges", "", "a file with a JSON array of PATH, OFFSET, LENGTH a line: get these")
	atOnce := flag.Int("at-once", 64, "requests of -ranges that are in flight")
	flag.Parse()
	if *ranges != "" {
		if err := get(*target, *ranges, *atOnce); err != nil {
			log.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	l := &link{target: *target, delay: *delay, rate: *rate}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go l.serve(client)
	}
}

type link struct {
	target string
	delay  time.Duration
	rate   float64

	mu   sync.Mutex
	free time.Time // when the link has sent everything that it was given
}

func (l *link) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	var asked atomic.Bool
	go func() {
		defer server.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := client.Read(b)
			if n > 0 {
				asked.Store(true)
				if _, err := server.Write(b[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	b := make([]byte, 256<<10)
	for {
		n, err := server.Read(b)
		if n > 0 && asked.Swap(false) {
			time.Sleep(l.delay)
		}
		l.wait(n)
		if _, failed := client.Write(b[:n]); failed != nil || err != nil {
			return
		}
	}
}

// wait returns when the link has sent n more bytes.
func (l *link) wait(n int) {
	if l.rate <= 0 {
		return
	}
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	wait := l.free.Sub(now)
	l.mu.Unlock()
	time.Sleep(wait)
}

type wanted struct {
	path           string
	offset, length int64
}

func (w *wanted) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&w.path, &w.offset, &w.length})
}

// get fetches all ranges and prints the bytes and seconds.
func get(target, file string, atOnce int) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var all []wanted
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var one wanted
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return err
		}
		all = append(all, one)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, DisableCompression: true}}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	keys := aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	one := func(w wanted) error {
		request, err := http.NewRequest(http.MethodGet, "http://"+target+w.path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", w.offset, w.offset+w.length-1))
		request.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		if err := signer.SignHTTP(context.Background(), keys, request, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now()); err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		n, err := io.Copy(io.Discard, answer.Body)
		if err == nil && (answer.StatusCode != http.StatusPartialContent || n != w.length) {
			err = fmt.Errorf("%s: %s and %d bytes of %d", w.path, answer.Status, n, w.length)
		}
		return err
	}
	var next, bytes atomic.Int64
	var failed atomic.Pointer[error]
	var clients sync.WaitGroup
	began := time.Now()
	for range atOnce {
		clients.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)) && failed.Load() == nil; i = next.Add(1) - 1 {
				if err := one(all[i]); err != nil {
					failed.Store(&err)
				}
				bytes.Add(all[i].length)
			}
		})
	}
	clients.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	fmt.Printf("{\"bytes\": %d, \"seconds\": %.6f}\n", bytes.Load(), time.Since(began).Seconds())
	return nil
}
