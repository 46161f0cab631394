//go:build !headrace_nocloud

package remote

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/gcp"
	"golang.org/x/oauth2"

	"github.com/headrace/headrace/internal/fault"
)

// googleTokens signs requests with the application's default credentials. The library uses the context that it was
// given for all later tokens, and waits for a token even after the request that needs it has ended (oauth2.Transport).
// So tokens are asked for beside the requests, with a context of their own and a client that has a timeout. All
// requests that need a token share the answer, and each waits no longer than its own context allows.
type googleTokens struct {
	web   *http.Transport
	limit time.Duration // of the wait for one token

	lock    sync.Mutex
	source  oauth2.TokenSource // nil until credentials are found
	pending *pendingToken      // nil if no token is being asked for

	asked atomic.Pointer[string] // the server that was last asked for a token
}

// pendingToken is an answer that has not come yet.
// All members except done are written once before done is closed, and are read only after that.
type pendingToken struct {
	done   chan struct{}
	began  time.Time
	token  *oauth2.Token
	err    error
	source oauth2.TokenSource
}

// newGoogleTokens sets the limit of the wait for a token, because the library has none.
func newGoogleTokens(c *client) *googleTokens {
	// The limit is that of a connection. An attempt may take longer, so the error is the one of this file.
	return &googleTokens{web: c.web, limit: c.storage.patience() / 6}
}

// RoundTrip sends one request of the store's library with a token.
// It closes the body on every way out, as http.RoundTripper requires.
func (g *googleTokens) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := g.token(r.Context())
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	signed := r.Clone(r.Context())
	token.SetAuthHeader(signed)
	return g.web.RoundTrip(signed)
}

// token waits for a token. If the context has a deadline, token's own error has to come first, because the library
// would replace it by the context's error (SendRequest of google.golang.org/api/internal/gensupport).
// So it waits for nine tenths of the time that is left.
func (g *googleTokens) token(ctx context.Context) (*oauth2.Token, error) {
	limit := g.limit
	if ends, some := ctx.Deadline(); some {
		limit = min(limit, time.Until(ends)*9/10)
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	pending := g.ask()
	select {
	case <-pending.done:
		return pending.token, pending.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, g.failed("gave none in time", fault.KindUnreachable, 0, true)
	}
}

// ask returns the answer that is under way, or asks for a new one. An answer that is later than the limit is abandoned,
// together with its source, whose lock it holds.
// The lock here is held only for a moment, because fetch makes the request.
func (g *googleTokens) ask() *pendingToken {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.pending != nil {
		if time.Since(g.pending.began) < g.limit {
			return g.pending
		}
		g.source = nil
	}
	p := &pendingToken{done: make(chan struct{}), began: time.Now(), source: g.source}
	g.pending = p
	go g.fetch(p)
	return p
}

// fetch drops the source of a late answer: another answer may have been asked for since, and then its source is used.
func (g *googleTokens) fetch(p *pendingToken) {
	p.token, p.err = g.find(p)
	g.lock.Lock()
	if g.pending == p {
		g.pending, g.source = nil, p.source
	}
	g.lock.Unlock()
	close(p.done)
}

// find looks for the credentials, unless that was done, and asks them for a token. They return an earlier token as long
// as it is valid.
// A refusal by the token's server is final if its status is final: a key that was revoked does not come back.
func (g *googleTokens) find(p *pendingToken) (*oauth2.Token, error) {
	if p.source == nil {
		lasting := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: tokenWeb{g}, Timeout: g.limit})
		found, err := gcp.DefaultCredentials(lasting)
		if err != nil {
			return nil, &failure{kind: fault.KindDenied, text: `no credentials of Google were found (GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the machine's; storage={"anonymous": True} does without)`}
		}
		p.source = found.TokenSource
	}
	token, err := p.source.Token()
	if err == nil {
		return token, nil
	}
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) && refused.Response != nil {
		status := refused.Response.StatusCode
		if meant := ofStatus(status, "", 0); !meant.again {
			return nil, g.failed("refused one", fault.KindDenied, status, false)
		}
		return nil, g.failed("gave none", fault.KindUnreachable, status, true)
	}
	return nil, g.failed("gave none", fault.KindUnreachable, 0, true)
}

// failed says which server gave no token. The library's text is not repeated, because it quotes requests.
func (g *googleTokens) failed(what string, kind fault.Kind, status int, again bool) *failure {
	who := "the server of Google's tokens"
	if asked := g.asked.Load(); asked != nil {
		who += " " + *asked
	}
	text := who + " " + what
	if status != 0 {
		text += ": " + ofStatus(status, "", 0).text
	}
	return &failure{kind: kind, status: status, text: text, again: again}
}

// tokenWeb notes which server the library asks for a token, because the library's errors do not say it.
type tokenWeb struct{ tokens *googleTokens }

// RoundTrip sends a request for a token unchanged.
func (t tokenWeb) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.URL.Scheme + "://" + r.URL.Host
	t.tokens.asked.Store(&asked)
	return t.tokens.web.RoundTrip(r)
}
