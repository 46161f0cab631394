package fetch

import "time"

const (
	// firstRequests is twice what 100 MB/s need at a latency of 20 ms with records of 110 kB. With more, the records of a
	// first batch arrive together at the end, and are decoded only after the last of them. After a round the number is
	// doubled, and then the best number is searched for.
	firstRequests = 48
	moreRequests  = 2
	leastRequests = 4

	// A round is as many answers as requests may be in flight. The number is raised as long as a round's rate is a tenth
	// better than the best before. After roundsApart rounds without that, it is tried again.
	better      = 1.1
	roundsApart = 32
)

// link decides how many requests are in flight. A link is fully used at bandwidth times latency, of which neither is
// known. So the number grows as long as more requests bring more bytes, and shrinks if the store refuses some, because
// refused requests are sent again.
type link struct {
	limit, most int
	best        float64 // bytes per second of the best round
	idle        int     // rounds since the last attempt

	began   time.Time // of the round
	answers int
	bytes   int64
	refused int64 // number of all retries before the round
	retries func() int64
	begun   bool // the first round has ended
	bound   bool // a request had to wait for another one's answer
}

// answer counts a request that has ended.
func (l *link) answer(now time.Time, bytes int64) {
	if l.began.IsZero() {
		l.began = now // at the first answer, because the time before it is latency
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
	case !l.bound: // memory or the order held requests back, so the rate does not show what the link can do
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
