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

// A client is what all objects of one storage share: connections, counts, and what was seen of the
// time that requests take.
// It is kept as long as the process runs: there are as many as there are storages, mostly one.
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
	// By the whole Storage, for any option makes other requests.
	clients = make(map[Storage]*client)
)

// The variables that the stores' libraries ask for begin so.
var variables = []string{"AWS_", "AZURE_", "GOOGLE_", "GCE_", "GCLOUD_", "CLOUDSDK_", "HF_", "HUGGING", "XDG_", "HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_"}

// followEnvironment has clients made anew where the program has changed the environment: its credentials may be
// others. Objects that are open keep theirs.
func followEnvironment() {
	clientsLock.Lock()
	defer clientsLock.Unlock()
	// os.Setenv of Python changes C's environment, of which Go keeps a copy.
	if environment.Follow(variables...) {
		clear(clients)
	}
}

// clientOf is the client of a storage. One that was kept (Storage.Kept) has its own, whatever the environment says by now.
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

// store is that of a scheme, made when it is first asked for: credentials are looked for then.
// A store is made under the lock, once a client and scheme: two would look for credentials twice.
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

// newTransport is for many small requests at once to few hosts: connections are kept, not shared by
// HTTP/2, whose one connection and its windows bound the rate, and bytes come as they are stored.
func newTransport(s Storage) *http.Transport {
	total := s.patience()
	dialer := &net.Dialer{Timeout: total / 6, KeepAlive: 15 * time.Second, Control: refuseLinkLocal}
	// Of the environment now: http.ProxyFromEnvironment knows that of its first call alone.
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
		// Short of an attempt, so that a host that takes connections and says nothing costs a part of it.
		TLSHandshakeTimeout:   total / 6,
		TLSClientConfig:       trust(),
		ResponseHeaderTimeout: total / attemptPart,
		// An answer's head is hostile as well; Go's own bound is 10 MiB.
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        50 * time.Second, // below the minute after which servers close
		// Go would else ask for gzip and decompress it, and ranges would be of other bytes.
		DisableCompression: true,
		TLSNextProto:       make(map[string]func(string, *tls.Conn) http.RoundTripper), // no HTTP/2
	}
}

// sending is a connection that ends where the other side takes nothing for so long: the library bounds the wait for
// an answer, which begins when a request was sent, and not the sending of a part of an upload.
// It wraps every connection, TLS included, below the encryption.
type sending struct {
	net.Conn
	stall time.Duration
}

// Write sends p in pieces, each of which has the time of a stall.
func (s *sending) Write(p []byte) (done int, err error) {
	// In pieces, for a deadline is of a whole call: a part of 32 MiB on a slow link may take longer than the stall,
	// as long as some of it goes.
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

// refuseLinkLocal keeps redirects and names from the addresses at which clouds hand out credentials.
// It is asked for each address that is dialled, so also for those of redirects.
func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	// 169.254.169.254 and fe80::/10 (RFC 3927, 4291). When the name is resolved, so that no name that leads there
	// passes.
	if err == nil && to.Addr().Unmap().IsLinkLocalUnicast() {
		return &failure{kind: fault.KindDenied, text: "the address is one of the machine's own network (link-local), where no data are"}
	}
	return nil
}
