// Package faultproxy stands between a client and a real server of a test and does what networks do: it delays, limits,
// resets, cuts and stalls connections, and answers requests instead of the server. It works only on the loopback
// interface, until the test ends.
package faultproxy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Action is what happens to a connection.
type Action int

// These are the actions. With Pass nothing happens.
const (
	Pass  Action = iota
	Reset        // RST: what a restarted server or a middlebox sends
	Close        // FIN in the midst of an answer
	Stall        // nothing more comes, and the connection stays open
)

// Fault is what happens to a connection when so many bytes of answers have passed.
type Fault struct {
	Action Action
	After  int64
}

// Proxy is a TCP proxy.
type Proxy struct {
	Address string // "127.0.0.1:PORT"

	Latency atomic.Int64 // nanoseconds before the first byte of each answer
	Rate    atomic.Int64 // bytes per second of all answers together; 0: no limit

	listener    net.Listener
	target      string
	plan        atomic.Pointer[func(connection int) Fault]
	connections atomic.Int64
	shaping     sync.Mutex
	free        time.Time // when the shaped link has sent all that it was given
	open        sync.Map
	running     sync.WaitGroup
}

// Start begins a proxy to a target, "HOST:PORT".
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), listener: listener, target: target}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.open.Range(func(c, _ any) bool { return c.(net.Conn).Close() == nil || true })
		p.running.Wait()
	})
	return p
}

// Plan says what happens to each connection from now on. Connections are counted from 0.
func (p *Proxy) Plan(fault func(connection int) Fault) {
	p.plan.Store(&fault)
}

// Connections is the number of connections so far.
func (p *Proxy) Connections() int { return int(p.connections.Load()) }

// Drop resets all connections that are open.
func (p *Proxy) Drop() {
	p.open.Range(func(c, _ any) bool {
		reset(c.(net.Conn))
		return true
	})
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		number := int(p.connections.Add(1)) - 1
		var fault Fault
		if plan := p.plan.Load(); plan != nil {
			fault = (*plan)(number)
		}
		p.open.Store(client, nil)
		p.running.Go(func() {
			defer p.open.Delete(client)
			defer client.Close()
			p.serve(client, fault)
		})
	}
}

func (p *Proxy) serve(client net.Conn, fault Fault) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	p.open.Store(server, nil)
	defer p.open.Delete(server)
	defer server.Close()
	asked := make(chan struct{}, 1)
	p.running.Go(func() {
		defer server.Close()
		b := make([]byte, 32<<10)
		for {
			n, err := client.Read(b)
			if n > 0 {
				select { // the next answer's first byte is delayed
				case asked <- struct{}{}:
				default:
				}
				if _, err := server.Write(b[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	p.answer(client, server, fault, asked)
}

// answer copies the server's bytes, until it is time for the fault.
func (p *Proxy) answer(client, server net.Conn, fault Fault, asked <-chan struct{}) {
	var sent int64
	b := make([]byte, 64<<10)
	for {
		space := int64(len(b))
		if fault.Action != Pass {
			space = min(space, fault.After-sent)
		}
		if space <= 0 {
			p.end(client, fault.Action)
			return
		}
		n, err := server.Read(b[:space])
		select {
		case <-asked:
			time.Sleep(time.Duration(p.Latency.Load()))
		default:
		}
		p.shape(n)
		if _, failed := client.Write(b[:n]); failed != nil || err != nil {
			return
		}
		sent += int64(n)
	}
}

func (p *Proxy) end(client net.Conn, action Action) {
	switch action {
	case Reset:
		reset(client)
	case Stall:
		io.Copy(io.Discard, client) // until the client gives up
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// shape waits until the link has sent n more bytes. All connections share its rate.
func (p *Proxy) shape(n int) {
	rate := p.Rate.Load()
	if rate <= 0 {
		return
	}
	p.shaping.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(int64(n) * int64(time.Second) / rate))
	wait := p.free.Sub(now)
	p.shaping.Unlock()
	time.Sleep(wait)
}

// Web begins a server that passes requests on to a target unchanged, with their signatures, unless the function answers
// a request itself and returns true. Requests are counted from 0.
func Web(t testing.TB, target string, answers func(number int, w http.ResponseWriter, r *http.Request) bool) *httptest.Server {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: target}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers(int(count.Add(1))-1, w, r) {
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}
