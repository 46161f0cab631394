package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// webStore reads objects of plain HTTP servers by ranges (RFC 9110, section 14). It learns size and version by asking
// for the first byte: a presigned address allows GET but not HEAD, and the answer shows whether the server knows
// ranges.
// It serves S3 and the hub as well, with functions of their own (s3.go, hub_read.go), so that answers to ranges are
// checked in one place.
type webStore struct {
	transport *http.Transport
	stall     time.Duration // a request is given up if no byte comes for so long
	// The functions are what differs between servers that speak HTTP: how the request for an object begins, how it is
	// signed once all its headers are set, what an answer without bytes means, and which redirects are followed.
	request func(context.Context, address) (*http.Request, error)
	sign    func(context.Context, *http.Request) error
	refused func(*http.Response) error
	follow  func(*http.Request, []*http.Request) error
}

// newWebStore makes a store of plain HTTP, where nothing is signed.
func newWebStore(c *client) *webStore {
	return &webStore{transport: c.web, stall: c.stall(), request: plainRequest, refused: refusal, follow: mayFollow,
		sign: func(context.Context, *http.Request) error { return nil }}
}

// plainRequest leaves user and password in the address; Go's library makes basic authentication of them (RFC 7617).
func plainRequest(ctx context.Context, a address) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.web.String(), nil)
	if err != nil {
		return nil, &failure{kind: fault.KindArgument, text: "the address is no URL"}
	}
	return request, nil
}

const (
	mostRedirects = 3
	endWait       = 100 * time.Millisecond // wait for the end of an answer whose bytes have all come
	// The version is an ETag if the server has one, otherwise this prefix with the date of the last change.
	byDate = "Last-Modified: "
)

// head asks for the first byte. The answer 206 has a Content-Range with the object's length.
func (w *webStore) head(ctx context.Context, a address) (int64, string, error) {
	answer, err := w.get(ctx, a, "", 0, 1)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	_, _, size, err := contentRange(answer)
	switch {
	case answer.StatusCode == http.StatusRequestedRangeNotSatisfiable: // only an object without bytes has no first byte
		return w.withoutFirst(ctx, a, answer)
	case answer.StatusCode == http.StatusOK && answer.ContentLength == 0:
		size = 0
	// The request asks for "identity", but some servers ignore that.
	case compressed(answer, 1):
		return 0, "", errCompressed
	case answer.StatusCode == http.StatusOK:
		return 0, "", unsupported("the server has no range requests: it answered a request for one byte with all")
	case answer.StatusCode != http.StatusPartialContent:
		return 0, "", w.refused(answer)
	case err != nil:
		return 0, "", err
	case size < 0:
		return 0, "", errLengthUnsaid
	}
	io.CopyN(io.Discard, answer.Body, 1) // lets the connection be used again
	return size, version(answer), nil
}

var (
	errCompressed   = unsupported("the server compresses what it sends, so that ranges of the object cannot be had")
	errLengthUnsaid = unsupported("the server does not say how long the object is (expected a Content-Range such as \"bytes 0-0/100\")")
)

// compressed is true if the server compressed the answer, so that it does not have the n bytes that were asked for.
// Its header Content-Encoding says so (RFC 9110, 8.4). An object that was stored compressed has that header as well,
// but its answer has the n bytes.
func compressed(answer *http.Response, n int) bool {
	coding := answer.Header.Get("Content-Encoding")
	return answer.StatusCode/100 == 2 && coding != "" && !strings.EqualFold(coding, "identity") && answer.ContentLength != int64(n)
}

// withoutFirst is head for an object whose first byte the server does not give. The object is empty if the server says
// so or if a request for the whole object shows it.
// RFC 9110, 15.5.17: an answer 416 should state the length as "bytes */0".
func (w *webStore) withoutFirst(ctx context.Context, a address, refused *http.Response) (int64, string, error) {
	if _, _, size, err := contentRange(refused); err == nil {
		if size > 0 {
			return 0, "", &failure{kind: fault.KindBadFile, status: refused.StatusCode,
				text: fmt.Sprintf("the server answered 416 to a request for the first byte, and that there are %d", size)}
		}
		return 0, version(refused), nil
	}
	answer, err := w.get(ctx, a, "", 0, 0)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		// Only the body shows that the object is empty, because the answer may lack its length.
		if n, err := answer.Body.Read(make([]byte, 1)); n == 0 && err == io.EOF {
			return 0, version(answer), nil
		}
		return 0, "", unsupported("the server has no range requests: it answered 416 to a request for the first byte")
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, "", unsupported("the server answered 416 Requested Range Not Satisfiable, with a range and without")
	}
	return 0, "", w.refused(answer)
}

// read returns only after the last read of the body, so that nothing writes into p afterwards.
func (w *webStore) read(ctx context.Context, a address, want string, size int64, p []byte, offset int64) (int, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answer, err := w.get(ctx, a, want, offset, len(p))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if err := w.checkRange(answer, want, size, len(p), offset); err != nil {
		return 0, err
	}
	// The body is read into the caller's memory. Nothing is copied, and bytes beyond p are not read.
	n, err := fill(answer.Body, p, w.stall, stop)
	if err != nil {
		return n, err
	}
	// Reading the end lets the connection be used again. A body cannot be longer than its Content-Length. A chunked body
	// ends with one more chunk, which a server may delay; it is not worth a long wait.
	defer time.AfterFunc(endWait, stop).Stop()
	var rest [1]byte
	if more, _ := answer.Body.Read(rest[:]); more > 0 {
		return n, &failure{kind: fault.KindBadFile, text: "the server sent more than it announced"}
	}
	return n, nil
}

// checkRange says what is wrong with an answer to a request for n bytes from offset on.
// The whole head of an answer is checked before any byte of its body is read.
func (w *webStore) checkRange(answer *http.Response, want string, size int64, n int, offset int64) error {
	switch {
	case compressed(answer, n):
		return errCompressed
	case answer.StatusCode == http.StatusOK:
		if offset != 0 || int64(n) != size {
			return unsupported("the server has no range requests: it answered a request for a part with all")
		}
		if answer.ContentLength >= 0 && answer.ContentLength != size {
			return changedSize(size, answer.ContentLength)
		}
	case answer.StatusCode == http.StatusPartialContent:
		first, length, total, err := contentRange(answer)
		switch {
		case err != nil:
			return err
		// The size is checked before the range, because it shows most plainly that an object was replaced.
		case total >= 0 && total != size:
			return changedSize(size, total)
		case first != offset || length != int64(n):
			return &failure{kind: fault.KindBadFile, status: answer.StatusCode, again: true,
				text: fmt.Sprintf("the server sent another range (expected %d bytes from %d on, found %d from %d on)", n, offset, length, first)}
		}
	case answer.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		_, _, total, err := contentRange(answer)
		if err != nil || total == size {
			return w.refused(answer)
		}
		return changedSize(size, total)
	default:
		return w.refused(answer)
	}
	// A server that ignores If-Match still says which version it sends.
	if found := version(answer); want != "" && found != "" && found != want {
		return changedVersion(want, found)
	}
	return nil
}

// changedSize makes the failure of an object whose length differs: it was replaced, whatever its version says.
func changedSize(expected, found int64) error {
	return &failure{kind: fault.KindChanged, text: fmt.Sprintf("it was replaced after it was opened or indexed (expected %d bytes, found %d)", expected, found)}
}

// fill fills p from a body. It ends the request if no byte comes for the time stall: an answer may be slow, but it must
// not stop.
// Each read that brings bytes restarts the clock.
func fill(body io.Reader, p []byte, stall time.Duration, stop func()) (int, error) {
	watch := time.AfterFunc(stall, stop)
	defer watch.Stop()
	done := 0
	for done < len(p) {
		n, err := body.Read(p[done:])
		done += n
		switch {
		case done == len(p):
		case err == io.EOF:
			return done, io.ErrUnexpectedEOF
		case err != nil && !watch.Stop():
			return done, &failure{kind: fault.KindUnreachable, again: true, text: "the server stopped in the midst of its answer"}
		case err != nil:
			return done, err
		case n > 0:
			watch.Reset(stall)
		}
	}
	return done, nil
}

// get makes a request for n bytes. It signs last, because a signature covers the headers that setRange sets.
func (w *webStore) get(ctx context.Context, a address, want string, offset int64, n int) (*http.Response, error) {
	request, err := w.request(ctx, a)
	if err != nil {
		return nil, err
	}
	setRange(request, want, offset, n)
	if err := w.sign(ctx, request); err != nil {
		return nil, err
	}
	client := http.Client{Transport: w.transport, CheckRedirect: w.follow}
	answer, err := client.Do(request)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	return answer, nil
}

// setRange sets the headers for a range. Both ends of a range are inclusive (RFC 9110, 14.1.2).
func setRange(request *http.Request, want string, offset int64, n int) {
	request.Header.Set("User-Agent", "headrace")
	request.Header.Set("Accept-Encoding", "identity")
	if n > 0 { // with 0, the whole object is asked for
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+int64(n)-1))
	}
	// A weak tag matches nothing (RFC 9110, 13.1.1). A date is compared only in the answer: a server with fractions of a
	// second takes every file for newer than the date that it gave itself, and would refuse If-Unmodified-Since.
	if want != "" && !strings.HasPrefix(want, "W/") && !strings.HasPrefix(want, byDate) {
		request.Header.Set("If-Match", want)
	}
}

// version returns the ETag, otherwise the date, otherwise nothing. It is only compared with an earlier one.
func version(answer *http.Response) string {
	if tag := answer.Header.Get("ETag"); tag != "" {
		return tag
	}
	if date := answer.Header.Get("Last-Modified"); date != "" {
		return byDate + date
	}
	return ""
}

// transportError extracts this package's failure from the library's error, because it says more. If the caller ended
// the request, it returns the context's error instead of the connection's.
func transportError(ctx context.Context, err error) error {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// refusal makes the error of an answer without bytes.
func refusal(answer *http.Response) error {
	return ofStatus(answer.StatusCode, "", retryAfter(answer.Header.Get("Retry-After")))
}

// mayFollow allows few redirects, none to another protocol, and none from https to http.
func mayFollow(to *http.Request, via []*http.Request) error {
	// Go's library would send a Referer with the query, which may be a signature.
	to.Header.Del("Referer")
	switch {
	case len(via) > mostRedirects:
		return &failure{kind: fault.KindLimit, text: fmt.Sprintf("the server redirects more than %d times (expected at most that)", mostRedirects)}
	case to.URL.Scheme != "https" && to.URL.Scheme != "http":
		return &failure{kind: fault.KindDenied, text: "the server redirects to what is no web address"}
	// What the user asked for over https must not be sent unencrypted.
	case via[len(via)-1].URL.Scheme == "https" && to.URL.Scheme == "http":
		return &failure{kind: fault.KindDenied, text: "the server redirects from https to http"}
	}
	return nil
}

// stay follows no redirect, because a signature or a token is meant for one host.
// The answer is then the redirect itself, which each caller reads or refuses.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// contentRange reads the header of that name: "bytes 0-9/100", "bytes 0-9/*" or "bytes */100". total is -1 if it is not
// stated.
// A wrong header may come from a proxy, so it is worth another attempt.
func contentRange(answer *http.Response) (first, length, total int64, err error) {
	value := answer.Header.Get("Content-Range")
	wrong := &failure{kind: fault.KindBadFile, status: answer.StatusCode, again: true,
		text: fmt.Sprintf("the server's Content-Range is %.60q (expected one such as \"bytes 0-9/100\")", value)}
	span, all, ok := strings.Cut(strings.TrimPrefix(value, "bytes "), "/")
	if !ok || !strings.HasPrefix(value, "bytes ") {
		return 0, 0, 0, wrong
	}
	if total = -1; all != "*" {
		if total, ok = digits(all); !ok {
			return 0, 0, 0, wrong
		}
	}
	if span == "*" {
		if total < 0 {
			return 0, 0, 0, wrong
		}
		return 0, 0, total, nil
	}
	from, to, ok := strings.Cut(span, "-")
	// digits accepts digits only, because ParseInt would accept a sign.
	first, ok1 := digits(from)
	last, ok2 := digits(to)
	if !ok || !ok1 || !ok2 || last < first || (total >= 0 && last >= total) {
		return 0, 0, 0, wrong
	}
	return first, last - first + 1, total, nil
}

// digits refuses signs, spaces and numbers that do not fit 63 bits.
func digits(text string) (int64, bool) {
	value, err := strconv.ParseUint(text, 10, 63)
	return int64(value), err == nil
}

func (w *webStore) list(context.Context, address, string, func(Entry) error) (string, error) {
	return "", unsupported("a server of plain HTTP has no lists; files there are named, with braces as in {000..146} or in a list")
}
