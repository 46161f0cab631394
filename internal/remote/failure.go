package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// Error says why a request failed for good. It holds no secret: URL has no query, and the text comes from this package,
// except for what the system reports about a connection and the short code in a store's answer.
// Kind says whose fault it is and what a program can do. Status and Attempts help people to find the cause.
type Error struct {
	URL      string // without query, name and password
	Status   int    // of the last answer, 0 if there was none
	Attempts int    // number of requests that were made, may be 0
	Kind     fault.Kind
	Text     string // the clause of the sentence

	offset int64
	inner  error // an errno or a context's error, for errors.Is
}

// Error formats the error as all sentences of the engine (package fault).
func (e *Error) Error() string {
	return fault.Sentence(e.FaultPlace(), e.Kind.Family(), e.Text)
}

// FaultKind and FaultPlace are for package fault.
func (e *Error) FaultKind() fault.Kind { return e.Kind }

func (e *Error) FaultPlace() fault.Place {
	return fault.Place{File: e.URL, Record: fault.None, Offset: e.offset}
}

// Unwrap returns an errno or a context's error, and never a library's error, which may quote a request.
func (e *Error) Unwrap() error { return e.inner }

// A failure says why one request failed, and whether the next one may succeed.
// With again, the same request may succeed later; try limits the time and the number of attempts.
type failure struct {
	kind   fault.Kind
	status int
	code   code // the store's own, if it gave one
	text   string
	again  bool          // another attempt is worthwhile
	ended  bool          // the credentials have expired
	after  time.Duration // how long the server wants no further request
	inner  error
}

func (f *failure) Error() string { return f.text }

// code is a store's own code for an answer, such as "SlowDown". It is shown only if it is a word.
// A server may send anything here. A code with other characters than letters, digits and dots is left out.
type code string

func (c code) String() string {
	if c == "" || len(c) > 64 || strings.ContainsFunc(string(c), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.'
	}) {
		return ""
	}
	return " " + string(c)
}

// ErrNoBucket is in the error of an object whose bucket, container or hub dataset does not exist. Such an object also
// counts as a missing file (ENOENT).
var ErrNoBucket = fmt.Errorf("there is no such bucket: %w", syscall.ENOENT)

// noBucket has the codes of answers that say so: of S3 and Google, and of Azure.
var noBucket = map[code]bool{"NoSuchBucket": true, "ContainerNotFound": true}

// expired has the codes for credentials that were valid once. With them the chain is asked for new ones.
var expired = map[code]bool{"ExpiredToken": true, "ExpiredTokenException": true, "TokenRefreshRequired": true, "RequestExpired": true}

// ofStatus makes a failure from the status of an answer. after is its Retry-After.
// Statuses are those of RFC 9110, section 15; codes are the stores' own.
func ofStatus(status int, word code, after time.Duration) *failure {
	f := &failure{kind: fault.KindUnreachable, status: status, code: word, after: after}
	f.text = fmt.Sprintf("the server answered %d %s%v", status, http.StatusText(status), word)
	f.text = strings.Replace(f.text, "  ", " ", 1)
	switch {
	// This comes before the status, which S3 sets to 400 or 403. With new credentials the same request may succeed.
	case expired[word]:
		f.kind, f.again, f.ended = fault.KindDenied, true, true
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		f.kind = fault.KindDenied
	case status == http.StatusNotFound || status == http.StatusGone:
		if f.kind, f.inner = fault.KindIO, syscall.ENOENT; noBucket[word] {
			f.inner = ErrNoBucket
			f.text = "there is no such bucket or container: " + f.text
		}
	// Requests name a version, and ranges inside the size that was found. So either answer means that the object was
	// replaced.
	case status == http.StatusPreconditionFailed || status == http.StatusRequestedRangeNotSatisfiable:
		f.kind, f.text = fault.KindChanged, "it was replaced after it was opened or indexed: "+f.text
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests:
		f.again = true
	case status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported:
		f.kind = fault.KindUnsupported
	// S3's 503 SlowDown and Azure's ServerBusy are among these.
	case status >= 500:
		f.again = true
	case status >= 400:
		f.kind = fault.KindDenied
	default:
		f.kind = fault.KindUnsupported
	}
	return f
}

// classify finds the failure behind an error of a connection.
// An unknown error is worth another attempt, because the number of attempts is limited.
func classify(err error) *failure {
	var (
		known    *failure
		name     *net.DNSError
		op       *net.OpError
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		record   tls.RecordHeaderError
		header   interface{ Timeout() bool }
		system   syscall.Errno
		answered = func(text string) *failure { return &failure{kind: fault.KindUnreachable, text: text, again: true} }
	)
	switch {
	case errors.As(err, &known):
		return known
	// A resolver that did not answer may answer next time; a name that does not exist will not appear.
	// The text has the name, which the user wrote. The library's error would show the resolver's address as well.
	case errors.As(err, &name):
		text := fmt.Sprintf("the name %.200s was not found", name.Name)
		if !name.IsNotFound {
			text = fmt.Sprintf("the name %.200s could not be looked up", name.Name)
		}
		return &failure{kind: fault.KindUnreachable, text: text, again: !name.IsNotFound}
	case errors.As(err, &verify), errors.As(err, &unknown):
		return &failure{kind: fault.KindDenied, text: "the server's certificate is not one to trust"}
	case errors.As(err, &record):
		return &failure{kind: fault.KindUnsupported, text: "the server does not speak TLS"}
	// Go reports a timeout in three ways.
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &header) && header.Timeout():
		return answered("the server did not answer in time")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return answered("the connection ended before the answer did")
	case errors.As(err, &op) && errors.As(op.Err, &system):
		f := answered(fmt.Sprintf("%s: %v", strings.TrimSpace(op.Op+" "+op.Net), system))
		return f
	case errors.As(err, &system):
		return answered(system.Error())
	}
	// The library's text may quote a header or an address, so it is not repeated.
	return answered("the connection failed, or what came over it is no answer")
}

// A goal says what requests are made for. It is used in the sentence of their error.
// offset is fault.None if nothing is read.
type goal struct {
	what    string // "open"
	url     string
	offset  int64
	retried func()
}

// finish makes the error of a failure that is final.
// attempts is 0 if the error was found without a request, or by a library that does not report its attempts.
func (c *client) finish(ctx context.Context, g goal, err error, attempts int, took time.Duration) *Error {
	f := classify(err)
	e := &Error{URL: g.url, Status: f.status, Attempts: attempts, Kind: f.kind, offset: g.offset, inner: f.inner}
	// The end of the caller's context takes precedence over the last request's failure, because it is why nothing more was
	// tried.
	if ended := ctx.Err(); ended != nil {
		e.Kind, e.inner = fault.KindClosed, ended
		f = &failure{text: "the wait for it was ended"}
	}
	tries := ""
	switch {
	case attempts > 1:
		tries = fmt.Sprintf(" in %d attempts and %v", attempts, took.Round(time.Millisecond*10))
	case attempts == 1:
		tries = " in 1 attempt"
	}
	e.Text = "cannot " + g.what + " it" + tries + ": " + f.text
	return e
}

// retryAfter reads the value of that header: seconds or a date. The value is hostile; its user limits it further.
func retryAfter(value string) time.Duration {
	// The format is that of RFC 9110, 10.2.3.
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 86400)) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(min(time.Until(date), 24*time.Hour), 0)
	}
	return 0
}
