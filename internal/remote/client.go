package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/headrace/headrace/internal/environment"
	"github.com/headrace/headrace/internal/fault"
)

// A client holds what all objects of one storage share: connections, counts, and how long requests took so far.
// It is kept as long as the process runs. There are as many clients as storages, mostly one.
type client struct {
	storage  Storage
	counted  counter
	latency  latency
	web      *http.Transport
	building sync.Mutex
	stores   map[string]store // by scheme
}

var (
	clientsLock sync.Mutex
	// The key is the whole Storage, because any option changes the requests.
	clients = make(map[Storage]*client)
)

// variables are the beginnings of the variables that the stores' libraries read.
var variables = []string{"AWS_", "AZURE_", "GOOGLE_", "GCE_", "GCLOUD_", "CLOUDSDK_", "HF_", "HUGGING", "XDG_", "HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_"}

// followEnvironment drops all clients if the program has changed the environment, because the credentials may have
// changed. Objects that are open keep their client.
func followEnvironment() {
	clientsLock.Lock()
	defer clientsLock.Unlock()
	// os.environ in Python changes C's environment. Go has only a copy of it.
	if environment.Follow(variables...) {
		clear(clients)
	}
}

// clientOf returns the client of a storage. A storage that was kept (Storage.Kept) has its own, even if the environment
// has changed since.
func clientOf(s Storage) *client {
	if s.kept != nil {
		return s.kept
	}
	clientsLock.Lock()
	defer clientsLock.Unlock()
	c := clients[s]
	if c == nil {
		c = &client{storage: s, web: newTransport(s), stores: make(map[string]store)}
		clients[s] = c
	}
	return c
}

// store returns the store of a scheme. It is made when it is first asked for, and looks for credentials then.
// It is made under the lock, once for each client and scheme, so that two goroutines do not both look for credentials.
func (c *client) store(scheme string) (store, error) {
	c.building.Lock()
	defer c.building.Unlock()
	if st := c.stores[scheme]; st != nil {
		return st, nil
	}
	var st store
	switch scheme {
	case "http", "https":
		st = newWebStore(c)
	case "hf":
		st = newHubStore(c)
	default:
		st = newCloudStore(c, scheme)
	}
	if st == nil {
		return nil, &Error{Kind: fault.KindUnsupported, offset: fault.None, Text: scheme + ":// is not in this build"}
	}
	c.stores[scheme] = st
	return st, nil
}

// newTransport suits many small requests at once to few hosts. Connections are kept. HTTP/2 is off, because its one
// connection and its windows would limit the rate. Bytes arrive as they are stored.
func newTransport(s Storage) *http.Transport {
	total := s.patience()
	dialer := &net.Dialer{Timeout: total / 6, KeepAlive: 15 * time.Second, Control: refuseLinkLocal}
	// The proxies are read from the environment now, because http.ProxyFromEnvironment knows only that of its first call.
	proxy := httpproxy.FromEnvironment().ProxyFunc()
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			made, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &sending{Conn: made, stall: total / attemptPart}, nil
		},
		// This is shorter than an attempt, so that a host that accepts connections and then says nothing costs only a part of
		// it.
		TLSHandshakeTimeout:   total / 6,
		TLSClientConfig:       trust(),
		ResponseHeaderTimeout: total / attemptPart,
		// The head of an answer is hostile as well; Go's own limit is 10 MiB.
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        50 * time.Second, // less than the minute after which servers close
		// Otherwise Go would ask for gzip and decompress it, and ranges would count other bytes.
		DisableCompression: true,
		TLSNextProto:       make(map[string]func(string, *tls.Conn) http.RoundTripper), // no HTTP/2
	}
}

// sending is a connection that ends if the other side accepts no bytes for the time of a stall. The library limits the
// wait for an answer, which begins when the request was sent, but not the time of sending a part of an upload.
// It wraps every connection, with TLS as well, below the encryption.
type sending struct {
	net.Conn
	stall time.Duration
}

// Write sends p in pieces. Each piece has the time of a stall.
func (s *sending) Write(p []byte) (done int, err error) {
	// A deadline is for a whole call. A part of 32 MiB on a slow link may take longer than the stall, and that is no
	// failure as long as some of it is sent. So it is sent in pieces.
	for done < len(p) && err == nil {
		if err = s.SetWriteDeadline(time.Now().Add(s.stall)); err == nil {
			var n int
			n, err = s.Conn.Write(p[done:min(len(p), done+sentAtOnce)])
			done += n
		}
	}
	return done, err
}

// sentAtOnce is small beside a part of an upload and large beside a packet.
const sentAtOnce = 64 << 10

// refuseLinkLocal refuses the addresses at which clouds hand out credentials, so that no redirect and no name leads
// there.
// It is called for each address that is dialled, so also for those of redirects.
func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	// These are 169.254.169.254 and fe80::/10 (RFC 3927, 4291). The check comes after the name is resolved, so no name
	// that leads there passes.
	if err == nil && to.Addr().Unmap().IsLinkLocalUnicast() {
		return &failure{kind: fault.KindDenied, text: "the address is one of the machine's own network (link-local), where no data are"}
	}
	return nil
}
