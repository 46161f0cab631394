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

// googleTokens signs requests with the application's default credentials. The library keeps the context that it was
// given for all tokens to come, and waits for one whatever becomes of the request that needs it (oauth2.Transport), so
// tokens are asked for beside the requests: with a context of no request, and with a client that has a timeout. All
// requests that need one share it, and each waits no longer than its own context.
type googleTokens struct {
	web   *http.Transport
	limit time.Duration // of the wait for one token

	lock    sync.Mutex
	source  oauth2.TokenSource // nil before credentials were found
	pending *pendingToken      // nil while nothing is asked for

	asked atomic.Pointer[string] // who was asked for a token last
}

// pendingToken is an answer to come.
// Its members but done are written once, before done is closed, and read afterwards.
type pendingToken struct {
	done   chan struct{}
	began  time.Time
	token  *oauth2.Token
	err    error
	source oauth2.TokenSource
}

// newGoogleTokens bounds the wait for a token, which the library does not.
func newGoogleTokens(c *client) *googleTokens {
	// As long as a connection may take. An attempt may take more, so that the sentence is this file's.
	return &googleTokens{web: c.web, limit: c.storage.patience() / 6}
}

// RoundTrip is one request of the store's library with a token.
// The body is closed on every way out, as http.RoundTripper asks for.
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

// token waits for one. Its error comes before the context's where that has a deadline: the library would take the
// context's in its place (SendRequest of google.golang.org/api/internal/gensupport).
// It waits for nine tenths of the time that is left, so that its error comes first.
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

// ask is the answer that is under way, or a new one. One that is late by the limit is left to itself, source and all,
// whose lock it holds.
// The lock is held for a moment only: the request itself runs in fetch.
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

// fetch keeps no source that came late: another answer may have been asked for by then, and its source counts.
func (g *googleTokens) fetch(p *pendingToken) {
	p.token, p.err = g.find(p)
	g.lock.Lock()
	if g.pending == p {
		g.pending, g.source = nil, p.source
	}
	g.lock.Unlock()
	close(p.done)
}

// find looks for the credentials, where that is still to be done, and has them give a token, which is one of before as
// long as that counts.
// A refusal of the token's server is final where its status is: a key that was revoked does not come back.
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

// failed says who gave no token. Nothing of the library's text is repeated: it quotes requests.
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

// tokenWeb notes whom the library asks for a token: its errors lose the address.
type tokenWeb struct{ tokens *googleTokens }

// RoundTrip sends a request for a token as it is.
func (t tokenWeb) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.URL.Scheme + "://" + r.URL.Host
	t.tokens.asked.Store(&asked)
	return t.tokens.web.RoundTrip(r)
}
