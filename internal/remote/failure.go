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

// Error is what remains of a request when nothing more is tried. It has no secret in it: URL has no
// query, and the text is from this package, but for what the system says of a connection and the short
// code of a store's answer.
// Kind says whose fault it is and what a program can do; Status and Attempts are for people who look into it.
type Error struct {
	URL      string // without query, name and password
	Status   int    // of the last answer, 0 where there was none
	Attempts int    // requests that were made for it, 0 where none was
	Kind     fault.Kind
	Text     string // the clause

	offset int64
	inner  error // an errno or a context's error, for errors.Is
}

// Error has the form of all of the engine's sentences (package fault).
func (e *Error) Error() string {
	return fault.Sentence(e.FaultPlace(), e.Kind.Family(), e.Text)
}

// FaultKind and FaultPlace are for package fault.
func (e *Error) FaultKind() fault.Kind { return e.Kind }

func (e *Error) FaultPlace() fault.Place {
	return fault.Place{File: e.URL, Record: fault.None, Offset: e.offset}
}

// Unwrap gives an errno or a context's error, never a library's, which may quote a request.
func (e *Error) Unwrap() error { return e.inner }

// A failure is why one request failed, and whether the next may not.
// again means that the same request may succeed; the caller's time and the number of attempts bound it (try).
type failure struct {
	kind   fault.Kind
	status int
	text   string
	again  bool          // worth another try
	ended  bool          // the credentials have
	after  time.Duration // which the server wants to be left alone for
	inner  error
}

func (f *failure) Error() string { return f.text }

// code is a store's own word for an answer, such as "SlowDown", which is shown where it is a word.
// A server may put anything there: what is not a word of letters, digits and dots is left out.
type code string

func (c code) String() string {
	if c == "" || len(c) > 64 || strings.ContainsFunc(string(c), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.'
	}) {
		return ""
	}
	return " " + string(c)
}

// ErrNoBucket is in the error of an object whose bucket, container or dataset of the hub does not exist, which is a
// missing file, too.
var ErrNoBucket = fmt.Errorf("there is no such bucket: %w", syscall.ENOENT)

// noBucket are codes of answers that say so: S3's and Google's, Azure's.
var noBucket = map[code]bool{"NoSuchBucket": true, "ContainerNotFound": true}

// expired are codes of credentials that were right once: the chain is asked for new ones.
var expired = map[code]bool{"ExpiredToken": true, "ExpiredTokenException": true, "TokenRefreshRequired": true, "RequestExpired": true}

// ofStatus is the failure that an answer's status means. After is its Retry-After.
// Statuses are RFC 9110's, section 15; codes are the stores' own.
func ofStatus(status int, word code, after time.Duration) *failure {
	f := &failure{kind: fault.KindUnreachable, status: status, after: after}
	f.text = fmt.Sprintf("the server answered %d %s%v", status, http.StatusText(status), word)
	f.text = strings.Replace(f.text, "  ", " ", 1)
	switch {
	// Before the status, which is 400 or 403 for S3: with new credentials the same request may succeed.
	case expired[word]:
		f.kind, f.again, f.ended = fault.KindDenied, true, true
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		f.kind = fault.KindDenied
	case status == http.StatusNotFound || status == http.StatusGone:
		if f.kind, f.inner = fault.KindIO, syscall.ENOENT; noBucket[word] {
			f.inner = ErrNoBucket
			f.text = "there is no such bucket or container: " + f.text
		}
	// Requests name a version and ranges inside of the size that was found: either answer means that the object is
	// another one.
	case status == http.StatusPreconditionFailed || status == http.StatusRequestedRangeNotSatisfiable:
		f.kind, f.text = fault.KindChanged, "it was replaced after it was opened or indexed: "+f.text
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests:
		f.again = true
	case status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported:
		f.kind = fault.KindUnsupported
	// Of S3 also 503 SlowDown, of Azure ServerBusy.
	case status >= 500:
		f.again = true
	case status >= 400:
		f.kind = fault.KindDenied
	default:
		f.kind = fault.KindUnsupported
	}
	return f
}

// classify is the failure behind an error of a connection.
// Anything that is not recognised is worth another try, for the number of tries is bounded.
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
	// A resolver that does not answer may the next time; one that knows no such name will not.
	// The text has the name, which the user wrote; errors of the library would have the resolver's address as well.
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
	// Three ways in which Go says that a time has passed.
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
	// What a library says may quote a header or an address, and is not repeated.
	return answered("the connection failed, or what came over it is no answer")
}

// A goal is what requests are made for, for the sentence of its error.
// offset is fault.None where nothing is read.
type goal struct {
	what    string // "open"
	url     string
	offset  int64
	retried func()
}

// finish makes the error of a failure that stays.
// attempts is 0 for an error that was found without a request, or by a library that does not say how often it tried.
func (c *client) finish(ctx context.Context, g goal, err error, attempts int, took time.Duration) *Error {
	f := classify(err)
	e := &Error{URL: g.url, Status: f.status, Attempts: attempts, Kind: f.kind, offset: g.offset, inner: f.inner}
	// The caller's end goes before whatever the last request said: it is why nothing more was tried.
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

// retryAfter is what the header of that name says: seconds or a date. It is hostile, and bounded where
// it is used.
func retryAfter(value string) time.Duration {
	// RFC 9110, 10.2.3.
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 86400)) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(min(time.Until(date), 24*time.Hour), 0)
	}
	return 0
}
