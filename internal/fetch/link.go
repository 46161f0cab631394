package fetch

import "time"

const (
	// Enough for 100 MB/s at 20 ms with records of 110 kB, twice over; with more the records of a first batch
	// come together at last, and are decoded behind the last of them. After a round there are twice as many,
	// of which what is better is found.
	firstRequests = 48
	moreRequests  = 2
	leastRequests = 4

	// A round is as many answers as requests may be in flight. More are tried while a round's rate
	// is better by a tenth than the best before; after so many rounds without that, again.
	better      = 1.1
	roundsApart = 32
)

// link decides how many requests are in flight. What fills a link is bandwidth times latency, of which
// neither is known: the number grows while more requests bring more bytes, and shrinks where the store
// refuses some, for those that it refuses are sent again.
type link struct {
	limit, most int
	best        float64 // bytes a second of the best round
	idle        int     // rounds since the last attempt

	began   time.Time // of the round
	answers int
	bytes   int64
	refused int64 // all retries before it
	retries func() int64
	begun   bool // the first round has ended
	bound   bool // a request had to wait for another one's answer
}

// answer counts a request that has ended.
func (l *link) answer(now time.Time, bytes int64) {
	if l.began.IsZero() {
		l.began = now // the first answer: what came before it is latency
		return
	}
	l.answers++
	l.bytes += bytes
	if l.answers < l.limit {
		return
	}
	retries := l.refused
	if l.retries != nil {
		retries = l.retries()
	}
	rate := float64(l.bytes) / max(now.Sub(l.began).Seconds(), 1e-6)
	switch {
	case retries-l.refused > int64(l.answers/4):
		l.limit, l.best, l.idle = max(leastRequests, l.limit/2), 0, 0
	case !l.bound: // memory or the order held requests back, so the rate says nothing of the link
	case !l.begun:
		l.begun, l.best, l.limit = true, rate, min(l.most, l.limit*moreRequests)
	case rate > l.best*better:
		l.best, l.idle = rate, 0
		l.limit = min(l.most, l.limit+l.limit/2)
	default:
		if l.idle++; l.idle >= roundsApart {
			l.best, l.idle = rate/better, 0
		}
	}
	l.began, l.answers, l.bytes, l.refused, l.bound = now, 0, 0, retries, false
}
