package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote/faultproxy"
)

// hasty is a storage with short times. It shares nothing with others, because its patience differs from theirs.
func hasty() Storage {
	return Storage{Patience: 1500*time.Millisecond + time.Duration(hastened.Add(1))}
}

var hastened atomic.Int64

const token = "token=SECRET-in-the-query"

// unasked is an object that is known without a request to its server.
func unasked(t *testing.T, server string, size int, version string, s Storage) *Object {
	t.Helper()
	o, err := OpenKnown(server+"/data.bin?"+token, int64(size), version, s)
	require.NoError(t, err)
	return o
}

func TestReadsSurviveConnectionsThatFailForAWhile(t *testing.T) {
	data := content(400_000)
	origin := serving(t, data)
	target := strings.TrimPrefix(origin.URL, "http://")
	for name, plan := range map[string]func(int) faultproxy.Fault{
		"reset at once":     func(n int) faultproxy.Fault { return first(n, 2, faultproxy.Fault{Action: faultproxy.Reset}) },
		"closed at once":    func(n int) faultproxy.Fault { return first(n, 2, faultproxy.Fault{Action: faultproxy.Close}) },
		"reset in the body": func(int) faultproxy.Fault { return faultproxy.Fault{Action: faultproxy.Reset, After: 90_000} },
		"cut in the body":   func(int) faultproxy.Fault { return faultproxy.Fault{Action: faultproxy.Close, After: 90_000} },
		"cut in the header": func(n int) faultproxy.Fault {
			return first(n, 3, faultproxy.Fault{Action: faultproxy.Close, After: 40})
		},
		"stalled in the body": func(n int) faultproxy.Fault {
			return first(n, 1, faultproxy.Fault{Action: faultproxy.Stall, After: 50_000})
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := faultproxy.Start(t, target)
			proxy.Plan(plan)
			s := hasty()
			n := 300_000
			o := unasked(t, "http://"+proxy.Address, len(data), `"one"`, s)
			p := make([]byte, n)
			require.NoError(t, o.ReadAt(t.Context(), p, 50_001))
			assert.Equal(t, data[50_001:][:n], p)
			assert.Positive(t, o.Counts().Retries)
		})
	}
}

func first(n, bad int, f faultproxy.Fault) faultproxy.Fault {
	if n < bad {
		return f
	}
	return faultproxy.Fault{}
}

func TestFailedAnswersAreRetriedAndRetryAfterIsRespected(t *testing.T) {
	data := content(1000)
	origin := serving(t, data)
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		server := faultproxy.Web(t, strings.TrimPrefix(origin.URL, "http://"), func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n < 2 {
				w.WriteHeader(status)
			}
			return n < 2
		})
		o := unasked(t, server.URL, len(data), `"one"`, hasty())
		p := make([]byte, 500)
		require.NoError(t, o.ReadAt(t.Context(), p, 3), status)
		assert.Equal(t, data[3:503], p)
		assert.Equal(t, int64(2), o.Counts().Retries)
	}
	var asked []time.Time
	server := faultproxy.Web(t, strings.TrimPrefix(origin.URL, "http://"), func(n int, w http.ResponseWriter, r *http.Request) bool {
		asked = append(asked, time.Now())
		if n == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n == 0
	})
	s := hasty()
	s.Patience = 3 * time.Second
	o := unasked(t, server.URL, len(data), `"one"`, s)
	require.NoError(t, o.ReadAt(t.Context(), make([]byte, 1), 0))
	assert.GreaterOrEqual(t, asked[1].Sub(asked[0]), time.Second)
}

// kindOf is the kind of an error, which must be one of this package.
func kindOf(t *testing.T, err error) fault.Kind {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	return fault.KindOf(err)
}

// answering is the address of a server that answers all requests in one way.
func answering(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

func TestALastingFailureIsAnErrorWithAddressStatusAndAttempts(t *testing.T) {
	data := content(1000)
	part := func(headers map[string]string, status int, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for name, value := range headers {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			w.Write(body)
		}
	}
	status := func(s int) http.HandlerFunc { return part(nil, s, []byte("no "+token)) }
	for name, c := range map[string]struct {
		answer   http.HandlerFunc
		kind     fault.Kind
		attempts int // 0 for several
		says     string
	}{
		"401":                       {status(401), fault.KindDenied, 1, "the server answered 401 Unauthorized"},
		"403":                       {status(403), fault.KindDenied, 1, "the server answered 403 Forbidden"},
		"404":                       {status(404), fault.KindIO, 1, "the server answered 404 Not Found"},
		"400":                       {status(400), fault.KindDenied, 1, "the server answered 400 Bad Request"},
		"412":                       {status(412), fault.KindChanged, 1, "bad: cannot read it in 1 attempt: it was replaced after it was opened or indexed"},
		"416":                       {part(map[string]string{"Content-Range": "bytes */77"}, 416, nil), fault.KindChanged, 1, "expected 1000 bytes, found 77"},
		"429":                       {status(429), fault.KindUnreachable, 0, "the server answered 429 Too Many Requests"},
		"500":                       {status(500), fault.KindUnreachable, 0, "the server answered 500 Internal Server Error"},
		"503":                       {status(503), fault.KindUnreachable, 0, "the server answered 503 Service Unavailable"},
		"a long wait":               {part(map[string]string{"Retry-After": "999999999"}, 503, nil), fault.KindUnreachable, 1, "wants to be left alone for 24h0m0s"},
		"no ranges":                 {part(nil, 200, data), fault.KindUnsupported, 1, "unsupported: cannot read it in 1 attempt: the server has no range requests"},
		"another range":             {part(map[string]string{"Content-Range": "bytes 0-99/1000"}, 206, data[:100]), fault.KindBadFile, 0, "expected 100 bytes from 10 on, found 100 from 0 on"},
		"another size":              {part(map[string]string{"Content-Range": "bytes 10-109/999"}, 206, data[:100]), fault.KindChanged, 1, "expected 1000 bytes, found 999"},
		"no Content-Range":          {part(nil, 206, data[:100]), fault.KindBadFile, 0, `Content-Range is ""`},
		"an odd Content-Range":      {part(map[string]string{"Content-Range": "bytes 18446744073709551615-0/+1000"}, 206, data[:100]), fault.KindBadFile, 0, "Content-Range is"},
		"another version":           {part(map[string]string{"Content-Range": "bytes 10-109/1000", "ETag": `"two"`}, 206, data[:100]), fault.KindChanged, 1, `expected version "one", found "two"`},
		"a short body":              {part(map[string]string{"Content-Range": "bytes 10-109/1000"}, 206, nil), fault.KindUnreachable, 0, "the connection ended before the answer did"},
		"a long body":               {part(map[string]string{"Content-Range": "bytes 10-109/1000"}, 206, data), fault.KindBadFile, 1, "more than it announced"},
		"a redirect to a file":      {redirect("file:///etc/passwd"), fault.KindDenied, 1, "no web address"},
		"a redirect to credentials": {redirect("http://169.254.169.254/latest/meta-data?" + token), fault.KindDenied, 1, "link-local"},
		"a circle":                  {redirect("/data.bin?" + token), fault.KindLimit, 1, "redirects more than 3 times"},
		"headers without an end":    {part(map[string]string{"X": strings.Repeat("x", 100_000)}, 206, nil), fault.KindUnreachable, 0, "is no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := answering(t, c.answer)
			o := unasked(t, server, len(data), `"one"`, hasty())
			err := o.ReadAt(t.Context(), make([]byte, 100), 10)
			require.Equal(t, c.kind, kindOf(t, err), "%v", err)
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, server+"/data.bin", e.URL)
			assert.Contains(t, err.Error(), server+"/data.bin: at byte 10: ")
			assert.Contains(t, err.Error(), c.says)
			assert.NotContains(t, err.Error(), "SECRET")
			if c.attempts == 1 {
				assert.Equal(t, 1, e.Attempts)
			} else {
				assert.Greater(t, e.Attempts, 1)
				assert.Contains(t, err.Error(), fmt.Sprintf("in %d attempts and ", e.Attempts))
			}
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func TestAServerWithoutRangeRequestsIsRefusedByOpen(t *testing.T) {
	server := answering(t, func(w http.ResponseWriter, r *http.Request) { w.Write(content(1000)) })
	_, err := Open(t.Context(), server+"/data.bin", hasty())
	assert.Equal(t, fault.KindUnsupported, kindOf(t, err))
	assert.ErrorContains(t, err, "the server has no range requests")
}

func TestAServerThatNeverAnswersIsAnErrorInTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() // what it never accepts, the kernel does
	began := time.Now()
	_, err = Open(t.Context(), "http://"+listener.Addr().String()+"/x?"+token, hasty())
	assert.Equal(t, fault.KindUnreachable, kindOf(t, err))
	assert.ErrorContains(t, err, "the server did not answer in time")
	assert.NotContains(t, err.Error(), "SECRET")
	assert.Less(t, time.Since(began), 5*time.Second, "the patience of 1.5 s is exceeded")
}

func TestARefusedConnectionAndAnUnknownHostAreErrorsThatSayWhichOne(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	listener.Close()
	_, err = Open(t.Context(), "http://"+address+"/x?"+token, hasty())
	assert.Equal(t, fault.KindUnreachable, kindOf(t, err))
	assert.ErrorContains(t, err, "connection refused")
	_, err = Open(t.Context(), "https://no-such-host.invalid/x?"+token, hasty())
	assert.Equal(t, fault.KindUnreachable, kindOf(t, err))
	assert.ErrorContains(t, err, "https://no-such-host.invalid/x: cannot open it in ")
	assert.ErrorContains(t, err, "the name no-such-host.invalid ")
	assert.NotContains(t, err.Error(), "SECRET")
}

func TestACancelledContextEndsEveryWaitWithinASecond(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	failing := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for name, server := range map[string]string{"no answer": "http://" + listener.Addr().String(), "a wait before the next": failing} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err = Open(ctx, server+"/x", Storage{})
		cancel()
		assert.ErrorIs(t, err, context.DeadlineExceeded, name)
		assert.Equal(t, fault.KindClosed, kindOf(t, err))
		assert.Less(t, time.Since(began), time.Second, name)
	}
}

func TestEveryByteIsRightIfATenthOfTheRequestsFail(t *testing.T) {
	data := content(1 << 20)
	origin := serving(t, data)
	var lock sync.Mutex
	draws := rand.New(rand.NewPCG(1, 2))
	server := faultproxy.Web(t, strings.TrimPrefix(origin.URL, "http://"), func(_ int, w http.ResponseWriter, r *http.Request) bool {
		lock.Lock()
		defer lock.Unlock()
		switch draws.IntN(30) {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			panic(http.ErrAbortHandler) // closes the connection
		case 2:
			w.Header().Set("Content-Range", "bytes 5-104/1048576")
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusPartialContent)
		default:
			return false
		}
		return true
	})
	o := unasked(t, server.URL, len(data), `"one"`, Storage{Patience: 7 * time.Second})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			draws := rand.New(rand.NewPCG(3, uint64(worker)))
			for range 50 {
				p := make([]byte, 1+draws.IntN(30_000))
				offset := draws.Int64N(int64(len(data) - len(p)))
				if assert.NoError(t, o.ReadAt(t.Context(), p, offset)) {
					assert.Equal(t, data[offset:][:len(p)], p)
				}
			}
		})
	}
	all.Wait()
	assert.Greater(t, o.Counts().Retries, int64(10))
}

func TestASlowRequestIsHedgedByASecondOne(t *testing.T) {
	data := content(100_000)
	origin := serving(t, data)
	hung := make(chan struct{})
	var slow atomic.Bool
	server := faultproxy.Web(t, strings.TrimPrefix(origin.URL, "http://"), func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if slow.CompareAndSwap(true, false) {
			select {
			case <-hung:
			case <-r.Context().Done():
			}
			return true
		}
		return false
	})
	defer close(hung)
	s := Storage{Patience: 50 * time.Second}
	o := unasked(t, server.URL, len(data), `"one"`, s)
	p := make([]byte, 1000)
	for i := range hedgeSeen {
		require.NoError(t, o.ReadAt(t.Context(), p, int64(i)))
	}
	before := o.Counts().Hedges
	slow.Store(true)
	require.NoError(t, o.ReadAt(t.Context(), p, 5000))
	assert.Equal(t, data[5000:6000], p)
	assert.Greater(t, o.Counts().Hedges, before)
	assert.Zero(t, o.Counts().Retries)
}

func TestNoErrorShowsASecretOfAnAddress(t *testing.T) {
	for _, url := range []string{
		"https://user:SECRET@no-such-host.invalid/x?sig=SECRET#SECRET",
		"https://user:SECRET@[::1/x?sig=SECRET",
		"https://user:SECRET@host:port/x?sig=SECRET",
		"https://user:SECRET@/x?sig=SECRET",
		"http://127.0.0.1:1/x?sig=SECRET%zz",
	} {
		_, err := Open(t.Context(), url, hasty())
		require.Error(t, err, url)
		assert.NotContains(t, err.Error(), "SECRET")
		assert.NotContains(t, Display(url), "SECRET")
		for inner := err; inner != nil; {
			assert.NotContains(t, fmt.Sprintf("%+v %#v", inner, inner.Error()), "SECRET")
			unwrap, ok := inner.(interface{ Unwrap() error })
			if !ok {
				break
			}
			inner = unwrap.Unwrap()
		}
	}
	_, err := ParseStorage([]byte(`{"endpoint": "http://SECRET@x", "region": "SECRET "}`))
	assert.NotContains(t, err.Error(), "SECRET")
}
